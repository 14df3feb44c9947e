"""What a FederatedHPA asks for: its spec with defaults applied and quantities parsed."""
