"""The controller of CronFederatedHPAs: applies what the rules of each target say at the present time.

`fedhpa.cron.execution` decides; this package reads and writes. `objects` has the objects by target, `targets`
the values of a target, `wakeups` the times at which targets are due, `reconciler` one pass over one target,
and `status` what people see.
"""

from controller.cronfederatedhpa.controller import CronController
from controller.cronfederatedhpa.reconciler import CronReconciler
from controller.cronfederatedhpa.targets import Targets
from controller.cronfederatedhpa.telemetry import CronMetrics

__all__ = ["CronController", "CronMetrics", "CronReconciler", "Targets"]
