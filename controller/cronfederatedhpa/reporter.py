"""Shows rules to people: the status of an object, the events on it, and the series of the controller.

A rule that sets the replicas of a workload and the FederatedHPA of that workload overwrite one another. Both
objects say so in condition SoleOwner; nothing is stopped, because nobody can know which of the two is wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from controller.background import KnownObjects
from controller.cronfederatedhpa.objects import DROPPED, CronObject, TargetKey
from controller.cronfederatedhpa.units import TARGET_REASONS, Unit, Units
from controller.hub_check import FIELDS_PRUNED
from controller.publish import FEDERATED_HPAS
from fedhpa.api.autoscalers import Autoscaler, AutoscalerIndex, StoredAutoscaler, from_stored
from fedhpa.api.cronfederatedhpa import KIND
from fedhpa.api.federatedhpa import API_VERSION, GROUP
from fedhpa.api.federatedhpa import KIND as FHPA_KIND
from fedhpa.api.texts import listed
from fedhpa.api.times import format_time
from fedhpa.cron.execution.model import Note, Rule, RuleState
from fedhpa.cron.execution.objects import write_histories
from fedhpa.cron.execution.outcome import MAX_MESSAGE, SCALE_FAILED, Settled, Waiting, reverts
from fedhpa.cron.execution.planning import CronPlan
from fedhpa.decision import NO_RECORD, READY, Finding
from fedhpa.kube import ApiClient, EventRecorder, InvolvedObject, Key, Reflector

log = structlog.get_logger(__name__)
Json = dict[str, Any]

# Events about fields that the hub dropped from one object.
MAX_REPORTED: Final = 10
# Different reverts that are remembered of one object.
MAX_REVERTS: Final = 16
HINT: Final = ". It did so before, as a GitOps tool does: let the tool ignore the field (ignoreDifferences)"
HELD: Final = "Held"
SOLE_OWNER: Final = "SoleOwner"
ANOTHER_AUTOSCALER: Final = "AnotherAutoscaler"
# People read conditions, so they name only so many autoscalers.
MAX_NAMED: Final = 4
HUB_COMPATIBLE: Final = "HubCompatible"


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
        "executionHistories": write_histories(states, [rule.name for rule in rules]),
        "conditions": conditions(owner, finding or _problem(rules), hub, now, owners, held),
        "summary": _summary(owner, rules, states),
    }


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
    old, contest = owner.conditions, None
    if owners:
        named = listed(owners, MAX_NAMED)
        contest = Finding(ANOTHER_AUTOSCALER, f"the target is also scaled by {named}: remove either")
    elif owners is None and owner.contested:
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


def failure_of(rules: Sequence[Rule], states: Mapping[str, RuleState]) -> Finding | None:
    """Returns the first rule with an execution that is tried again, as a finding."""
    for rule in rules:
        state = states.get(rule.name)
        if state is not None and state.failing:
            failing = state.failing[0]
            text = f"rule {rule.name}, due {format_time(failing.scheduled)}: {failing.message}"
            return Finding(SCALE_FAILED, text)
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
    coming = [(at, rule.name, rule) for state, rule in known if (at := state.next_execution) is not None]
    done = [(state.successes[0].scheduled, rule.name, rule) for state, rule in known if state.successes]
    suspended = sum(rule.suspended for rule in rules)
    return {
        "target": f"{owner.reference.kind}/{owner.reference.name}",
        "next": _when(*min(coming, key=lambda one: one[:2])) if coming else "",
        "last": _when(*max(done, key=lambda one: one[:2])) if done else "",
        "suspended": f"{suspended}/{len(rules)}" if suspended else "none",
    }


def _when(at: float, name: str, rule: Rule) -> str:
    """Returns a time in the zone of its rule, short enough for a column, and the rule's name."""
    zone = UTC if rule.timetable is None else rule.timetable.zone
    return f"{datetime.fromtimestamp(at, zone):%d %b %H:%M} {name}"


