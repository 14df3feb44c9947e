"""Federated autoscaling for Kubernetes: what the three processes share (docs/explanation/architecture.md)."""
