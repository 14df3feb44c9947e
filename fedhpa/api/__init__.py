"""The API: quantities, times, the models of the objects, their defaults, validation and CRDs."""
