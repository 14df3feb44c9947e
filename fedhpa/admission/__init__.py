"""Admission: defaults, verdicts and warnings of the webhook, and the CRDs. Pure functions of the object."""
