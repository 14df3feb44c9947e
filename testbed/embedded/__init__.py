"""A small Kubernetes API server with simulated members.

See docs/decisions/0007-size-of-the-embedded-plane.md.
"""
