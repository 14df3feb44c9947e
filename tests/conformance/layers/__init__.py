"""Compares the answers of the webhook and of the CRD alone to the same objects."""
