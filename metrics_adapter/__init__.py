"""The metrics adapter: an aggregated API server that answers for all member clusters as if they were one."""
