"""The hub's passes over simulated members: caps, distribute, assist and hold, in the order of their rules.

The hub sees what a real one would: HPAs, pods, free capacity, and whether a member answers. It reads the
state from the status that it wrote in the pass before, as JSON, so each pass also tests a restart.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from fedhpa.assignment.assist import assist
from fedhpa.assignment.caps import caps
from fedhpa.assignment.distribute import distribute, eased_total
from fedhpa.assignment.hold import hold
from fedhpa.assignment.member_hpa import pinned_need, usage_load
from fedhpa.assignment.policies import BY_CAPACITY, Policy
from fedhpa.assignment.shares import MemberState
from fedhpa.assignment.state import NO_STATE, ClusterState, read_state, release_step, written_state
from tests.support.closed_loop.member import Member

PERIOD_SECONDS: Final = 60
LOST_SECONDS: Final = 300
# A max is not lowered for this long after a member scaled, while its usage is at or above target.
CALM_SECONDS: Final = 120


@dataclass(frozen=True)
class Seat:
    """The settings of one cluster, as an object's preferences have them."""

    weight: int = 1
    priority: int = 0
    high: int | None = None


@dataclass(frozen=True)
class Write:
    """One write of a bound of a member HPA."""

    time: float
    cluster: str
    field: str
    before: int
    after: int


