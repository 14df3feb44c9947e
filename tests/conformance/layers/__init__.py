"""Which layer refuses what: the same objects before our validation and before the CRD alone."""
