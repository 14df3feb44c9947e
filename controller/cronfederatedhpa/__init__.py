"""The controller of CronFederatedHPAs: applies what the rules of each target say at the present time.

`fedhpa.cron.execution` decides; this package reads and writes. Where to look:

- `objects`: the objects by target, and writes to them.
- `targets`: the values of a target, and writes to it.
- `units`: what is known of each target, what outlives the process, and who else runs the rules.
- `reconciler`: one pass over one target.
- `reporter`: the status, the events and the series of what was done.
- `worker`: the targets of one shard, when they are due, and who else sets their sizes.
- `one_shot`: one read of a target for the command line.
"""

from controller.cronfederatedhpa.objects import RULE_FIELDS
from controller.cronfederatedhpa.one_shot import PlannedTarget, planned_targets, read_target, values_of
from controller.cronfederatedhpa.reconciler import CronReconciler
from controller.cronfederatedhpa.reporter import CronMetrics
from controller.cronfederatedhpa.targets import CronTargets, MemberScales
from controller.cronfederatedhpa.units import is_run_by_karmada
from controller.cronfederatedhpa.worker import CronWorker, WorkloadOwners
