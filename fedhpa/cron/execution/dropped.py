"""Finds the rules whose fields the hub has dropped, by the manifest that kubectl applied last.

A rule without its `duration` would keep its values for ever, and one without its `excludeDates` would fire on
holidays. So such rules do not run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fedhpa.api.errors import InvalidObject
from fedhpa.api.json import decode_json
from fedhpa.cron.execution.records import Rule, ScheduledObject

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
RULE_FIELDS: Final = ("duration", "maxDelaySeconds", "excludeDates")
# The hash of a rule that does not run because of this. The rule starts anew once its fields are stored.
DROPPED: Final = "fields-dropped"
# The API server's limit of all annotations together.
_MAX_BYTES: Final = 256 * 1024


def dropped_fields(raw: Mapping[str, Any]) -> dict[str, str]:
    """Returns the fields that were applied and are not stored: for each rule `spec.rules[i].field`."""
    annotations = raw["metadata"].get("annotations")
    text = annotations.get(LAST_APPLIED) if isinstance(annotations, Mapping) else None
    if not isinstance(text, str) or len(text) > _MAX_BYTES or not any(name in text for name in RULE_FIELDS):
        return {}
    try:
        applied: Any = decode_json(text, dict[str, Any])
    except InvalidObject:
        return {}
    written = {str(rule.get("name")): rule for rule in _rules(applied)}
    found: dict[str, str] = {}
    for index, rule in enumerate(_rules(raw)):
        name = str(rule.get("name"))
        lost = [field for field in RULE_FIELDS if written.get(name, {}).get(field) and field not in rule]
        if lost:
            found[name] = f"spec.rules[{index}].{lost[0]}"
    return found


def without_dropped(owner: ScheduledObject, dropped: Mapping[str, str], *, drops: bool) -> ScheduledObject:
    """Returns the object with the rules that may run; the others have a problem and never fire.

    `dropped` names a field of each rule that lacks some. `drops` is True if the hub is known to drop fields.
    Otherwise somebody has removed the field, unless the rule was stopped before.
    """
    if not dropped:
        return owner
    rules = tuple(
        _stopped(rule, dropped[rule.name])
        if rule.name in dropped and (drops or _was_stopped(owner, rule))
        else rule
        for rule in owner.rules
    )
    return owner if rules == owner.rules else msgspec.structs.replace(owner, rules=rules)


def _was_stopped(owner: ScheduledObject, rule: Rule) -> bool:
    state = owner.states.get(rule.name)
    return state is not None and state.hash == DROPPED


def _stopped(rule: Rule, field: str) -> Rule:
    problem = f"{field}: the hub's CRD dropped the field: apply 'fedhpa crds' there, then the object again"
    return msgspec.structs.replace(rule, timetable=None, hash=DROPPED, problem=problem)


def _rules(raw: Any) -> list[Mapping[str, Any]]:
    spec = raw.get("spec") if isinstance(raw, Mapping) else None
    rules = spec.get("rules") if isinstance(spec, Mapping) else None
    return [rule for rule in (rules if isinstance(rules, list) else ()) if isinstance(rule, Mapping)]
