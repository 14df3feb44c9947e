"""The status of a CronFederatedHPA: executions, conditions and the texts of the columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from controller.cronfederatedhpa.objects import CronObject
from controller.hub_check import FIELDS_PRUNED
from fedhpa.api.times import format_time
from fedhpa.cron.execution.model import Rule, RuleState
from fedhpa.cron.execution.objects import DROPPED, SCALE_FAILED, failing_text, write_histories
from fedhpa.cron.execution.stored import shortened
from fedhpa.decision import Finding

READY: Final = "Ready"
HELD: Final = "Held"
SOLE_OWNER: Final = "SoleOwner"
ANOTHER_AUTOSCALER: Final = "AnotherAutoscaler"
# People read conditions, so they name only so many autoscalers.
MAX_NAMED: Final = 4
HUB_COMPATIBLE: Final = "HubCompatible"
# A whole status is at most this large; etcd's limit of an object is 1.5 MiB.
MAX_STATUS_BYTES: Final = 256 * 1024

Json = dict[str, Any]


def render_status(
    owner: CronObject,
    rules: Sequence[Rule],
    states: Mapping[str, RuleState],
    finding: Finding | None,
    now: float,
    owners: tuple[str, ...] | None = None,
    held: str = "",
    hub: Finding | None = None,
) -> Json:
    """Returns the status of an object. `finding` says why it is not ready, `hub` which fields the hub drops.

    `owners` are the FederatedHPAs that scale the target; None if they are unknown. `held` says which events
    wait for the end of a hold.
    """
    if all(rule.suspended for rule in rules):
        owners = () if owners else owners
    return {
        "observedGeneration": owner.raw["metadata"].get("generation", 0),
        "executionHistories": _bounded(states, [rule.name for rule in rules]),
        "conditions": conditions(owner, finding or _problem(rules), hub, now, owners, held),
        "summary": _summary(owner, rules, states),
    }


def changes(stored: Mapping[str, Any], status: Json) -> Json:
    """Returns the parts of a status that differ from the stored one, as a merge patch."""
    return {name: value for name, value in status.items() if stored.get(name) != value}


def conditions(
    owner: CronObject,
    finding: Finding | None,
    hub: Finding | None,
    now: float,
    owners: tuple[str, ...] | None = None,
    held: str = "",
) -> list[Json]:
    """Returns the conditions of an object: Ready, two others once they were False, and what others wrote.

    `owners` are the FederatedHPAs that scale the target. If they are unknown, SoleOwner stays as it is.
    """
    stored = (owner.raw.get("status") or {}).get("conditions")
    old = {each.get("type"): each for each in stored or () if isinstance(each, Mapping)}
    contest = _contest(owners)
    if owners is None and owner.contested:
        contest = Finding(ANOTHER_AUTOSCALER, str(old[SOLE_OWNER].get("message", "")))
    judged = {
        READY: (finding or contest, HELD if held else "RulesRun", held or "the rules run"),
        SOLE_OWNER: (contest, "NoOtherAutoscaler", "no FederatedHPA scales the target"),
        HUB_COMPATIBLE: (hub, "NothingFound", "the hub keeps all fields"),
    }
    found = []
    for kind, (problem, reason, message) in judged.items():
        if kind != READY and problem is None and kind not in old:
            continue
        status = "True" if problem is None else "False"
        before = old.get(kind, {})
        since = before.get("lastTransitionTime") if before.get("status") == status else None
        found.append(
            {
                "type": kind,
                "status": status,
                "reason": reason if problem is None else problem.reason,
                "message": message if problem is None else problem.message,
                "observedGeneration": owner.raw["metadata"].get("generation", 0),
                "lastTransitionTime": str(since or format_time(float(int(now)))),
            }
        )
    return [*found, *(dict(each) for name, each in old.items() if name not in judged)]


def _contest(owners: tuple[str, ...] | None) -> Finding | None:
    """Returns the finding that other autoscalers scale the target, or None."""
    if not owners:
        return None
    more = f" and {len(owners) - MAX_NAMED} more" if len(owners) > MAX_NAMED else ""
    named = ", ".join(owners[:MAX_NAMED])
    return Finding(ANOTHER_AUTOSCALER, f"the target is also scaled by {named}{more}: remove either")


def failure_of(rules: Sequence[Rule], states: Mapping[str, RuleState]) -> Finding | None:
    """Returns the first rule with an execution that is tried again, as a finding."""
    for rule in rules:
        state = states.get(rule.name)
        if state is not None and state.failing:
            return Finding(SCALE_FAILED, failing_text(rule.name, state.failing[0]))
    return None


def _problem(rules: Sequence[Rule]) -> Finding | None:
    """Returns the first rule that cannot run, as a finding."""
    for rule in rules:
        if rule.problem:
            reason = FIELDS_PRUNED if rule.hash == DROPPED else "RuleInvalid"
            return Finding(reason, f"rule {rule.name} cannot run: {rule.problem}")
    return None


def _summary(owner: CronObject, rules: Sequence[Rule], states: Mapping[str, RuleState]) -> Json:
    """Returns the texts of the columns: the target, the next and last execution, and the suspended rules."""
    known = [(states[rule.name], rule) for rule in rules if rule.name in states]
    coming = [(at, rule) for state, rule in known if (at := state.next_execution) is not None]
    done = [(state.successes[0].scheduled, rule) for state, rule in known if state.successes]
    suspended = sum(rule.suspended for rule in rules)
    return {
        "target": f"{owner.reference.kind}/{owner.reference.name}",
        "next": _when(*min(coming, key=_at)) if coming else "",
        "last": _when(*max(done, key=_at)) if done else "",
        "suspended": f"{suspended}/{len(rules)}" if suspended else "none",
    }


def _at(execution: tuple[float, Rule]) -> tuple[float, str]:
    return execution[0], execution[1].name


def _when(at: float, rule: Rule) -> str:
    """Returns a time in the zone of its rule, short enough for a column, and the rule's name."""
    zone = UTC if rule.timetable is None else rule.timetable.zone
    return f"{datetime.fromtimestamp(at, zone):%d %b %H:%M} {rule.name}"


def _bounded(states: Mapping[str, RuleState], names: Sequence[str]) -> list[Json]:
    """Returns the histories, with fewer entries for each rule if they would be too large."""
    kept = dict(states)
    for limit in (32, 3, 1, 0):
        histories = write_histories(kept, names)
        if limit == 0 or len(msgspec.json.encode(histories)) <= MAX_STATUS_BYTES:
            break
        kept = {name: shortened(state, limit // 2) for name, state in kept.items()}
    return histories
