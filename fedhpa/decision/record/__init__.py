"""The decision record's JSON: scenarios, decisions, and the status that a FederatedHPA carries.

Format: docs/reference/decision-record.md.
"""
