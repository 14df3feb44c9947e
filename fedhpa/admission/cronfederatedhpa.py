"""Admission of a CronFederatedHPA: an ordered list of field errors, and warnings.

Karmada v1.19 defines the order of the checks and the messages of its rules. The schedule grammar and the time
zones are this project's (docs/reference/schedules.md). A verdict depends on the object alone.

Messages stay Karmada's, so the error of a schedule or time zone has a remedy, which becomes a warning. Other
warnings are about admitted fields without the effect that a person expects. `fedhpa.cron.forecast` warns
about the effects of admitted rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain, islice
from typing import Any, Final

from fedhpa.admission.bounds import check_bounds
from fedhpa.admission.federatedhpa import (
    has_group_and_version,
    no_group_and_version,
    validate_reference,
    warn_kind,
)
from fedhpa.admission.metadata import validate_metadata, warn_hold
from fedhpa.api.cronfederatedhpa import CronFederatedHPA, CronFederatedHPARule, CronFederatedHPASpec
from fedhpa.api.errors import InvalidObject
from fedhpa.api.federatedhpa import API_VERSION, KIND
from fedhpa.api.fielderror import FieldError, TypedText, duplicate, invalid, quoted
from fedhpa.api.model import MAX_RULES, MAX_TEXT
from fedhpa.cron import (
    SHORTEST_INTERVAL,
    InvalidSchedule,
    UnknownZone,
    load_zone,
    parse,
    parse_date,
    parse_excluded,
    parse_window,
    shortest_interval,
    warn_missing_time_zones,
)

_MAX_INT32: Final = 2**31 - 1


def validate_cronfederatedhpa(cron: CronFederatedHPA) -> list[FieldError]:
    """Returns all errors of the object, in the order in which Karmada's webhook reports them."""
    return [*validate_metadata(cron.metadata), *_spec(cron)]


def _spec(cron: CronFederatedHPA) -> Iterator[FieldError]:
    spec = cron.spec
    target = spec.scale_target_ref
    scales_fhpa = target.api_version == API_VERSION
    if scales_fhpa and target.kind != KIND:
        detail = f"invalid scaleTargetRef kind: {target.kind}, only support {KIND}"
        yield invalid("spec.scaleTargetRef.kind", target.kind, detail)
        return
    yield from validate_reference(target, "spec.scaleTargetRef")
    # A list above its bound is refused for its size alone, so that long lists stay cheap.
    rules = spec.rules if len(spec.rules) <= MAX_RULES else ()
    seen: set[str] = set()
    for index, rule in enumerate(rules):
        path = f"spec.rules[{index}]"
        if rule.name in seen:
            yield duplicate(f"{path}.name", rule.name)
        seen.add(rule.name)
        yield from _schedule(rule, path)
        if scales_fhpa:
            yield from _bounds_of_fhpa(rule, path)
        else:
            yield from _replicas(rule, target.kind, path)
    yield from check_bounds(spec, "spec")
    for index, rule in enumerate(rules):
        path = f"spec.rules[{index}]"
        yield from _own_fields(rule, path)
        if scales_fhpa and rule.at_least:
            detail = (
                f"is only for a target with a scale; for a {KIND}, targetMinReplicas alone lowers nothing"
            )
            yield invalid(f"{path}.atLeast", rule.at_least, detail)


def _schedule(rule: CronFederatedHPARule, path: str) -> Iterator[FieldError]:
    try:
        parse(rule.schedule)
    except InvalidSchedule as error:
        remedy = str(error).removeprefix("schedule: ")
        yield invalid(f"{path}.schedule", rule.schedule, "invalid cron format", remedy)
    try:
        load_zone(rule.time_zone)
    except UnknownZone as error:
        yield invalid(f"{path}.timeZone", TypedText(rule.time_zone), str(error), error.remedy)


def _bounds_of_fhpa(rule: CronFederatedHPARule, path: str) -> Iterator[FieldError]:
    """Checks a rule whose target is a FederatedHPA. Karmada's messages print an empty value."""
    minimum, maximum = rule.target_min_replicas, rule.target_max_replicas
    if minimum is None and maximum is None:
        yield invalid(
            f"{path}.targetMaxReplicas",
            "",
            "targetMinReplicas and targetMaxReplicas cannot be nil at the same time if you want to scale "
            "FederatedHPA",
        )
    minimum = 1 if minimum is None else minimum
    maximum = _MAX_INT32 if maximum is None else maximum
    if minimum <= 0:
        yield invalid(f"{path}.targetMinReplicas", "", "targetMinReplicas should be larger than 0")
    if maximum <= 0:
        yield invalid(f"{path}.targetMaxReplicas", "", "targetMaxReplicas should be larger than 0")
    if minimum > maximum:
        detail = "targetMaxReplicas should be larger than or equal to targetMinReplicas"
        yield invalid(f"{path}.targetMinReplicas", "", detail)


