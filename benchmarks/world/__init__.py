"""An emulated fleet: API servers, clusters with their controllers, and load, in virtual time."""
