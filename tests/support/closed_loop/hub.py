"""The hub's passes over simulated members: `plan`, and its writes in their order.

The hub sees what a real one would: HPAs, pods, free capacity, and whether a member answers. It reads the
state from the status that it wrote in the pass before, as JSON, so each pass also tests a restart.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from fedhpa.assignment import (
    Bounds,
    MemberState,
    Observed,
    Outcome,
    Plan,
    Previous,
    Result,
    Rules,
    Write,
    plan,
)
from fedhpa.assignment.initial import assigned_for
from fedhpa.assignment.member_hpa import pinned_need, usage_load
from fedhpa.assignment.policies import BY_CAPACITY, Policy
from fedhpa.assignment.state import read_state, written_state
from fedhpa.decision.absence import Absence, follow
from tests.support.closed_loop.member import Member

PERIOD_SECONDS: Final = 60
LOST_SECONDS: Final = 300


@dataclass(frozen=True)
class Seat:
    """The settings of one cluster, as an object's preferences have them."""

    weight: int = 1
    priority: int = 0
    high: int | None = None


@dataclass(frozen=True)
class Change:
    """One write of a bound of a member HPA."""

    time: float
    cluster: str
    field: str
    before: int
    after: int


@dataclass
class Hub:
    """The controller of one FederatedHPA with `maximum` replicas over all clusters.

    `base` are the minima of a fleet that has been assigned before; without it the first pass assigns bounds.
    `result` is the outcome of a write at a time.
    """

    maximum: int
    policy: Policy
    seats: Mapping[str, Seat]
    base: Mapping[str, int]
    minimum: int = 1
    exact: bool = False
    assists: bool = True
    scales_to_zero: bool = False
    delay: float = 0.0
    assigned: bool = True
    result: Callable[[str, float], Result] = lambda cluster, now: Result.CONFIRMED
    writes: list[Change] = field(default_factory=list)
    scales: list[tuple[float, str, int]] = field(default_factory=list)
    plans: list[tuple[float, Plan]] = field(default_factory=list)
    status: dict[str, dict[str, Any]] = field(default_factory=dict)
    _assigned_for: str = ""
    _triggers: frozenset[tuple[str, str]] = frozenset()
    _absences: dict[str, Absence | None] = field(default_factory=dict)
    _known: dict[str, Observed] = field(default_factory=dict)

    @property
    def rules(self) -> Rules:
        """The rules of the FederatedHPA."""
        preferences = {
            name: (seat.weight, seat.priority, seat.high) for name, seat in sorted(self.seats.items())
        }
        return Rules(
            minimum=self.minimum,
            maximum=self.maximum,
            policy=self.policy,
            exact=self.exact,
            uid="",
            assists=self.assists,
            scales_to_zero=self.scales_to_zero,
            assigned_for=assigned_for(self.minimum, self.policy, exact=self.exact, preferences=preferences),
        )

    def look(self, members: Mapping[str, Member], reachable: Mapping[str, bool], now: float) -> None:
        """Makes a pass each period, and at once when a cluster becomes pinned or pending, is lost or back."""
        self._begin(members, now)
        observed = [self._observed(member, reachable[member.name], now) for member in members.values()]
        triggers = frozenset(
            (one.state.cluster, kind)
            for one in observed
            for kind, applies in (
                ("pinned", one.state.need is not None),
                ("pending", one.state.pending > 0),
                ("lost", one.lost),
            )
            if applies
        )
        back = {one for one in self._triggers - triggers if one[1] == "lost"}
        if now % PERIOD_SECONDS == 0 or triggers - self._triggers or back:
            self._pass(members, [_with_load(one, members[one.state.cluster]) for one in observed], now)
        self._triggers = triggers
        assert all(member.maximum == 0 or 0 < member.minimum <= member.maximum for member in members.values())

    def _begin(self, members: Mapping[str, Member], now: float) -> None:
        """Takes over a fleet that was assigned long ago."""
        if self._assigned_for or not self.assigned:
            return
        self._assigned_for = f"{self.rules.assigned_for}/{self.maximum}"
        self.status = {
            name: {"minReplicas": self.base[name], "maxReplicas": member.maximum}
            for name, member in members.items()
        }

    def _observed(self, member: Member, reachable: bool, now: float) -> Observed:
        name = member.name
        absence = self._absences[name] = follow(self._absences.get(name), reachable, now, LOST_SECONDS)
        lost = absence is not None and absence.elapsed(now) >= LOST_SECONDS
        if not reachable and name in self._known:
            known = self._known[name]
            state = replace(known.state, reachable=False, need=None, pending=0)
            return replace(known, state=state, lost=lost, load=None)
        seat, hpa = self.seats[name], member.hpa()
        free = max(member.slots(now) - member.running, 0)
        state = MemberState(
            cluster=name,
            running=member.running,
            pending=sum(pod.bound is None and now - pod.created >= self.delay for pod in member.pods),
            capacity=member.running + free if self.policy in BY_CAPACITY else None,
            need=pinned_need(hpa, self.delay, now) if member.maximum else None,
            high=seat.high,
            weight=seat.weight,
            priority=seat.priority,
        )
        written = Bounds(minimum=member.minimum, maximum=member.maximum) if member.maximum else None
        self._known[name] = Observed(
            state=state,
            written=written,
            load=None,
            scaled_at=member.scaled_at,
            settled=member.ready(now, 60),
            lost=lost,
        )
        return self._known[name]

    def _pass(self, members: Mapping[str, Member], observed: list[Observed], now: float) -> None:
        status = json.loads(json.dumps(self.status))
        states = {name: read_state(entry, now) for name, entry in status.items()}
        lost = frozenset(name for name, state in states.items() if state.lost)
        previous = Previous(states=states, assigned_for=self._assigned_for, lost=lost)
        found = plan(self.rules, observed, previous, now)
        self.plans.append((now, found))
        outcomes: list[Outcome] = []
        while batch := found.next_writes(outcomes):
            for write in batch:
                result = self.result(write.cluster, now)
                if result is Result.CONFIRMED:
                    self._write(members[write.cluster], write, now)
                outcomes.append(Outcome(write=write, result=result))
        for name, replicas in found.scales.items():
            if len(members[name].pods) != replicas:
                members[name].scale(replicas, now)
                self.scales.append((now, name, replicas))
        self._assigned_for = found.assigned_for
        self.status = {name: written_state(state) for name, state in found.states_after(outcomes).items()}

    def _write(self, member: Member, write: Write, now: float) -> None:
        for name in ("minimum", "maximum"):
            before = 0 if write.before is None else getattr(write.before, name)
            after = 0 if write.after is None else getattr(write.after, name)
            assert before == getattr(member, name)
            if before != after:
                self.writes.append(Change(now, member.name, name, before, after))
                setattr(member, name, after)


def _with_load(one: Observed, member: Member) -> Observed:
    """Adds the load of a reachable cluster. Only a pass needs it, and most looks end without a pass."""
    if one.written is None or not one.state.reachable:
        return one
    return replace(one, load=usage_load(member.hpa()))
