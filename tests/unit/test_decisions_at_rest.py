"""In mode Distributed a decision at rest is returned again until time or something else may change it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from fedhpa.api.times import parse_time
from fedhpa.decision import Decision, SeenMembers, decide, decode_scenario
from tests.support.distributed_scenarios import (
    NOW,
    assigned,
    cluster,
    federated,
    hpa,
    preferences,
    scenario,
)


class Reconciles:
    """Decides on one object again and again; each decision leaves its memory and status to the next one."""

    def __init__(self, raw: dict[str, Any]) -> None:
        self._seen, self._before = SeenMembers(), decided(raw)
        self._start = self._before[1].now

    def after(self, seconds: float, raw: dict[str, Any] | None = None) -> Decision:
        scenario, last = self._before
        snapshot = scenario.snapshot if raw is None else decided(raw)[0].snapshot
        snapshot = msgspec.structs.replace(snapshot, memory=last.memory)
        made = decide(snapshot, last.history, self._start + seconds, scenario.settings, seen=self._seen)
        self._before = msgspec.structs.replace(scenario, snapshot=snapshot), made
        return made


def decided(raw: dict[str, Any]) -> tuple[Any, Decision]:
    found = decode_scenario(json.dumps(raw).encode())
    return found, decide(found.snapshot, found.history, found.now, found.settings)


def quiet(**spec: Any) -> dict[str, Any]:
    """A scenario in which all bounds are written."""
    first = scenario(federated(2, 12, **spec), cluster("a", 4), cluster("b", 4))
    return assigned(assigned(first))


def test_nothing_is_computed_while_nothing_changes() -> None:
    """Only the times are new."""
    run = Reconciles(quiet())
    first, second = run.after(15), run.after(30)

    assert second.plan is first.plan
    assert second.now == first.now + 15
    assert str(second.status["lastSeen"]) > str(first.status["lastSeen"])


def test_the_time_of_the_last_answers_in_the_status_is_no_change() -> None:
    """It is written again and again while nothing happens, so no decision follows from it."""
    raw = quiet()
    run = Reconciles(raw)
    first = run.after(15)
    status = {**raw["federatedHPA"].get("status", {}), "lastSeen": "2026-03-11T14:00:00Z"}

    raw = {**raw, "federatedHPA": {**raw["federatedHPA"], "status": status}}

    assert run.after(30, raw).plan is first.plan


def test_a_cluster_without_an_hpa_rests() -> None:
    """maxReplicas is too small for the third cluster, and nobody needs it."""
    first = scenario(federated(1, 2), cluster("a", 1), cluster("b", 1), cluster("c", 0))
    run = Reconciles(assigned(assigned(first)))
    before = run.after(15)

    assert {share.cluster: share.max_replicas for share in before.bounds}["c"] == 0
    assert run.after(30).plan is before.plan


def at_zero() -> dict[str, Any]:
    """The cluster `b` was sent to 0, and `a` runs the load of both."""
    first = scenario(federated(1, 12, scalingToZero=True), cluster("a", 2), cluster("b", 1))
    raw = assigned(assigned(first))
    raw["record"]["clusters"]["b"]["assignment"]["zeroSince"] = parse_time(NOW)
    none = {"specReplicas": 0, "statusReplicas": 0, "selector": "app=web"}
    raw["clusters"][1] |= {"scale": none, "hpa": hpa(1, 5, 0)}
    return raw


def test_a_cluster_at_zero_rests() -> None:
    """Only what is read of the clusters can bring it back, and no time."""
    run = Reconciles(at_zero())
    before = run.after(15)

    assert [share.is_at_zero for share in before.bounds] == [False, True]
    assert run.after(30).plan is before.plan


def test_a_need_ends_the_rest_of_a_cluster_at_zero() -> None:
    """It comes back in the reconcile that sees that the other one is full."""
    run = Reconciles(at_zero())
    first, second = run.after(15), run.after(30)
    full = at_zero()
    seven = {"specReplicas": 7, "statusReplicas": 7, "selector": "app=web"}
    full["clusters"][0] |= {"hpa": hpa(1, 7, 7, 100), "scale": seven}

    assert second.plan is first.plan
    assert {share.cluster: share.replicas for share in run.after(45, full).bounds} == {"a": None, "b": 1}


def test_a_need_ends_the_rest_of_a_cluster_without_an_hpa() -> None:
    """It gets an HPA in the reconcile that sees the need of a cluster at its threshold."""
    wishes = preferences("autoscalingMaxThreshold", {"a": 2, "b": 2})
    rules = federated(2, 10, wishes=wishes)
    rules["spec"]["federatedHPAAssignment"]["minimumPolicy"] = "Exact"
    raw = assigned(assigned(scenario(rules, cluster("a", 1), cluster("b", 1), cluster("c", 0))))
    run = Reconciles(raw)
    first, second = run.after(15), run.after(30)
    two = {"specReplicas": 2, "statusReplicas": 2, "selector": "app=web"}
    made = run.after(45, assigned(raw, a={"hpa": hpa(1, 2, 2, 100), "scale": two}))

    assert second.plan is first.plan
    assert [write.cluster for write in made.hpa_writes if write.before is None] == ["c"]


def test_a_period_ends_the_rest() -> None:
    """Ten minutes after the last write the rest is divided by policy, where that is worth it."""
    run = Reconciles(quiet())
    first = run.after(15)

    assert run.after(400).plan is first.plan
    assert run.after(600).plan is not first.plan


def pinned(raw: dict[str, Any]) -> dict[str, Any]:
    """The cluster `a` runs at its maximum and needs more."""
    six = {"specReplicas": 6, "statusReplicas": 6, "selector": "app=web"}
    return assigned(raw, a={"hpa": hpa(1, 6, 6, 100), "scale": six})


@pytest.mark.parametrize(
    ("change", "writes"),
    [
        (pinned, {"a": (1, 8), "b": (1, 4)}),
        (lambda raw: assigned(raw, a={"hpa": hpa(2, 9, 4)}), {"a": (1, 6)}),
        (lambda raw: assigned(raw, a={"hpa": None}), {"a": (1, 6)}),
    ],
)
def test_what_changes_is_seen_at_once(change: Any, writes: Mapping[str, tuple[int, int]]) -> None:
    """A pressed cluster, bounds that somebody changed, and an HPA that somebody deleted."""
    run = Reconciles(quiet())
    run.after(15)
    made = run.after(30, change(quiet()))

    found = {one.cluster: one.after for one in made.hpa_writes if one.after is not None}
    assert {name: (one.minimum, one.maximum) for name, one in found.items()} == dict(writes)


def test_a_raised_maximum_acts_at_once() -> None:
    run = Reconciles(quiet())
    run.after(15)
    raised = quiet()
    raised["federatedHPA"]["spec"]["maxReplicas"] = 20
    made = run.after(30, raised)

    assert sum(share.max_replicas for share in made.bounds) == 20


def test_a_pinned_cluster_never_rests() -> None:
    """Its need counts after a while."""
    run = Reconciles(pinned(quiet()))
    first = run.after(15)

    assert run.after(30).plan is not first.plan
