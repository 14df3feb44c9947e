"""What the rules of an object plan: the ones that run, with their timetables and values."""

from __future__ import annotations

from typing import Final

import msgspec

from fedhpa.api.cronfederatedhpa import CronFederatedHPARule, CronFederatedHPASpec
from fedhpa.api.errors import InvalidObject
from fedhpa.api.federatedhpa import API_VERSION, KIND
from fedhpa.cron.timetable import Timetable, timetable

# Admission is quick and warnings are few: of an object with more rules, these many are looked at.
MAX_PLANS: Final = 256
# Dates are read one by one, and 256 rules can list ninety thousand of them.
_MAX_DATES: Final = 4000
# As long as the CRD lets a name be.
_MAX_NAME: Final = 32


class Plan(msgspec.Struct, frozen=True):
    """A rule that runs. The bounds are set where the target is a FederatedHPA, the size where it is not."""

    shown: str
    timetable: Timetable
    minimum: int | None = None
    maximum: int | None = None
    replicas: int | None = None

    def __str__(self) -> str:
        return self.shown


def plans_of(spec: CronFederatedHPASpec) -> list[Plan]:
    """The plans of the rules that run, in their order: not suspended ones, nor such as admission refuses."""
    scales_fhpa = scales_federatedhpa(spec)
    plans = []
    dates = 0
    for index, rule in enumerate(spec.rules[:MAX_PLANS]):
        dates += len(rule.exclude_dates)
        if dates > _MAX_DATES:
            break
        if not rule.suspend:
            plan = _plan(rule, index, scales_fhpa=scales_fhpa)
            if plan is not None:
                plans.append(plan)
    return plans


def scales_federatedhpa(spec: CronFederatedHPASpec) -> bool:
    """Whether the target is a FederatedHPA."""
    target = spec.scale_target_ref
    return (target.api_version, target.kind) == (API_VERSION, KIND)


def _plan(rule: CronFederatedHPARule, index: int, *, scales_fhpa: bool) -> Plan | None:
    try:
        planned = timetable(rule)
    except InvalidObject:
        return None
    shown = f"spec.rules[{index}] ({_shortened(rule.name)})"
    if scales_fhpa:
        return Plan(shown, planned, rule.target_min_replicas, rule.target_max_replicas)
    return Plan(shown, planned, replicas=rule.target_replicas)


def _shortened(name: str) -> str:
    return name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME - 3]}..."
