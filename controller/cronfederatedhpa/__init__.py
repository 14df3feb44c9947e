"""The controller of CronFederatedHPAs: applies what the rules of each target say at the present time.

`fedhpa.cron.execution` decides; this package reads and writes. Where to look:

- `objects`: the objects by target, and writes to them.
- `targets`: the values of a target; `other_actors`: who else sets them, or runs the rules.
- `units`: the targets with the windows that are open on them, and what outlives the process.
- `reconciler`: one pass over one target.
- `rules_status`: the status that people see.
- `reporter`: the events and metrics of what was done.
- `one_shot`: one read of a target for the command line.
"""

from controller.cronfederatedhpa.one_shot import (
    PlannedTarget,
    Remembered,
    planned_targets,
    read_memory,
    read_target,
    values_of,
)
from controller.cronfederatedhpa.other_actors import is_run_by_karmada
from controller.cronfederatedhpa.reconciler import CronReconciler
from controller.cronfederatedhpa.reporter import CronMetrics
from controller.cronfederatedhpa.targets import CronTargets
from controller.cronfederatedhpa.worker import CronWorker

__all__ = [
    "CronMetrics",
    "CronReconciler",
    "CronTargets",
    "CronWorker",
    "PlannedTarget",
    "Remembered",
    "is_run_by_karmada",
    "planned_targets",
    "read_memory",
    "read_target",
    "values_of",
]
