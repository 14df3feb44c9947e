"""The series of replicas by cluster: read from the last statuses, bounded, and rendered beside other work."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from prometheus_client import CollectorRegistry

from controller.decision_series import ControllerMetrics
from controller.replica_series import MAX_SAMPLES, ReplicaSeries
from fedhpa.kube import Key
from fedhpa.serving import metrics_route
from tests.support.costs import least_longest_hold

MAX_HOLD_SECONDS = 0.05


def status(*clusters: dict[str, Any], ready: str = "True", **fields: Any) -> dict[str, Any]:
    """A status that a decision has written."""
    conditions = [{"type": "Ready", "status": ready, "reason": "Reconciled"}]
    return {"clusters": list(clusters), "conditions": conditions, "lastSeen": "10:00", **fields}


def cluster(name: str = "m1", **fields: Any) -> dict[str, Any]:
    return {"name": name, "currentReplicas": 3, **fields}


def decision(status: dict[str, Any]) -> Any:
    """A decision that keeps the size, as far as the series read it."""
    return SimpleNamespace(
        current_replicas=3, desired_replicas=3, error=None, metrics=(), conditions=(), status=status
    )


def series(
    statuses: Mapping[str, dict[str, Any]], failing: Mapping[Key, str] | None = None, most: int = 100
) -> ReplicaSeries:
    """The series of objects with these statuses."""
    return ReplicaSeries({("shop", name): one for name, one in statuses.items()}, failing or {}, most)


def shown(series: ReplicaSeries) -> tuple[dict[str, float], float]:
    """The samples, by name, cluster and state, and how many are left out."""
    replicas, _, left_out, *_ = series.collect()
    labels = ("name", "cluster", "state")
    found = {" ".join(s.labels[label] for label in labels): s.value for s in replicas.samples}
    return found, left_out.samples[0].value


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {"ready": 3, "desired": 3}),
        ({"readyReplicas": 1}, {"ready": 1, "desired": 3}),
        ({"desiredReplicas": 5}, {"ready": 3, "desired": 5}),
        ({"desiredReplicas": 0, "readyReplicas": 0}, {"ready": 0, "desired": 0}),
        ({"state": "MetricsMissing"}, {"ready": 3, "desired": 3}),
        ({"state": "MetricsLost"}, {"ready": 3, "desired": 3}),
        ({"state": "Missing"}, {"desired": 3}),
        ({"state": "Lost", "currentReplicas": 0}, {"desired": 0}),
        ({"state": "Missing", "currentReplicas": None}, {}),
    ],
)
def test_the_numbers_are_those_of_the_status(fields: dict[str, Any], expected: dict[str, int]) -> None:
    """Numbers that a status leaves out are filled in. An unknown number has no sample."""
    found, _ = shown(series({"web": status(cluster(**fields))}))

    assert found == {f"web m1 {state}": value for state, value in expected.items()}


def test_a_decision_without_any_cluster_shows_no_ready_pods() -> None:
    """Its entries are those of an earlier decision."""
    kept = status(cluster())
    del kept["lastSeen"]

    assert shown(series({"web": kept}))[0] == {"web m1 desired": 3}


def test_the_last_status_counts_until_the_object_is_gone() -> None:
    """A cluster that left the status has no sample any more, and neither has a deleted object."""
    metrics = ControllerMetrics(registry := CollectorRegistry(), clock=lambda: 0.0)

    def decided(*clusters: dict[str, Any]) -> dict[str, float]:
        metrics.decisions.add = lambda *_, **__: None  # type: ignore[method-assign]
        metrics.record_decision("shop", "web", decision(status(*clusters)), written=False, seconds=0.1)
        return scraped(registry)

    known: set[int] = set()  # anything that can be referred to weakly
    metrics.follow(("shop", "web"), known)

    assert decided(cluster("m1"), cluster("m2")).keys() == {"m1", "m2"}
    assert decided(cluster("m2", currentReplicas=4)) == {"m2": 4}

    del known

    assert scraped(registry) == {}


def scraped(registry: CollectorRegistry) -> dict[str, float]:
    """The desired replicas by cluster."""
    found = [sample for family in registry.collect() for sample in family.samples]
    wanted = [one for one in found if one.name == "fedhpa_cluster_replicas"]
    return {one.labels["cluster"]: one.value for one in wanted if one.labels["state"] == "desired"}


def test_objects_that_are_not_ready_come_first() -> None:
    """The bound leaves out whole objects, those that are Ready first, and a series counts their samples."""
    states = {"a": "True", "b": "False", "c": "True", "d": "Unknown"}
    objects = {name: status(cluster(), ready=ready) for name, ready in states.items()}

    samples, left_out = shown(series(objects, most=4))

    assert {name.split()[0] for name in samples} == {"b", "d"}
    assert left_out == 4

    # An object that failed after its last status is not Ready.
    objects["b"] = status(cluster())
    samples, left_out = shown(series(objects, {("shop", "c"): "ReconcileFailed"}, most=4))

    assert {name.split()[0] for name in samples} == {"c", "d"}


def test_an_object_is_shown_whole_or_not_at_all() -> None:
    """A sum over clusters is never a part of an object. A smaller object takes the place."""
    two = status(cluster("m1"), cluster("m2"))

    samples, left_out = shown(series({"a": two, "b": two, "c": status(cluster("m1", state="Lost"))}, most=5))

    assert {name.split()[0] for name in samples} == {"a", "c"}
    assert left_out == 4


def test_a_cluster_that_is_no_member_has_a_sample() -> None:
    """A Member has none. An object whose samples do not fit has none of either series."""
    leaves = cluster("m2", membership="Leaving", waitsFor="its replicas move")
    shown_series = series({"web": status(cluster("m1"), leaves), "api": status(leaves, leaves)}, most=6)

    _, memberships, left_out, *_ = shown_series.collect()

    assert [(one.labels["name"], one.labels["cluster"]) for one in memberships.samples] == [
        ("api", "m2"),
        ("api", "m2"),
    ]
    assert {(one.labels["membership"], one.value) for one in memberships.samples} == {("Leaving", 1)}
    assert left_out.samples[0].value == 5


def test_objects_that_are_not_ready_are_listed_with_their_reasons() -> None:
    """A failure after the last status counts, also of an object that has none. Ready objects are absent."""
    objects = {"a": status(), "b": status(ready="False"), "c": status(), "d": {}}
    failing = {("shop", "c"): "ReconcileFailed", ("shop", "e"): "InvalidObject"}
    *_, not_ready, _ = series(objects, failing).collect()

    assert {one.labels["name"]: one.labels["reason"] for one in not_ready.samples} == {
        "b": "Reconciled",
        "c": "ReconcileFailed",
        "d": "NoDecision",
        "e": "InvalidObject",
    }


def test_objects_that_miss_a_cluster_are_counted_by_the_cluster() -> None:
    """One lost cluster is one series, however many objects miss it."""
    lost, missing = cluster("m2", state="Lost"), cluster("m2", state="Missing")
    objects = {
        "a": status(cluster("m1"), lost),
        "b": status(lost),
        "c": status(missing, cluster("m3", state="")),
    }
    *_, found = series(objects).collect()

    assert [(*one.labels.values(), one.value) for one in found.samples] == [
        ("m2", "Lost", 2),
        ("m2", "Missing", 1),
    ]


@pytest.mark.parametrize(
    ("ready", "limited", "expected"),
    [
        ("Reconciled", "False", "ReadyForNewScale"),
        ("Reconciled", "True", "TooManyReplicas"),
        ("Held", "True", "Held"),
    ],
)
def test_decisions_are_counted_by_their_reason(ready: str, limited: str, expected: str) -> None:
    """The reason of Ready comes before that of a limit, and a limit before the usual one."""
    metrics = ControllerMetrics(registry := CollectorRegistry(), clock=lambda: 0.0)
    conditions = [
        {"type": "Ready", "status": "True", "reason": ready},
        {"type": "AbleToScale", "status": "True", "reason": "ReadyForNewScale"},
        {"type": "ScalingLimited", "status": limited, "reason": "TooManyReplicas"},
    ]
    metrics.decisions.add = lambda *_, **__: None  # type: ignore[method-assign]
    metrics.record_decision("shop", "web", decision({"conditions": conditions}), written=False, seconds=0.1)

    labels = {"action": "none", "reason": expected}
    assert registry.get_sample_value("fedhpa_controller_decisions_total", labels) == 1


async def test_a_scrape_does_not_hold_the_loop() -> None:
    """20,000 samples, and as many that are left out, are rendered without a hold of 50 ms."""
    registry = CollectorRegistry()
    objects = range(2 * MAX_SAMPLES // 20)
    clusters = [cluster(f"m{n}") for n in range(10)]
    registry.register(ReplicaSeries({("shop", f"web-{one}"): status(*clusters) for one in objects}, {}))
    handler = metrics_route(registry).handler
    bodies = []

    async def scrape() -> None:
        answer = await handler(make_mocked_request("GET", "/metrics"))
        assert isinstance(answer, web.Response)
        assert isinstance(answer.body, bytes)
        bodies.append(answer.body)

    longest = await least_longest_hold(lambda: asyncio.ensure_future(scrape()), MAX_HOLD_SECONDS)

    assert bodies[-1].count(b"\nfedhpa_cluster_replicas{") == MAX_SAMPLES
    assert f"fedhpa_cluster_replicas_left_out {MAX_SAMPLES:.1f}".encode() in bodies[-1]
    assert longest < MAX_HOLD_SECONDS
