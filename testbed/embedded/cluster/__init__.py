"""A simulated member cluster: nodes, pods, controllers, load and metrics."""
