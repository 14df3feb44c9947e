"""The TLS listener of a plane, its certificates, and faults on the wire."""