@dataclass
class Hub:
    """The controller of one FederatedHPA with `maximum` replicas over all clusters."""

    maximum: int
    policy: Policy
    seats: Mapping[str, Seat]
    base: Mapping[str, int]
    assists: bool = True
    delay: float = 0.0
    writes: list[Write] = field(default_factory=list)
    status: dict[str, dict[str, Any]] = field(default_factory=dict)
    unassigned: int = 0
    _triggers: frozenset[tuple[str, str]] = frozenset()
    _seen: dict[str, tuple[int, float]] = field(default_factory=dict)
    _absent: dict[str, float] = field(default_factory=dict)
    _back: dict[str, float] = field(default_factory=dict)
    _known: dict[str, MemberState] = field(default_factory=dict)

    def look(self, members: Mapping[str, Member], reachable: Mapping[str, bool], now: float) -> None:
        """Makes a pass each period, and at once when a cluster becomes pinned or pending, is lost or back."""
        self._clocks(members, reachable, now)
        around = [self._state(member, reachable[member.name], now) for member in members.values()]
        triggers = frozenset(
            (one.cluster, kind)
            for one in around
            for kind, applies in (
                ("pinned", one.need is not None),
                ("pending", one.pending > 0),
                ("lost", self._lost(one.cluster, now)),
                ("back", one.cluster in self._back),
            )
            if applies
        )
        if now % PERIOD_SECONDS == 0 or triggers - self._triggers:
            self._pass(members, around, triggers, now)
        self._triggers = triggers
        assert all(0 < member.minimum <= member.maximum for member in members.values())

    def _clocks(self, members: Mapping[str, Member], reachable: Mapping[str, bool], now: float) -> None:
        for name, answers in reachable.items():
            if not answers:
                self._absent.setdefault(name, now)
                self._back.pop(name, None)
                continue
            if name in self._absent and now - self._absent[name] >= LOST_SECONDS:
                self._back[name] = now
            self._absent.pop(name, None)
            if now - self._back.get(name, now) > PERIOD_SECONDS:
                del self._back[name]
            before = self._seen.get(name)
            size = len(members[name].pods)
            if before is None or before[0] != size:
                self._seen[name] = (size, now if before else now - CALM_SECONDS)

    def _lost(self, name: str, now: float) -> bool:
        return name in self._absent and now - self._absent[name] >= LOST_SECONDS

    def _state(self, member: Member, reachable: bool, now: float) -> MemberState:
        if not reachable and member.name in self._known:
            return replace(self._known[member.name], reachable=False, need=None, pending=0)
        seat = self.seats[member.name]
        free = max(member.slots(now) - member.running, 0)
        self._known[member.name] = MemberState(
            cluster=member.name,
            minimum=min(self.base[member.name], member.maximum),
            maximum=member.maximum,
            running=member.running,
            pending=sum(pod.bound is None and now - pod.created >= self.delay for pod in member.pods),
            capacity=member.running + free if self.policy in BY_CAPACITY else None,
            need=pinned_need(member.hpa(), self.delay, now),
            high=seat.high,
            weight=seat.weight,
            priority=seat.priority,
        )
        return self._known[member.name]

    def _pass(
        self,
        members: Mapping[str, Member],
        around: list[MemberState],
        triggers: frozenset[tuple[str, str]],
        now: float,
    ) -> None:
        status = json.loads(json.dumps(self.status))
        states: dict[str, ClusterState] = {name: read_state(entry, now) for name, entry in status.items()}
        full = caps(states, around, now)
        # A lost cluster takes no part; its share goes to the others.
        taking = [
            replace(one, cap=full.sizes.get(one.cluster))
            for one in around
            if not self._lost(one.cluster, now)
        ]
        lowered = bool(triggers) and not {kind for _, kind in triggers}.isdisjoint(
            {"pending", "lost", "back"}
        )
        kept = () if lowered else [one.cluster for one in taking if self._scaled(members[one.cluster], now)]
        maxima = {one.cluster: one.maximum or 0 for one in taking}
        # A cluster that came back brings its own maximum; the surplus leaves a part in each pass.
        surplus = sum(maxima.values()) > self.maximum
        if triggers or surplus:
            total = eased_total(self.maximum, sum(one.running for one in taking))
            found = distribute(total if surplus else self.maximum, taking, self.policy, kept=kept)
            self.unassigned = found.unassigned
            if surplus or self._matters(taking, found.maxima):
                maxima = self._write_maxima(members, taking, found.maxima, now)
        taking = [replace(one, maximum=maxima[one.cluster]) for one in taking]
        states = dict(full.states)
        if self.assists:
            step = release_step(self.maximum)
            settled = {one.cluster: members[one.cluster].ready(now, 60) for one in taking if one.reachable}
            states = dict(assist(states, taking, self.policy, step, now, settled).states)
            loads = {
                one.cluster: float(load)
                for one in taking
                if one.reachable and (load := usage_load(members[one.cluster].hpa())) is not None
            }
            states = dict(hold(states, taking, self.policy, step, now, loads).states)
        for one in taking:
            floor = states.get(one.cluster, NO_STATE).floor(one.minimum or 0, one.maximum or 0)
            if one.reachable and floor != members[one.cluster].minimum:
                self._write(members[one.cluster], "minimum", floor, now)
        self.status = {name: written_state(state) for name, state in states.items()}

    def _scaled(self, member: Member, now: float) -> bool:
        since = self._seen[member.name][1] if member.name in self._seen else now - CALM_SECONDS
        return now - since < CALM_SECONDS and member.usage >= 1

    @staticmethod
    def _matters(around: list[MemberState], maxima: Mapping[str, int]) -> bool:
        """True if the result changes what some cluster can do."""
        return any(
            (one.need is not None and maxima[one.cluster] > (one.maximum or 0))
            or (one.pending > 0 and maxima[one.cluster] < (one.maximum or 0))
            or maxima[one.cluster] < one.running
            for one in around
            if one.reachable
        )

    def _write_maxima(
        self, members: Mapping[str, Member], around: list[MemberState], maxima: Mapping[str, int], now: float
    ) -> dict[str, int]:
        """Lowers first, then raises by what was lowered, so that the sum never passes the maximum."""
        present = {one.cluster: one.maximum or 0 for one in around}
        changes = [one for one in around if one.reachable and maxima[one.cluster] != present[one.cluster]]
        for one in sorted(changes, key=lambda one: maxima[one.cluster] > present[one.cluster]):
            room = max(self.maximum - sum(present.values()), 0)
            wanted = min(maxima[one.cluster], present[one.cluster] + room)
            if wanted != present[one.cluster]:
                member = members[one.cluster]
                if member.minimum > wanted:
                    self._write(member, "minimum", wanted, now)
                self._write(member, "maximum", wanted, now)
                present[one.cluster] = wanted
        return present

    def _write(self, member: Member, name: str, value: int, now: float) -> None:
        self.writes.append(Write(now, member.name, name, getattr(member, name), value))
        setattr(member, name, value)
