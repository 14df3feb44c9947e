"""Admission of both kinds: defaults, validation, warnings, CEL rules and the generated CRDs. Pure."""
