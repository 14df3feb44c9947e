"""Validation: one ordered list of field errors per object."""
