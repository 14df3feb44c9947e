"""Scenarios of the metrics adapter: CPU, latency and memory of a real adapter process."""