class WorkloadOwners:
    """The FederatedHPAs in these namespaces, while the `reflector` runs; none mean all."""

    def __init__(
        self, hub: ApiClient, *, namespaces: Collection[str] = (), clock: Callable[[], float]
    ) -> None:
        self._namespaces = namespaces
        self._index = AutoscalerIndex()
        self.reflector: Reflector[Autoscaler] = Reflector(
            hub, FEDERATED_HPAS.path(), StoredAutoscaler, self._read, name="federatedhpas", clock=clock
        )
        self.reflector.subscribe(lambda _, old, new: self._index.replace(old, new))

    def of(self, target: TargetKey) -> tuple[str, ...] | None:
        """Returns the active FederatedHPAs that scale a workload; None before the first whole list."""
        if (target.group, target.kind) == (GROUP, FHPA_KIND):
            return ()
        if not self.reflector.synced.is_set():
            return None
        found = self._index.of(target)
        return tuple(f"{FHPA_KIND} {each.namespace}/{each.name}" for each in found)

    def _read(self, stored: StoredAutoscaler) -> Autoscaler | None:
        if self._namespaces and stored.metadata.namespace not in self._namespaces:
            return None
        return from_stored(FHPA_KIND, stored)


class Reporter:
    """Records the results of passes on the objects of `units`."""

    def __init__(
        self, units: Units, owners: WorkloadOwners, events: EventRecorder, metrics: CronMetrics
    ) -> None:
        self._units = units
        self._owners = owners
        self._events = events
        self._metrics = metrics

    async def show(
        self,
        unit: Unit,
        latest: CronObject,
        settled: Settled,
        now: float,
        waits: Waiting | None,
    ) -> None:
        """Writes the status of an object in its newest form, and shows it as series and events."""
        rules, states = self._units.scheduled(latest, unit).rules, settled.states[latest.name]
        obstacle = latest.memory.rules.obstacle or (unit.windows.obstacle if latest.has_windows else "")
        unrecorded = Finding(NO_RECORD, obstacle) if obstacle else None
        finding = failure_of(rules, states) or unrecorded or unit.unusable
        due, held = waits or (None, "")
        hub = self._units.check.pruned
        owners = self._owners.of(unit.target)
        status = render_status(latest, rules, states, finding, now, owners, held, hub)
        coming = [state.next_execution for state in states.values() if state.next_execution is not None]
        self._metrics.show(latest.key, min(coming, default=None), due, status["conditions"])
        await self._units.objects.write_status(latest, status)
        self._tell(latest, status["conditions"], rules, hub, held)

    async def show_blocked(self, owner: CronObject, finding: Finding, now: float) -> None:
        """Writes why nothing is done for an object."""
        found = conditions(owner, finding, self._units.check.pruned, now)
        await self._units.objects.write_status(owner, {"conditions": found})

    def report(
        self,
        target: TargetKey,
        planned: CronPlan,
        settled: Settled,
        now: float,
        unstored: Collection[str],
        *,
        failed: bool,
    ) -> None:
        """Reports what a pass stored at `now`. A later pass reports on the objects in `unstored`."""
        for (name, _), missed in planned.skipped:
            if name not in unstored:
                self._metrics.executions.labels(MISSED).inc(missed.count)
        notes = [note for note in settled.notes if note.object not in unstored]
        self._metrics.executions.labels(FAILED).inc(sum(note.reason == SCALE_FAILED for note in notes))
        for execution, values, _ in () if failed else planned.applied:
            if execution.object in unstored:
                continue
            self._metrics.executions.labels(APPLIED).inc()
            self._metrics.lateness.observe(max(now - execution.at, 0.0))
            log.info(
                "rule applied",
                namespace=target.namespace,
                name=execution.object,
                rule=execution.rule.name,
                due=format_time(execution.at),
                late=round(now - execution.at, 3),
                target=f"{target.kind}/{target.name}",
                **values,
            )
        for note in notes:
            self.record(target.namespace, note)
        for note in (*notes, *reverts(planned)):
            owner = self._units.objects.get((target.namespace, note.object))
            if note.change and owner is not None and _is_again(owner.memory.reverts, note.change):
                self.record(target.namespace, Note(note.object, "RevertedAgain", f"{note.message}{HINT}"))

    def _tell(
        self,
        owner: CronObject,
        conditions: Iterable[Mapping[str, Any]],
        rules: Sequence[Rule],
        hub: Finding | None,
        held: str,
    ) -> None:
        """Reports once what holds now: who owns the target, what the hub drops, and what waits for a hold."""
        lines = [] if hub is None else [(FIELDS_PRUNED, hub.message)]
        dropped = (rule for rule in rules if rule.hash == DROPPED)
        lines += ((FIELDS_PRUNED, f"rule {rule.name} does not run: {rule.problem}") for rule in dropped)
        lines = lines[:MAX_REPORTED]
        for one in conditions:
            if one["status"] == "False" and (one["type"] == SOLE_OWNER or one["reason"] in TARGET_REASONS):
                lines.append((one["reason"], one["message"]))
        if held:
            lines.append((HELD, held))
        memory = owner.memory
        for reason, message in lines:
            if (reason, message) not in memory.told:
                note = Note(owner.key[1], reason, message[:MAX_MESSAGE], warning=reason != HELD)
                self.record(owner.key[0], note)
        memory.told = set(lines)

    def record(self, namespace: str, note: Note, uid: str = "") -> None:
        """Records a note as an event on its object."""
        owner = self._units.objects.get((namespace, note.object))
        uid = uid if owner is None else owner.uid
        about = InvolvedObject(API_VERSION, KIND, note.object, namespace, uid)
        self._events.event(about, "Warning" if note.warning else "Normal", note.reason, note.message)


