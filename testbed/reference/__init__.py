"""Writes the generated part of docs/reference from the CRDs, flags, series and commands (`make docs`)."""
