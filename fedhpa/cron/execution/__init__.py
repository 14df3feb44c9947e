"""The execution of rules: which of them are due, which windows are open, and which values should hold now.

All CronFederatedHPAs of one target are planned together. `planning.CronPlan` has the write that is due, and
`outcome.settle` the states after the write succeeded or failed. Both are pure: the present values of the
target, the stored state and the time are arguments. Instants are POSIX seconds.

- `model`: the inputs, the stored state, and the plan.
- `objects`: the rules and the states in an object and its status, and the states in records.
- `windows`: the values that plain executions and windows keep in force.
- `planning`, `outcome`: the plan, and the states after its write.
- `simulation`: the plans of the coming days.
"""
