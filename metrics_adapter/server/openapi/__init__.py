"""OpenAPI v2 and v3, which the hub merges for `kubectl explain` and for validation in clients."""
