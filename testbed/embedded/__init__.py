"""The embedded control plane; not built yet (docs/decisions/0001)."""
