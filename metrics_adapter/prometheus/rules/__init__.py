"""The rules that map metrics to queries of a metrics store."""
