"""A forecast of what the rules of a CronFederatedHPA will do, as admission warnings.

`warnings` has the entry point. `bounds`, `conflicts` and `clock_changes` each find one kind of problem.
"""
