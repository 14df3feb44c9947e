"""The rules of a CronFederatedHPA that will run, with their timetables and values."""

from __future__ import annotations

from typing import Final

import msgspec

from fedhpa.api.cronfederatedhpa import CronFederatedHPARule, CronFederatedHPASpec
from fedhpa.api.errors import InvalidObject
from fedhpa.api.federatedhpa import API_VERSION, KIND
from fedhpa.cron.timetable import Timetable, timetable

# A forecast has few warnings and must not delay admission, so it covers only the first rules of an object.
MAX_RULES: Final = 256
# Dates are parsed one by one, and 256 rules can list ninety thousand of them.
_MAX_DATES: Final = 4000
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


def targets_federatedhpa(spec: CronFederatedHPASpec) -> bool:
    """True if the target is a FederatedHPA, whose bounds the rules change."""
    target = spec.scale_target_ref
    return (target.api_version, target.kind) == (API_VERSION, KIND)


def _active_rule(rule: CronFederatedHPARule, index: int, *, targets_fhpa: bool) -> ActiveRule | None:
    try:
        times = timetable(rule)
    except InvalidObject:
        return None
    label = f"spec.rules[{index}] ({_shortened(rule.name)})"
    if targets_fhpa:
        return ActiveRule(label, times, rule.target_min_replicas, rule.target_max_replicas)
    return ActiveRule(label, times, replicas=rule.target_replicas)


def _shortened(name: str) -> str:
    return name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME - 3]}..."
