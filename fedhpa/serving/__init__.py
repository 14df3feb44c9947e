"""Serving code of all processes: flags, TLS, health, Prometheus metrics, authentication and access review."""
