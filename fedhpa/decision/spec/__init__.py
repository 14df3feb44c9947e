"""The spec of a FederatedHPA, with defaults applied and quantities parsed."""
