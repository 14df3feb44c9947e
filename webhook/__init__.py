"""The admission webhook: validates and defaults both kinds, by their object alone."""