def _is_again(known: list[str], change: str) -> bool:
    """Notes the change that a client made of a field. Returns True if it is among the `known` ones."""
    if change in known:
        return True
    known[:] = [*known, change][-MAX_REVERTS:]
    return False


APPLIED: Final = "applied"
FAILED: Final = "failed"
MISSED: Final = "missed"
NAMES: Final = ("namespace", "name")
# From a tenth of a second, which is on time, to a day.
LATENESS_BUCKETS: Final = (0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 60.0, 300.0, 3600.0, 86400.0)


class CronMetrics:
    """The series of the cron controller in one registry.

    `follow` drops the series of an object together with what is known of it.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self.follow = KnownObjects(self._forget).follow
        self.executions = Counter(
            "fedhpa_cron_executions",
            "Executions of rules by outcome: applied, failed (each once, however often it is tried), missed.",
            ("outcome",),
            registry=registry,
        )
        for outcome in (APPLIED, FAILED, MISSED):
            self.executions.labels(outcome)
        self.lateness = Histogram(
            "fedhpa_cron_lateness_seconds",
            "Seconds between the time at which an execution was due and its effect.",
            buckets=LATENESS_BUCKETS,
            registry=registry,
        )
        self._next_execution = Gauge(
            "fedhpa_cron_next_execution_timestamp_seconds",
            "When the next rule of an object fires, as POSIX seconds; absent if all rules are suspended.",
            NAMES,
            registry=registry,
        )
        self._held_since = Gauge(
            "fedhpa_cron_held_since_timestamp_seconds",
            "When the oldest execution or end of a window was due that waits for the end of a hold, as POSIX "
            "seconds; absent if none waits.",
            NAMES,
            registry=registry,
        )
        self._not_ready = Gauge(
            "fedhpa_cron_not_ready",
            "1 for a CronFederatedHPA whose condition Ready is not True, with its reason; absent if it is.",
            (*NAMES, "reason"),
            registry=registry,
        )
        self.objects = Gauge(
            "fedhpa_cron_objects", "CronFederatedHPAs in this process' shards.", registry=registry
        )

    def show(
        self, key: Key, coming: float | None, held: float | None, conditions: Iterable[Mapping[str, Any]]
    ) -> None:
        """Shows when the next rule of an object fires, since when an event waits, and why it is not ready."""
        _show(self._next_execution, key, coming)
        _show(self._held_since, key, held)
        _show(self._not_ready, key, None)
        for one in conditions:
            if one["type"] == READY and one["status"] != "True":
                self._not_ready.labels(*key, one["reason"]).set(1)

    def _forget(self, key: Key) -> None:
        for gauge in (self._next_execution, self._held_since, self._not_ready):
            _show(gauge, key, None)


def _show(gauge: Gauge, key: Key, value: float | None) -> None:
    """Sets the series of an object, or removes it without a value."""
    if value is None:
        gauge.remove_by_labels(dict(zip(NAMES, key, strict=True)))
    else:
        gauge.labels(*key).set(value)
