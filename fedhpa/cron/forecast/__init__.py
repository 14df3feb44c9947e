"""A forecast of what the rules of a CronFederatedHPA will do, as admission warnings.

`warnings` has the entry point. `conflicts` finds rules that cannot all act.
"""
