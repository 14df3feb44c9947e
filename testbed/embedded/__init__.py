"""A small Kubernetes API server with simulated members, in Python (docs/decisions/0007-size-of-the-embedded-plane.md)."""