def _replicas(rule: CronFederatedHPARule, kind: str, path: str) -> Iterator[FieldError]:
    """Checks a rule with any other target. Zero replicas are valid."""
    if rule.target_replicas is None:
        detail = f"targetReplicas cannot be nil if you want to scale {kind}"
        yield invalid(f"{path}.targetReplicas", "", detail)
    elif rule.target_replicas < 0:
        yield invalid(f"{path}.targetReplicas", "", "targetReplicas should be larger than or equal to 0")


def _own_fields(rule: CronFederatedHPARule, path: str) -> Iterator[FieldError]:
    delay = rule.max_delay_seconds
    # No schedule has a shorter interval than SHORTEST_INTERVAL, so a smaller delay needs no comparison.
    if delay is not None and delay >= SHORTEST_INTERVAL:
        # _schedule reports an invalid schedule; then there is no interval to compare with.
        with suppress(InvalidSchedule):
            shortest = shortest_interval(parse(rule.schedule))
            if delay >= shortest:
                detail = (
                    "must be smaller than the shortest interval between two executions, which is "
                    f"{shortest} seconds"
                )
                yield invalid(f"{path}.maxDelaySeconds", delay, detail)
    if rule.duration is not None:
        yield from _unparsable(parse_window, rule.duration, f"{path}.duration")
    yield from _dates(rule, path)


def _dates(rule: CronFederatedHPARule, path: str) -> Iterator[FieldError]:
    """Checks the dates. One error shows the format; hundreds of them would hide the other messages."""
    first, last = rule.start_date, rule.end_date
    for field, text in (("startDate", first), ("endDate", last)):
        if text is not None and (wrong := [*_unparsable(parse_date, text, f"{path}.{field}")]):
            yield from wrong
            return
    if first is not None and last is not None and last < first:
        yield invalid(f"{path}.endDate", last, f"is before startDate {first}")
    excluded = (
        _unparsable(parse_excluded, text, f"{path}.excludeDates[{index}]")
        for index, text in enumerate(rule.exclude_dates)
    )
    yield from islice(chain.from_iterable(excluded), 1)


def _unparsable(parse_value: Callable[[Any], object], value: str | int, path: str) -> Iterator[FieldError]:
    try:
        parse_value(value)
    except InvalidObject as error:
        yield invalid(path, value, str(error))


def warn_cronfederatedhpa(cron: CronFederatedHPA) -> Iterator[str]:
    """Yields the warnings that do not depend on the time."""
    yield from warn_hold(cron.metadata)
    unnamed = next((index for index, rule in enumerate(cron.spec.rules) if not rule.name), None)
    if unnamed is not None:
        yield f"spec.rules[{unnamed}].name: each rule needs a name; the field is name, not ruleName"
    yield from _target_version(cron.spec)
    if not cron.spec.rules:
        yield "spec.rules: there is no rule, so nothing is ever scaled"
    yield from _unused_sizes(cron.spec)
    yield from warn_missing_time_zones(cron.spec)


def _target_version(spec: CronFederatedHPASpec) -> Iterator[str]:
    """Warns about the API version of the target, which also decides which sizes a rule must have."""
    target = spec.scale_target_ref
    yield from warn_kind(target.kind)
    path = "spec.scaleTargetRef.apiVersion"
    if target.kind == KIND and target.api_version != API_VERSION:
        shown = quoted(target.api_version[:MAX_TEXT])
        yield f"{path}: {shown} is not that of a {KIND}; write {API_VERSION}"
    elif not has_group_and_version(target):
        yield f"{path}: {no_group_and_version(target)}"


def _unused_sizes(spec: CronFederatedHPASpec) -> Iterator[str]:
    """Warns about sizes of rules that do not fit the target, once for all rules."""
    if spec.scale_target_ref.api_version == API_VERSION:
        unused, what = {"targetReplicas": "target_replicas"}, f"a {KIND}"
        instead = "targetMinReplicas and targetMaxReplicas"
    else:
        unused = {"targetMinReplicas": "target_min_replicas", "targetMaxReplicas": "target_max_replicas"}
        what, instead = "a workload", "targetReplicas"
    found = [
        (index, field)
        for index, rule in enumerate(spec.rules[:MAX_RULES])
        for field, name in unused.items()
        if getattr(rule, name) is not None
    ]
    if found:
        index, field = found[0]
        more = len(found) - 1
        others = f" (nor do {more} more fields)" if more > 1 else " (nor does 1 more field)" if more else ""
        yield f"spec.rules[{index}].{field}: does not affect {what}{others}; write {instead}"
