"""The execution of rules: which of them are due, which windows are open, and which values should hold now.

All CronFederatedHPAs of one target are planned together. `planning.plan` returns the write that is due, and
`outcome.settle` the states after the write succeeded or failed. Both are pure: the present values of the
target, the stored state and the time are arguments. Instants are POSIX seconds.

- `model`: the inputs, the stored state, and the plan.
- `objects`: the rules that an object has, their states from its status, and the status from their states.
- `stored`: the states in the records of objects and targets.
- `due`: the executions after the watermark of a rule.
- `windows`: the values that plain executions and windows keep in force.
- `preview`: the plans of the coming days.
"""
