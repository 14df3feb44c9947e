"""Metrics read from the member clusters and merged."""
