"""Replicas return to the division of the policy in mode Distributed, and only where they serve there.

The real controller runs in emulated fleets in virtual time. `Judge` reads members and hub each second.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from benchmarks.closed_loop.actions import Action, changes, tainted
from benchmarks.closed_loop.running import Running
from benchmarks.closed_loop.ways import DISTRIBUTED, simulate
from benchmarks.closed_loop.worlds import DRAIN, World, steps, tied
from tests.support.invariants import Judge
from tests.virtual.test_returns import cloudy, plans, prioritized


class Watched:
    """A run in mode Distributed: the replicas of all clusters and the status, second by second."""

    def __init__(self, world: World, minutes: float) -> None:
        self.judge = Judge(world.target)
        self.sizes: list[tuple[int, ...]] = []
        self.ready: list[int] = []
        self.shown: list[dict[str, Any]] = []
        self.events: list[str] = []
        looks = tuple((float(second), self._look) for second in range(int(minutes * 60) - 1))
        self.figures = simulate(
            replace(world, events=(*world.events, *looks)), DISTRIBUTED, minutes / 60
        ).figures()

    def _look(self, run: Running) -> None:
        self.judge.look(run)
        assert run.hub is not None
        clusters = run.fleet.clusters.values()
        self.sizes.append(tuple(one.replicas for one in clusters))
        self.ready.append(sum(one.ready for one in clusters))
        self.shown.append(run.hub.status)
        self.events = [one["reason"] for one in run.hub.store.all("v1", "events")]

    def at(self, minute: float) -> tuple[int, ...]:
        """The replicas of all clusters at a minute."""
        return self.sizes[int(minute * 60)]

    def condition(self, minute: float) -> tuple[str, str, str]:
        """Status, reason and message of the condition Rebalanced at a minute; all "" without it."""
        for one in self.shown[int(minute * 60)].get("conditions") or ():
            if one["type"] == "Rebalanced":
                return one["status"], one["reason"], one["message"]
        return "", "", ""


def clouded(*events: tuple[float, Action], **more: Any) -> World:
    """10 of 11 replicas run in m2, although m1 comes first."""
    return cloudy(*events, minimum=2, **more)


def test_replicas_return_to_the_first_cluster() -> None:
    """New pods are ready before others go, and at most a step runs besides the size."""
    found = Watched(clouded(), 27)

    assert found.at(16) == (2, 9)
    assert found.at(26) == (10, 1)
    assert min(found.ready[60:]) >= 10
    assert max(map(sum, found.sizes)) <= 11 + 2
    assert found.figures["unserved pod s"] == 0
    assert found.judge.broken == []
    assert "Rebalanced" in found.events
    assert found.condition(26)[:2] == ("True", "Rebalanced")


def test_load_that_is_tied_to_its_cluster_stays_there() -> None:
    """The new pods serve nothing, so they go again, and no return begins for a day."""
    load = tied(m1=steps((0, 0.5)), m2=steps((0, 4.9)))
    found = Watched(clouded(load=load), 25)

    assert min(sizes[1] for sizes in found.sizes) == 10
    assert found.at(13) == (4, 10)
    assert found.at(24) == (2, 10)
    assert "rests until 2027-01-16T" in found.condition(24)[2]
    assert found.figures["unserved pod s"] == 0
    assert found.figures["pods started"] <= 4
    assert found.events.count("RebalanceServesNothing") == 1
    assert found.judge.broken == []


def test_a_need_ends_the_return() -> None:
    """Load that rises meanwhile comes first: nothing is given back while a cluster asks for more."""
    found = Watched(clouded(load=steps((0, 5.3), (17.8, 9.5))), 24)

    assert "RebalanceInterrupted" in found.events
    assert sum(found.at(23)) >= 18
    assert found.judge.broken == []


def test_never_leaves_them() -> None:
    """With `rebalance: Never` nothing returns."""
    found = Watched(clouded(spec=prioritized(rebalance="Never")), 19)

    assert found.at(18) == (2, 9)
    assert found.condition(18) == ("", "", "")


def test_a_leave_comes_first() -> None:
    """A drain ends the return, and moves on its own."""
    found = Watched(clouded((1060, tainted("m1", DRAIN))), 26)

    assert "RebalanceInterrupted" in found.events
    assert found.at(25) == (0, 11)
    assert found.judge.broken == []


def test_another_policy_returns_on_request() -> None:
    """With WhenQuiet, and at once for an annotation."""
    spec = {
        "federatedHPAAssignment": {"federatedHPAAssignmentType": "StaticWeighted", "rebalance": "WhenQuiet"}
    }
    found = Watched(clouded(spec=spec, clusters=plans(2, 10)), 21)

    assert found.at(14) == (2, 9)
    assert found.at(20) == (6, 5)
    assert found.judge.broken == []


def asked(at: str) -> Action:
    """Somebody asks for one rebalance."""

    def act(run: Running) -> None:
        if run.hub is not None:
            run.hub.annotate(**{"autoscaling.karmada.io/rebalance": at})

    return act


def test_one_rebalance_is_asked_for() -> None:
    """It begins at once, and once."""
    spec = {"federatedHPAAssignment": {"federatedHPAAssignmentType": "StaticWeighted"}}
    events = ((300, asked("2027-01-15T08:05:00Z")),)
    found = Watched(clouded(*events, spec=spec, clusters=plans(2, 10)), 11)

    assert found.at(4) == (2, 10)
    assert found.at(10) == (6, 6)
    assert found.judge.broken == []


def test_a_dry_run_returns_nothing() -> None:
    """The object writes nothing to the members."""
    found = Watched(clouded((120, changes(dryRun=True))), 19)

    assert found.at(18) == (2, 9)
