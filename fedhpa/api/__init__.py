"""The API: models of the objects, metric types, quantities, times, selectors and field errors."""
