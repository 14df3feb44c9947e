"""Admission warnings about a CronFederatedHPA.

Remedies say what to write instead of a refused schedule or time zone, because refusals keep Karmada's
messages byte for byte. Other warnings are about admitted fields without the effect that a person expects.
`fedhpa.cron.forecast` warns about the effects of admitted rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fedhpa.admission.warnings.references import has_group_and_version, no_group_and_version
from fedhpa.api.cronfederatedhpa import CronFederatedHPA, CronFederatedHPARule, CronFederatedHPASpec
from fedhpa.api.federatedhpa import API_VERSION, KIND
from fedhpa.api.fielderror import quoted
from fedhpa.api.model import MAX_RULES, MAX_TEXT
from fedhpa.cron import InvalidSchedule, UnknownZone, load_zone, parse, warn_missing_time_zones

# More remedies would repeat the same. The refusal names every wrong rule.
_MAX_REMEDIES: Final = 5


def warn_cronfederatedhpa(cron: CronFederatedHPA, *, admitted: bool = False) -> Iterator[str]:
    """Yields the warnings that do not depend on the time. Unless `admitted`, the remedies come first."""
    if not admitted:
        yield from _remedies(cron)
    yield from _target(cron.spec)
    yield from _unused_sizes(cron.spec)
    yield from warn_missing_time_zones(cron.spec)


def _remedies(cron: CronFederatedHPA) -> Iterator[str]:
    """Yields what to write instead of refused schedules and time zones."""
    count = 0
    for index, rule in enumerate(cron.spec.rules[:MAX_RULES]):
        try:
            parse(rule.schedule)
        except InvalidSchedule as error:
            count += 1
            yield f"spec.rules[{index}].schedule: {str(error).removeprefix('schedule: ')}"
        try:
            load_zone(rule.time_zone)
        except UnknownZone as error:
            count += 1
            yield f"spec.rules[{index}].timeZone: {error.remedy}"
        if count >= _MAX_REMEDIES:
            return


def _target(spec: CronFederatedHPASpec) -> Iterator[str]:
    """Warns about the API version of the target, which also decides which sizes a rule must have."""
    target = spec.scale_target_ref
    path = "spec.scaleTargetRef.apiVersion"
    if target.kind == KIND and target.api_version != API_VERSION:
        shown = quoted(target.api_version[:MAX_TEXT])
        yield f"{path}: {shown} is not that of a {KIND}; write {API_VERSION}"
    elif not has_group_and_version(target):
        yield f"{path}: {no_group_and_version(target)}"


def _unused_sizes(spec: CronFederatedHPASpec) -> Iterator[str]:
    """Warns about sizes of rules that do not fit the target, once for all rules."""
    if spec.scale_target_ref.api_version == API_VERSION:
        unused, what, instead = _replicas, f"a {KIND}", "targetMinReplicas and targetMaxReplicas"
    else:
        unused, what, instead = _limits, "a workload", "targetReplicas"
    found = [
        (index, field)
        for index, rule in enumerate(spec.rules[:MAX_RULES])
        for field, value in unused(rule)
        if value is not None
    ]
    if found:
        index, field = found[0]
        more = len(found) - 1
        others = f" (nor do {more} more fields)" if more > 1 else " (nor does 1 more field)" if more else ""
        yield f"spec.rules[{index}].{field}: does not affect {what}{others}; write {instead}"


def _replicas(rule: CronFederatedHPARule) -> tuple[tuple[str, int | None], ...]:
    return (("targetReplicas", rule.target_replicas),)


def _limits(rule: CronFederatedHPARule) -> tuple[tuple[str, int | None], ...]:
    return (("targetMinReplicas", rule.target_min_replicas), ("targetMaxReplicas", rule.target_max_replicas))
