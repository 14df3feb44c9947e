"""The CEL rules in the CRDs. The API server enforces them even while no webhook runs."""
