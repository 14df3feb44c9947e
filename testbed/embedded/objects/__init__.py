"""The kinds that are served, and their schemas, defaults and validation."""
