"""A scenario to watch: one workload in three clusters, under changing load and with a lost cluster."""
