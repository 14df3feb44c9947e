"""A scenario for people to watch: one workload over three clusters, under load, refusal and loss."""
