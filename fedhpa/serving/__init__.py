"""What the processes serve with: flags, TLS, health, Prometheus metrics, authentication and access review."""
