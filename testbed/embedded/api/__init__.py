"""Answers requests: reads them, runs the verb, and writes objects, lists, tables, watches or a Status."""
