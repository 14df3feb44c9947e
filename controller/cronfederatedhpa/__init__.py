"""The controller of CronFederatedHPAs: applies what the rules of each target say at the present time.

`fedhpa.cron.execution` decides; this package reads and writes. `objects` has the objects by target, `targets`
the values of a target, `wakeups` the times at which targets are due, `reconciler` one pass over one target,
`status` what people see, `reporter` tells of what was done, and `one_shot` reads a target once for the
command line.
"""

from controller.cronfederatedhpa.controller import CronController
from controller.cronfederatedhpa.foreign import is_run_by_karmada
from controller.cronfederatedhpa.one_shot import Unit, read_target, units_of, values_of
from controller.cronfederatedhpa.reconciler import CronReconciler
from controller.cronfederatedhpa.targets import Targets
from controller.cronfederatedhpa.telemetry import CronMetrics

__all__ = [
    "CronController",
    "CronMetrics",
    "CronReconciler",
    "Targets",
    "Unit",
    "is_run_by_karmada",
    "read_target",
    "units_of",
    "values_of",
]
