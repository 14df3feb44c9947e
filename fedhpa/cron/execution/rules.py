"""Reads the rules of a CronFederatedHPA for execution."""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from fedhpa.api.autoscaling import CrossVersionObjectReference
from fedhpa.api.cronfederatedhpa import CronFederatedHPARule, CronFederatedHPASpec
from fedhpa.api.errors import InvalidObject
from fedhpa.api.federatedhpa import API_VERSION, KIND
from fedhpa.cron.execution.records import MAXIMUM, MINIMUM, REPLICAS, Rule
from fedhpa.cron.timetable import Timetable, timetable

_DEFAULT_HISTORY: Final = 3


def executable_rules(spec: CronFederatedHPASpec) -> tuple[Rule, ...]:
    """Returns all rules in order. A rule that cannot run has a `problem` and no timetable, or no values.

    Admission refuses two rules of one name. Where it was bypassed, only the first of them runs, because both
    would share one state.
    """
    found: list[Rule] = []
    names: set[str] = set()
    for index, written in enumerate(spec.rules):
        rule = _rule(written, index, spec)
        if rule.name in names:
            problem = f"spec.rules[{index}].name: an earlier rule has this name, and only that one runs"
            rule = msgspec.structs.replace(rule, timetable=None, problem=problem)
        names.add(rule.name)
        found.append(rule)
    return tuple(found)


def targets_federatedhpa(spec: CronFederatedHPASpec) -> bool:
    """True if the target is a FederatedHPA, whose minReplicas and maxReplicas the rules change."""
    target = spec.scale_target_ref
    return (target.api_version, target.kind) == (API_VERSION, KIND)


def schedule_hash(rule: CronFederatedHPARule, target: CrossVersionObjectReference) -> str:
    """Returns a hash of the fields that decide when a rule fires, and for what: 16 hexadecimal digits.

    Suspension is one of them, so a rule that is resumed starts anew. The target is one of them, so a new
    target never gets fires from before the edit. Versions of one API group have the same target.
    """
    group = target.api_version.rpartition("/")[0]
    fields = [
        rule.schedule,
        rule.time_zone or "",
        sorted(rule.exclude_dates),
        bool(rule.suspend),
        [group, target.kind, target.name],
    ]
    return hashlib.sha256(msgspec.json.encode(fields)).hexdigest()[:16]


def _rule(rule: CronFederatedHPARule, index: int, spec: CronFederatedHPASpec) -> Rule:
    targets_fhpa = targets_federatedhpa(spec)
    table, problem = _timetable(rule)
    values = _values(rule, targets_fhpa=targets_fhpa)
    if not values and not problem:
        fields = "targetMinReplicas and targetMaxReplicas" if targets_fhpa else "targetReplicas"
        problem = f"spec.rules[{index}]: {fields}: nothing is set, so a fire changes nothing"
    return Rule(
        rule.name,
        index,
        None if rule.suspend else table,
        values,
        schedule_hash(rule, spec.scale_target_ref),
        suspended=bool(rule.suspend),
        max_delay=rule.max_delay_seconds,
        successes_kept=_limit(rule.successful_history_limit, 1),
        failures_kept=_limit(rule.failed_history_limit, 0),
        problem=problem,
    )


def _timetable(rule: CronFederatedHPARule) -> tuple[Timetable | None, str]:
    try:
        return timetable(rule), ""
    except InvalidObject as error:
        return None, str(error)


def _values(rule: CronFederatedHPARule, *, targets_fhpa: bool) -> dict[str, int]:
    fields = (
        ((MINIMUM, rule.target_min_replicas), (MAXIMUM, rule.target_max_replicas))
        if targets_fhpa
        else ((REPLICAS, rule.target_replicas),)
    )
    return {field: value for field, value in fields if value is not None}


def _limit(value: int | None, least: int) -> int:
    return _DEFAULT_HISTORY if value is None else max(value, least)
