"""The outcome of a plan: the states after its write succeeded or failed, and what to write after a refusal.

A hub that refuses a write does not say which of its events is wrong. The second plan leaves out all events
that failed before. The next ones leave out the events that gave the written fields their values, first one of
them, then two, and so on, until a write is admitted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from fedhpa.api.default_values import MIN_REPLICAS
from fedhpa.api.hold import Hold, HoldRequest, hold_in_force
from fedhpa.api.texts import listed
from fedhpa.api.times import format_time
from fedhpa.cron.execution.model import (
    EXECUTION,
    Applied,
    Execution,
    Failed,
    Key,
    Missed,
    Note,
    ObservedTarget,
    RuleState,
    ScheduledObject,
    States,
    Succeeded,
    WindowRecord,
    WriteCause,
)
from fedhpa.cron.execution.planning import CronPlan
from fedhpa.cron.execution.windows import change_text

# The reason of condition Ready, and of the event, if an execution could not be applied.
SCALE_FAILED: Final = "ScaleFailed"
# Records of missed executions that a rule keeps. The oldest ones become one record.
MAX_MISSED: Final = 10
# A message may quote the answer of an API server. This many characters are kept.
MAX_MESSAGE: Final = 1024


class Settled(NamedTuple):
    """The outcome of a write, to store: the state of each rule by object and name, and the record of windows.

    `failed` are the executions that will be tried again.
    """

    states: States
    record: WindowRecord | None
    notes: list[Note]
    failed: tuple[Execution, ...]


def settle(
    plan: CronPlan, now: float, error: str = "", refusals: Mapping[WriteCause, str] | None = None
) -> Settled:
    """Returns the statuses after a plan was carried out at `now`. `error` says why its write failed.

    `refusals` says why the hub refused the events that the plan leaves out.
    """
    return _Settler(plan, now, (plan.error or error)[:MAX_MESSAGE], refusals or {}).settled()


class _Settler:
    """Builds the new states of one plan."""

    def __init__(self, plan: CronPlan, now: float, error: str, refusals: Mapping[WriteCause, str]) -> None:
        self._plan = plan
        self._now = now
        self._error = error
        self._refusals = refusals
        self._states: States = {name: dict(rules) for name, rules in plan.states.items()}
        self._notes = list(plan.notes)

    def settled(self) -> Settled:
        plan, error = self._plan, self._error
        for key, missed in plan.skipped:
            self._miss(key, missed)
        for execution in plan.invalid:
            # Only an edit of its rule helps.
            self._fail(execution, execution.rule.problem)
            self._handle(execution.key, execution.at, execution.at)
        for one in () if error else plan.applied:
            self._succeed(one)
        failed = [one.execution for one in plan.applied] if error else []
        for execution in failed:
            self._fail(execution, error)
        refused = [one for one in plan.left_out if one.cause not in plan.held]
        for execution in refused:
            self._fail(execution, self._refusals.get(execution.cause, ""))
        not_ended = self._settle_ends()
        record = (plan.pending or plan.record) if error else plan.record
        if record is not None:
            # Since when the end of a window is tried in vain.
            since = {one.key: one.ending or self._now for one in record.open if one.key in not_ended}
            windows = (replace(one, ending=since.get(one.key)) for one in record.open)
            record = replace(record, open=tuple(windows))
        return Settled(self._states, record, self._notes, (*failed, *refused))

    def _change(self, key: Key, **changes: Any) -> None:
        name, rule = key
        self._states[name][rule] = replace(self._states[name][rule], **changes)

    def _note(self, key: Key, reason: str, text: str, *, warning: bool = True) -> None:
        self._notes.append(Note(key[0], reason, f"rule {key[1]}{text}"[:MAX_MESSAGE], warning))

    def _handle(self, key: Key, first: float, last: float, **changes: Any) -> None:
        """Moves the watermark of a rule past some executions, and its next one to the one after them."""
        state = self._states[key[0]][key[1]]
        failing = tuple(each for each in state.failing if not first <= each.scheduled <= last)
        due = state.next_execution
        coming = due if due is None or last < due else self._plan.following.get(key)
        mark = max(state.handled_until or 0.0, last)
        self._change(key, failing=failing, handled_until=mark, next_execution=coming, **changes)

    def _miss(self, key: Key, missed: Missed) -> None:
        """Records executions that are never applied."""
        first, last = format_time(missed.first), format_time(missed.last)
        what = f"{missed.count} executions of {first} to {last} are"
        if missed.count == 1:
            what = f"the execution of {first} is"
        self._note(key, "RuleMissed", f": {what} missed: {missed.message}")
        kept = _bounded((missed, *self._states[key[0]][key[1]].missed))
        self._handle(key, missed.first, missed.last, missed=kept)

    def _succeed(self, applied: Applied) -> None:
        """Records that an execution was applied."""
        execution, values, window = applied
        key, at = execution.key, execution.at
        done = (Succeeded(at, self._now, values), *self._states[key[0]][key[1]].successes)
        self._handle(key, at, at, successes=done[: execution.rule.successes_kept])
        until = "" if window is None else f" until {format_time(window.closes)}"
        self._note(
            key, "RuleApplied", f", due {format_time(at)}: set {shown_values(values)}{until}", warning=False
        )

    def _settle_ends(self) -> set[Key]:
        """Notes the windows that ended, and once each that could not. Returns those that could not.

        Their rules are not ready until they end.
        """
        plan, error = self._plan, self._error
        still_open = () if plan.record is None else plan.record.open
        failed = {
            window.key: (window, self._refusals.get(cause, ""))
            for window in plan.kept
            if (cause := window.cause) not in plan.held
        }
        if error:
            overdue = (window for window in still_open if window.closes <= self._now)
            failed |= {each.key: (each, error) for each in (*plan.closed, *overdue)}
        for window in (*still_open, *plan.closed):
            state = self._states.get(window.object, {}).get(window.rule)
            if state is None:
                continue
            tried, message = failed.get(window.key, (None, ""))
            others = _others(state.failing, window.opened)
            if tried is window:
                text = f"its window cannot end: {message}"[:MAX_MESSAGE]
                self._change(window.key, failing=(*others, Failed(window.opened, self._now, text)))
                if others == state.failing:
                    self._note(window.key, "WindowNotClosed", f", due {format_time(window.opened)}: {text}")
            elif tried is None and (state.handled_until or 0.0) >= window.opened:
                self._change(window.key, failing=others)
        reported = {note.object for note in plan.notes if note.reason in _NOT_RETURNED}
        for window in () if error else plan.closed:
            if window.object not in reported:
                text = f": the window of {format_time(window.opened)} is closed"
                self._note(window.key, "WindowClosed", text, warning=False)
        return set(failed)

    def _fail(self, execution: Execution, message: str) -> None:
        """Records one failure for an execution, however often it is tried."""
        state, at = self._states[execution.object][execution.rule.name], execution.at
        earlier = [each.executed for each in (*state.failures, *state.failing) if each.scheduled == at]
        failure = Failed(at, earlier[0] if earlier else self._now, message[:MAX_MESSAGE])
        kept = (failure, *_others(state.failures, at))[: execution.rule.failures_kept]
        self._change(execution.key, failures=kept, failing=(*_others(state.failing, at), failure))
        if not earlier:
            self._note(execution.key, SCALE_FAILED, f", due {format_time(at)}: {failure.message}")


# The notes of windows that ended otherwise than by a return to the values from before.
_NOT_RETURNED: Final = frozenset({"NotRestored", "WindowOverridden"})


def shown_values(values: dict[str, int]) -> str:
    """Returns values for people: `minReplicas 3, maxReplicas 9`."""
    return ", ".join(f"{field} {value}" for field, value in values.items())


def _others(failing: tuple[Failed, ...], scheduled: float) -> tuple[Failed, ...]:
    return tuple(each for each in failing if each.scheduled != scheduled)


def _bounded(missed: tuple[Missed, ...]) -> tuple[Missed, ...]:
    """Returns at most MAX_MISSED records, newest first. The oldest ones become one."""
    if len(missed) <= MAX_MISSED:
        return missed
    kept, old = missed[: MAX_MISSED - 1], missed[MAX_MISSED - 1 :]
    first, last = min(each.first for each in old), max(each.last for each in old)
    return (*kept, Missed(first, last, sum(each.count for each in old), "earlier executions"))


def reverts(plan: CronPlan) -> list[Note]:
    """Returns which fields somebody has set since a plain execution did; none while a window is open.

    One is told only if its client made it before.
    """
    if plan.error or not plan.applied or plan.stored is not None:
        return []
    done = [
        (newest.scheduled, owner, newest.values)
        for (owner, name), rule in plan.rules.items()
        if rule.timetable is not None and rule.duration is None
        for newest in plan.owners[owner].states.get(name, RuleState()).successes[:1]
    ]
    done.sort(key=lambda one: one[:2])
    newest = {field: (owner, value) for _, owner, values in done for field, value in values.items()}
    return [
        Note(owner, "RevertedAgain", f"{change} after a rule had set it to {value}", change=change)
        for field, (owner, value) in sorted(newest.items())
        if (present := plan.target.values.get(field, value)) != value
        for change in [change_text(plan.target, field, present)]
    ]


# People read conditions, so they name only so many events.
_MAX_NAMED: Final = 3


class Waiting(NamedTuple):
    """The events of one object that wait: since when the oldest one is due, and a text for people."""

    due: float
    text: str


def waiting_events(planned: CronPlan, now: float) -> dict[str, Waiting]:
    """Returns what waits for the end of a hold, by object."""
    closes = {window.cause: window.closes for window in planned.kept}
    events: dict[str, list[tuple[float, str, Hold]]] = {}
    for cause, hold in planned.held.items():
        if cause.kind == EXECUTION:
            due, what = cause.at, f"rule {cause.rule}, due {format_time(cause.at)}"
        else:
            due = min(closes.get(cause, now), now)
            what = f"the end of the window of rule {cause.rule}, due {format_time(due // 1)}"
        events.setdefault(cause.object, []).append((due, what, hold))
    waiting = {}
    for name, found in events.items():
        found.sort(key=lambda one: one[:2])
        named = listed([what for _, what, _ in found], _MAX_NAMED)
        waiting[name] = Waiting(found[0][0], f"{named} waits for the end of a hold: {found[0][2]}")
    return waiting


def next_look(held: Mapping[WriteCause, Hold], now: float, period: float) -> float:
    """Returns when to look for the end of a hold again, in POSIX seconds: its end, or `period` from now."""
    return min([now + period, *(hold.until for hold in held.values() if hold.until is not None)])


# Plans that are tried at one instant. A target has two fields at most, so few events can be at fault.
MAX_ATTEMPTS: Final = 16


class Attempts:
    """The plans to try, one after another. `plan` is the present one; `refusals` are for `settle`.

    `holds` are those of namespaces, the narrowest first.
    """

    def __init__(
        self,
        objects: Sequence[ScheduledObject],
        record: WindowRecord | None,
        target: ObservedTarget,
        now: float,
        holds: Sequence[HoldRequest] = (),
    ) -> None:
        self._known = objects, record, target, now
        self._holds = holds
        self._left = MAX_ATTEMPTS
        self._left_out: frozenset[WriteCause] = frozenset()
        self._coming: deque[frozenset[WriteCause]] = deque()
        self._seen: set[frozenset[WriteCause]] = {self._left_out}
        # The first events without which nothing is left to write, and their plan.
        self._nothing: tuple[frozenset[WriteCause], CronPlan] | None = None
        self._excluded: frozenset[WriteCause] = frozenset()
        self.refusals: dict[WriteCause, str] = {}
        self.plan = self._without(self._left_out)

    def exclude(self, causes: Collection[WriteCause], error: str) -> bool:
        """Leaves out events that cannot act because of `error`, and sets the next plan.

        Returns False if they are left out already.
        """
        if self._excluded.issuperset(causes):
            return False
        self.refusals |= dict.fromkeys(causes, error)
        self._excluded |= frozenset(causes)
        self.plan = self._without(self._left_out)
        return True

    def refused(self, error: str) -> bool:
        """Notes that the hub refused the write of `plan`, and sets the next plan.

        Returns False if there is none. The present plan has then failed with `error`.
        """
        causes, failed_before = self.plan.causes, self.plan.failed_before
        for cause in (*causes, *failed_before):
            self.refusals.setdefault(cause, error)
        options = [self._left_out | {cause} for cause in causes]
        for option in options if self._left_out else [frozenset(failed_before), *options]:
            if option not in self._seen:
                self._seen.add(option)
                self._coming.append(option)
        while self._coming and self._left > 0:
            self._left -= 1
            left_out = self._coming.popleft() if self._left else frozenset(self.refusals)
            found = self._without(left_out)
            if found.write or self._left == 0:
                self._left_out, self.plan = left_out, found
                return True
            self._nothing = self._nothing or (left_out, found)
        if self._nothing is None:
            return False
        (self._left_out, self.plan), self._nothing = self._nothing, None
        return True

    def _without(self, left_out: frozenset[WriteCause]) -> CronPlan:
        """Returns the plan without some events, and without those that a hold then keeps waiting."""
        held: dict[WriteCause, Hold] = {}
        while True:
            excluded = left_out | self._excluded | held.keys()
            found = CronPlan(*self._known, excluded)
            more = self._held(found)
            # A write that no event asks for any more, such as one that was interrupted, is not held twice.
            if more.keys() <= held.keys():
                found.held = held
                return found
            held |= more

    def _held(self, planned: CronPlan) -> dict[WriteCause, Hold]:
        """Returns the events behind a plan's write that a hold keeps waiting, each with the hold.

        An event waits if the present value of a field that it sets would change in a held direction. It stays
        due, and acts when the hold ends. Source: docs/how-to/hold-scaling.md.

        The hold of the event's own object comes first, then that of the target, then those of namespaces.
        """
        found = {}
        _, _, target, now = self._known
        for field, cause in planned.field_causes.items():
            owner = planned.owners.get(cause.object)
            own = None if owner is None else owner.hold
            hold = hold_in_force((own, target.hold, *self._holds), now)
            # An absent minReplicas counts as its default. Other values are never absent.
            before, after = (
                MIN_REPLICAS if value is None else value
                for value in (target.values.get(field), planned.write[field])
            )
            if hold is not None and (hold.stops_down if after < before else hold.stops_up and after > before):
                found[cause] = hold
        return found
