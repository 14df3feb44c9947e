"""The coming effects of a target's rules: the plans of the coming instants, carried out on made-up values.

Each step is the plan and the result that the controller makes at that instant, with `Attempts` and `settle`.
A write succeeds, unless minReplicas would be above maxReplicas. Admission refuses that write. The events at
fault are left out, and they are tried again at the next instant.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from fedhpa.api.default_values import MIN_REPLICAS
from fedhpa.cron.execution.model import (
    MAXIMUM,
    MINIMUM,
    Key,
    ObservedTarget,
    OpenWindow,
    RuleState,
    ScheduledObject,
    Values,
    WindowRecord,
)
from fedhpa.cron.execution.outcome import Attempts, Settled, settle
from fedhpa.cron.execution.planning import CronPlan

# The value of a field that nobody has read. Sizes are never negative.
UNKNOWN: Final = -1
# Steps, executions, and a quarter of the open windows, summed over all steps. 1,000 cost about 0.1 s of CPU.
MAX_WORK: Final = 10_000

# Seconds after which refused events are tried again with the values of the other ones.
RETRY_SECONDS: Final = 1.0

_NO_RULE: Final = ("", "")


class CrossedBounds(NamedTuple):
    """A write that admission refuses, because minReplicas would be above maxReplicas."""

    minimum: int
    maximum: int

    def __str__(self) -> str:
        return f"minReplicas {self.minimum} would be above maxReplicas {self.maximum}"


class SimulatedStep(NamedTuple):
    """One instant: the plan that was carried out, its result, and the values of the target after it.

    `conflict` says why admission refused `refused`, the whole plan. Both are None if it was admitted.
    """

    at: float
    plan: CronPlan
    settled: Settled
    values: Values
    conflict: CrossedBounds | None
    refused: CronPlan | None = None


def crossed_bounds(values: Values) -> CrossedBounds | None:
    """Returns the conflict of the bounds of a FederatedHPA; None if they agree or one is unknown."""
    if MINIMUM not in values or MAXIMUM not in values:
        return None
    minimum, maximum = values[MINIMUM], values[MAXIMUM]
    minimum = MIN_REPLICAS if minimum is None else minimum
    if maximum is None or UNKNOWN in (minimum, maximum) or minimum <= maximum:
        return None
    return CrossedBounds(minimum, maximum)


class Simulation:
    """The coming steps of a target. `until` is the last instant that they cover.

    `values` are the present ones of the target; a field may be UNKNOWN. With `skips_repeats`, plain
    executions that repeat the execution before them have no step of their own.
    """

    def __init__(
        self,
        objects: Sequence[ScheduledObject],
        record: WindowRecord | None,
        values: Values,
        *,
        now: float,
        until: float,
        skips_repeats: bool = False,
        max_work: int = MAX_WORK,
    ) -> None:
        self._objects = {each.name: each for each in objects}
        self._record = record
        self._values = values
        self._now = now
        self._end = until
        self._skips_repeats = skips_repeats
        self._work = max_work
        self._rules = {(each.name, rule.name): rule for each in objects for rule in each.rules}
        self._states: dict[Key, RuleState] = {}
        self._coming: list[tuple[float, Key]] = []
        self._failed: dict[Key, float] = {}
        self.until = now

    def all(self) -> Iterator[SimulatedStep]:
        """Yields the step of the present instant, and then those after it."""
        yield self.present()
        yield from self.steps()

    def present(self) -> SimulatedStep:
        """Returns the step of the present instant, from the stored states, with executions of the past."""
        step = self._carry_out(list(self._objects.values()), self._now)
        self._objects = {each.name: each for each in self._objects.values() if each.runs}
        return step

    def steps(self) -> Iterator[SimulatedStep]:
        """Yields the steps after the present instant, in order, until the end or the limit of work."""
        self._rules = {key: rule for key, rule in self._rules.items() if key[0] in self._objects}
        for key, rule in self._rules.items():
            state = self._states.setdefault(key, RuleState(self._now, rule.hash))
            # A watermark ahead of the clock: what was handled is not applied again.
            self._schedule(key, max(self._now, state.handled_until or 0.0))
        for window in self._windows():
            self._visit(window.closes)
        while self._work > 0:
            if not self._coming:
                self.until = self._end
                return
            at, fired = self._coming[0][0], set()
            while self._coming and self._coming[0][0] == at:
                fired.add(heapq.heappop(self._coming)[1])
            fired &= self._rules.keys()
            self._work -= 1 + len(fired) + len(self._windows()) // 4
            yield self._carry_out(self._concerned(fired, at), at)
            self.until = at
            self._schedule_again(fired, at)

    def _visit(self, at: float, key: Key = _NO_RULE) -> None:
        """Notes an instant to visit, and the rule that fires then."""
        if self.until < at <= self._end:
            heapq.heappush(self._coming, (at, key))

    def _schedule(self, key: Key, after: float) -> None:
        """Notes the next execution of a rule."""
        rule = self._rules[key]
        at = None if rule.suspended else rule.next_time(after, self._end)
        if at is not None:
            self._visit(at, key)

    def _schedule_again(self, fired: set[Key], at: float) -> None:
        """Notes the next executions of the rules that fired."""
        rules = [self._rules[key] for key in fired]
        plain = all(rule.duration is None for rule in rules)
        after = at
        if self._skips_repeats and plain and len({rule.timetable for rule in rules}) == 1:
            # They have no window and one timetable, so they change nothing the next time.
            if not self._coming:
                return
            after = self._coming[0][0] - 1
            for key in fired - self._failed.keys():
                self._states[key] = _handled(self._states[key], after)
        for key in fired:
            self._schedule(key, after)

    def _carry_out(self, objects: list[ScheduledObject], at: float) -> SimulatedStep:
        """Plans an instant, and stores the result of its write."""
        attempts = Attempts(objects, self._record, ObservedTarget(dict(self._values)), at)
        whole, first = attempts.plan, self._conflict(attempts.plan)
        conflict = first
        while conflict is not None and attempts.refused(str(conflict)):
            conflict = self._conflict(attempts.plan)
        planned = attempts.plan
        settled = settle(planned, at, "" if conflict is None else str(conflict), attempts.refusals)
        if conflict is None:
            self._values = self._values | planned.write
        self._record = settled.record
        for name, states in settled.states.items():
            self._states |= {(name, rule): state for rule, state in states.items()}
        for opened in planned.applied:
            if opened.window is not None:
                self._visit(opened.window.closes)
        if (planned.applied or planned.closed) and len(planned.left_out) + len(planned.kept) > 1:
            # The first retry is made with the results of this one.
            self._visit(at + RETRY_SECONDS)
        before, self._failed = self._failed, {each.key: each.at for each in settled.failed}
        for failed in settled.failed:
            # An execution is no longer due after maxDelaySeconds, or when its window ends.
            delay = failed.rule.max_delay
            for end in (None if delay is None else delay + 1, failed.rule.duration):
                if end is not None and before.get(failed.key) != failed.at and failed.at + end > at:
                    self._visit(failed.at + end)
        return SimulatedStep(
            at, planned, settled, dict(self._values), first, None if first is None else whole
        )

    def _conflict(self, planned: CronPlan) -> CrossedBounds | None:
        """Returns why admission refuses the write of a plan, or None."""
        return crossed_bounds(self._values | planned.write) if planned.write else None

    def _windows(self) -> tuple[OpenWindow, ...]:
        return () if self._record is None else self._record.open

    def _concerned(self, fired: set[Key], at: float) -> list[ScheduledObject]:
        """Returns the objects with the rules that a plan of this instant is about.

        These are the rules that fire, those that failed before and those that may supersede them, and those
        with an open window. All others have nothing due, so a plan of all rules has the same result.
        """
        keys = fired | self._failed.keys()
        if self._failed:
            oldest = min(self._failed.values())
            keys |= {key for key, state in self._states.items() if (state.handled_until or 0.0) >= oldest}
        chosen: dict[str, dict[str, RuleState]] = {}
        for name, rule in (window.key for window in self._windows()):
            states = chosen.setdefault(name, {})
            if (name, rule) in self._rules:
                # Its next execution is known here, so the plan need not search for one.
                states[rule] = _handled(self._states[name, rule], at)
        for name, rule in keys & self._rules.keys():
            chosen.setdefault(name, {})[rule] = self._states[name, rule]
        return [
            msgspec.structs.replace(owner, rules=tuple(rules), states=states, known=True)
            for name, states in chosen.items()
            if (owner := self._objects.get(name)) is not None
            for rules in [sorted((self._rules[name, rule] for rule in states), key=lambda rule: rule.place)]
        ]


def _handled(state: RuleState, until: float) -> RuleState:
    """Returns a state with nothing due up to an instant."""
    return msgspec.structs.replace(state, handled_until=max(until, state.handled_until or 0.0))
