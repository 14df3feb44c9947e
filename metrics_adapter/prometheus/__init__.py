"""Metrics read from a metrics store (Prometheus, Thanos, Mimir) by rules: --metrics-source=prometheus."""
