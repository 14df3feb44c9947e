"""The scenarios of mode Distributed: each member scales by an HPA of its own."""
