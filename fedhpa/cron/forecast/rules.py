"""The rules of a CronFederatedHPA that will run, with their timetables and values."""

from __future__ import annotations

from typing import Final

import msgspec

from fedhpa.api.cronfederatedhpa import CronFederatedHPARule, CronFederatedHPASpec
from fedhpa.api.errors import InvalidObject
from fedhpa.cron.execution.model import MAXIMUM, MINIMUM, REPLICAS
from fedhpa.cron.execution.objects import targets_federatedhpa
from fedhpa.cron.timetables import Timetable, timetable

# As many as an object may have.
MAX_RULES: Final = 1000
# Dates are parsed one by one, and must not delay admission.
_MAX_DATES: Final = 20_000
# The maximum length of a name in the CRD.
_MAX_NAME: Final = 32


class ActiveRule(msgspec.Struct, frozen=True):
    """A valid rule that is not suspended.

    `label` names it in warnings. `minimum` and `maximum` are set if the target is a FederatedHPA, and
    `replicas` if it is a workload.
    """

    label: str
    timetable: Timetable
    minimum: int | None = None
    maximum: int | None = None
    replicas: int | None = None
    max_delay: int | None = None

    @property
    def values(self) -> dict[str, int]:
        """The values that an execution sets, by field."""
        fields = ((MINIMUM, self.minimum), (MAXIMUM, self.maximum), (REPLICAS, self.replicas))
        return {field: value for field, value in fields if value is not None}

    def __str__(self) -> str:
        return self.label


def active_rules(spec: CronFederatedHPASpec) -> list[ActiveRule]:
    """Returns the rules that will run, in order, without suspended and invalid ones."""
    fhpa = targets_federatedhpa(spec)
    found = []
    dates = 0
    for index, rule in enumerate(spec.rules[:MAX_RULES]):
        dates += len(rule.exclude_dates)
        if dates > _MAX_DATES:
            break
        if not rule.suspend:
            active = _active_rule(rule, index, targets_fhpa=fhpa)
            if active is not None:
                found.append(active)
    return found


def _active_rule(rule: CronFederatedHPARule, index: int, *, targets_fhpa: bool) -> ActiveRule | None:
    try:
        table = timetable(rule)
    except InvalidObject:
        return None
    label = f"spec.rules[{index}] ({_shortened(rule.name)})"
    delay = rule.max_delay_seconds
    if targets_fhpa:
        return ActiveRule(label, table, rule.target_min_replicas, rule.target_max_replicas, max_delay=delay)
    return ActiveRule(label, table, replicas=rule.target_replicas, max_delay=delay)


def _shortened(name: str) -> str:
    return name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME - 3]}..."
