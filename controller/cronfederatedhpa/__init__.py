"""The controller of CronFederatedHPAs: applies what the rules of each target say at the present time.

`fedhpa.cron.execution` decides; this package reads and writes. Where to look:

- `objects`: the objects by target, and writes to them.
- `scales`: the size of a workload, on the hub or in the members.
- `units`: what is known of each target, what outlives the process, and who else runs the rules.
- `targets`: the values of a target, and the write of what is due.
- `reporter`: the status, the events and the series of what was done, and who else scales a target.
- `reconciler`: the targets of one shard, when they are due, and one pass over each.
- `one_shot`: one read of a target for the command line.
"""

from controller.cronfederatedhpa.objects import RULE_FIELDS
from controller.cronfederatedhpa.one_shot import PlannedTarget, planned_targets, read_target, values_of
from controller.cronfederatedhpa.reconciler import CronReconciler
from controller.cronfederatedhpa.reporter import CronMetrics, WorkloadOwners
from controller.cronfederatedhpa.scales import MemberScales
from controller.cronfederatedhpa.targets import CronTargets
from controller.cronfederatedhpa.units import is_run_by_karmada
