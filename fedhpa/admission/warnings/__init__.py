"""Admission warnings: remedies for refusals, and admitted settings that are probably mistakes."""
