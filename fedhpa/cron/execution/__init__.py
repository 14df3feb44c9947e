"""The execution of rules: which fires are owed, which windows are open, and which values should hold now.

All CronFederatedHPAs of one target are planned together. `plan` returns the write that is due, and `settle`
the statuses after the write succeeded or failed. Both are pure: the present values of the target, the stored
state and the time are arguments. Instants are POSIX seconds.

Where to look:

- `records`: the inputs and the stored state.
- `watermark`: the instant up to which a rule is handled.
- `owed`: the fires after the watermark.
- `holding`: the values that plain fires and windows keep in force.
- `stored`: the state in the records of objects and targets.
- `status`: the state that people see.
- `preview`: the plans of the coming days.
"""

from fedhpa.cron.execution.attempts import Attempts
from fedhpa.cron.execution.dropped import DROPPED, RULE_FIELDS, dropped_fields, without_dropped
from fedhpa.cron.execution.owed import latest_fire
from fedhpa.cron.execution.planning import SOMEBODY, plan
from fedhpa.cron.execution.plans import Applied, Cause, Plan, split_markers
from fedhpa.cron.execution.preview import UNKNOWN, Conflict, Preview, Step, conflict_of
from fedhpa.cron.execution.records import (
    MAXIMUM,
    MINIMUM,
    REPLICAS,
    Execution,
    Failure,
    Missed,
    Note,
    OpenWindow,
    Rule,
    RuleState,
    ScheduledObject,
    Target,
    Values,
    WindowRecord,
)
from fedhpa.cron.execution.rules import executable_rules, schedule_hash
from fedhpa.cron.execution.settling import Settled, settle
from fedhpa.cron.execution.status import (
    SCALE_FAILED,
    edited_at,
    failing_text,
    read_cron,
    read_object,
    write_histories,
)
from fedhpa.cron.execution.stored import (
    TargetReference,
    decode_rules,
    decode_windows,
    encode_rules,
    encode_windows,
    shortened,
)

__all__ = [
    "DROPPED",
    "MAXIMUM",
    "MINIMUM",
    "REPLICAS",
    "RULE_FIELDS",
    "SCALE_FAILED",
    "SOMEBODY",
    "UNKNOWN",
    "Applied",
    "Attempts",
    "Cause",
    "Conflict",
    "Execution",
    "Failure",
    "Missed",
    "Note",
    "OpenWindow",
    "Plan",
    "Preview",
    "Rule",
    "RuleState",
    "ScheduledObject",
    "Settled",
    "Step",
    "Target",
    "TargetReference",
    "Values",
    "WindowRecord",
    "conflict_of",
    "decode_rules",
    "decode_windows",
    "dropped_fields",
    "edited_at",
    "encode_rules",
    "encode_windows",
    "executable_rules",
    "failing_text",
    "latest_fire",
    "plan",
    "read_cron",
    "read_object",
    "schedule_hash",
    "settle",
    "shortened",
    "split_markers",
    "without_dropped",
    "write_histories",
]
