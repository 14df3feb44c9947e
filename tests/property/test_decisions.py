"""Properties of every decision."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.scenarios import CPU, answered, cluster, external, scenario

loads = st.lists(st.integers(0, 400), min_size=1, max_size=6)
clusters = st.lists(loads, min_size=1, max_size=4)
steep = {"scaleUpLimitFactor": 1000, "scaleUpLimitMinimum": 1000}


def built_scenario(usages: list[list[int]], **changes: Any) -> dict[str, Any]:
    built = [cluster(f"member{i}", usage) for i, usage in enumerate(usages)]
    return scenario(built, controller=steep, **changes)


@given(clusters, st.integers(1, 4))
def test_more_load_never_means_fewer_replicas(usages: list[list[int]], factor: int) -> None:
    """Multiplying every pod's usage does not lower the decided size."""
    more = [[milli * factor for milli in usage] for usage in usages]

    assert (
        answered(built_scenario(more))["desiredReplicas"]
        >= answered(built_scenario(usages))["desiredReplicas"]
    )


@given(clusters, st.randoms())
def test_the_order_of_the_clusters_is_irrelevant(usages: list[list[int]], random: Any) -> None:
    """Shuffled clusters give the same size and metrics."""
    given = built_scenario(usages)
    shuffled = {**given, "clusters": random.sample(given["clusters"], len(given["clusters"]))}

    one, other = answered(given), answered(shuffled)

    assert one["desiredReplicas"] == other["desiredReplicas"]
    assert one["metrics"][0]["current"] == other["metrics"][0]["current"]


@given(loads, st.integers(0, 6))
def test_splitting_a_cluster_changes_nothing(usage: list[int], cut: int) -> None:
    """The same pods over two clusters give the same size, value and conditions."""
    whole = answered(built_scenario([usage]))
    parts = [part for part in (usage[:cut], usage[cut:]) if part]

    split = answered(built_scenario(parts))

    for key in ("desiredReplicas", "reason", "rescale"):
        assert split[key] == whole[key]
    assert split["metrics"][0]["current"] == whole["metrics"][0]["current"]


@given(clusters, st.integers(1, 10), st.integers(0, 20))
def test_bounds_hold(usages: list[list[int]], low: int, span: int) -> None:
    """The decided size lies within minReplicas and maxReplicas."""
    answer = answered(built_scenario(usages, spec={"minReplicas": low, "maxReplicas": low + span}))

    assert low <= answer["desiredReplicas"] <= low + span


@given(clusters, st.lists(st.booleans(), min_size=4, max_size=4))
def test_absence_never_scales_down(usages: list[list[int]], away: list[bool]) -> None:
    """Under the default policy missing clusters never make the workload smaller."""
    given = built_scenario(usages)
    for member, gone in zip(given["clusters"], away, strict=False):
        if gone:
            member["ready"] = False
    answer = answered(given)

    if answer["coverage"]["missing"] and answer["error"] is None:
        assert answer["desiredReplicas"] >= answer["currentReplicas"]
    if answer["error"] is not None:
        assert answer["rescale"] is False


@given(clusters, st.lists(st.booleans(), min_size=4, max_size=4), st.integers(0, 6))
def test_direct_assignments_add_up(usages: list[list[int]], away: list[bool], last: int) -> None:
    """Shares add up to the decided size, missing clusters keep theirs, and growth lowers no share."""
    given = built_scenario(usages, target=None)
    for member, gone in zip(given["clusters"], away, strict=False):
        if gone:
            member.update(ready=False, lastReplicas=last)
    answer = answered(given)
    if answer["error"] is not None:
        return
    before = {
        member["name"]: member["scale"]["specReplicas"] if member["ready"] else last
        for member in given["clusters"]
    }
    shares = {share["cluster"]: share["replicas"] for share in answer["assignment"]}

    assert sum(before.values()) == answer["currentReplicas"]
    assert all(shares[name] == last for name in answer["coverage"]["missing"])
    if answer["desiredReplicas"] >= answer["currentReplicas"]:
        assert sum(shares.values()) == answer["desiredReplicas"]
        assert all(shares[name] >= size for name, size in before.items())


# Usage, the usage that is added later, and the state of the pod.
pods = st.tuples(
    st.integers(0, 400),
    st.integers(0, 400),
    st.sampled_from(("measured", "measured", "measured", "unmeasured", "pending", "failed")),
)
QUEUE = {
    "type": "External",
    "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"}},
}


def mixed(name: str, given: list[tuple[int, str]], **changes: Any) -> dict[str, Any]:
    """A cluster with pods in any state."""
    found = cluster(name, [usage for usage, _ in given])
    for index, (_, state) in enumerate(given):
        if state in ("pending", "failed"):
            found["pods"][index]["status"] = {"phase": state.capitalize()}
    measured = [state in ("measured", "failed") for _, state in given]
    found["podMetrics"] = [item for item, shown in zip(found["podMetrics"], measured, strict=True) if shown]
    return {**found, **changes}


@given(st.lists(st.lists(pods, min_size=1, max_size=6), min_size=1, max_size=3), st.integers(0, 90))
def test_more_load_on_any_pod_never_means_fewer_replicas(
    clusters: list[list[tuple[int, int, str]]], queue: int
) -> None:
    """More usage never lowers the size, for pods in any state and beside another metric."""

    def built_scenario(*, more: bool) -> dict[str, Any]:
        built = [
            mixed(f"m{i}", [(usage + more * added, state) for usage, added, state in one])
            for i, one in enumerate(clusters)
        ]
        built[0]["externalMetrics"] = [external("queue", str(queue))]
        return scenario(built, controller=steep, spec={"metrics": [CPU, QUEUE]})

    less, more = answered(built_scenario(more=False)), answered(built_scenario(more=True))

    if less["error"] is None:
        assert more["error"] is None
        assert more["desiredReplicas"] >= less["desiredReplicas"]


@given(
    st.lists(st.tuples(pods, st.booleans()), min_size=1, max_size=8), st.integers(0, 90), st.integers(0, 90)
)
def test_pods_may_be_in_any_of_two_clusters(
    given: list[tuple[tuple[int, int, str], bool]], left: int, right: int
) -> None:
    """Pods divided over two clusters, each with a part of the queue, give the decision of one cluster."""
    plain = [(usage, state) for (usage, _, state), _ in given]
    parts = [
        [pod for pod, (_, here) in zip(plain, given, strict=True) if here is side] for side in (True, False)
    ]
    spec = {"metrics": [CPU, QUEUE]}
    whole = [mixed("m", plain, externalMetrics=[external("queue", str(left + right))])]
    split = [
        mixed(f"m{i}", part, externalMetrics=[external("queue", str(value))])
        for i, (part, value) in enumerate(zip(parts, (left, right), strict=True))
    ]

    one = answered(scenario(whole, controller=steep, spec=spec))
    two = answered(scenario(split, controller=steep, spec=spec))

    for key in ("desiredReplicas", "rescale", "reason", "error"):
        assert two[key] == one[key]
    assert [metric["current"] for metric in two["metrics"]] == [
        metric["current"] for metric in one["metrics"]
    ]


@given(
    clusters,
    st.lists(st.sampled_from(("here", "away", "unmeasured")), min_size=4, max_size=4),
    st.sampled_from(("ScaleUpOnly", "Hold", "Fallback", "Proceed")),
    st.integers(0, 50),
    st.booleans(),
)
def test_bounds_hold_whatever_is_missing(
    usages: list[list[int]], states: list[str], policy: str, fallback: int, direct: bool
) -> None:
    """Every policy, fallbackReplicas included, keeps within minReplicas and maxReplicas."""
    partial = {"policy": policy, "fallbackReplicas": fallback}
    given = built_scenario(usages, spec={"minReplicas": 5, "maxReplicas": 9, "partialMetrics": partial})
    given |= {"target": {"replicas": 7}} if not direct else {}
    if direct:
        del given["target"]
    for member, state in zip(given["clusters"], states, strict=False):
        if state == "away":
            member.update(ready=False, lastReplicas=2)
        elif state == "unmeasured":
            member["podMetrics"] = {"error": "HTTP 503"}

    answer = answered(given)

    if answer["rescale"]:
        assert 5 <= answer["desiredReplicas"] <= 9


@given(
    clusters, st.lists(st.sampled_from(("here", "away", "unmeasured")), min_size=4, max_size=4), st.booleans()
)
def test_missing_data_never_scales_down(usages: list[list[int]], states: list[str], direct: bool) -> None:
    """Neither missing clusters nor missing metrics scale down, with both propagations."""
    given = built_scenario(usages)
    if direct:
        del given["target"]
    for member, state in zip(given["clusters"], states, strict=False):
        if state == "away":
            member.update(ready=False, lastReplicas=len(member["pods"]))
        elif state == "unmeasured":
            member["podMetrics"] = {"error": "HTTP 503"}

    answer = answered(given)

    if "away" in states[: len(usages)] or "unmeasured" in states[: len(usages)]:
        assert not answer["rescale"] or answer["desiredReplicas"] > answer["currentReplicas"]


# A cluster's pods, and which of its answers is empty.
emptied = st.sampled_from(("", "pods", "samples", "pods and samples"))


@given(
    st.lists(st.tuples(loads, emptied), min_size=1, max_size=4),
    st.sampled_from(("ScaleUpOnly", "Hold")),
    st.sampled_from(("Resource", "AverageValue", "Container", "Pods")),
    st.booleans(),
    st.booleans(),
)
def test_an_emptied_answer_gives_no_less(
    given_clusters: list[tuple[list[int], str]], policy: str, kind: str, behavior: bool, direct: bool
) -> None:
    """The size is never below that with the full answer, and never below what runs."""
    spec: dict[str, Any] = {"partialMetrics": {"policy": policy}, "metrics": [PER_POD[kind]]}
    spec |= {"behavior": {}} if behavior else {}
    whole, holed = [], []
    for index, (usages, what) in enumerate(given_clusters):
        member = cluster(f"m{index}", usages, customMetrics=rps(usages))
        whole.append(member)
        without: dict[str, Any] = {"pods": []} if "pods" in what else {}
        without |= {"podMetrics": [], "customMetrics": []} if "samples" in what else {}
        holed.append({**member, **without})
    total = sum(len(usages) for usages, _ in given_clusters)
    changes: dict[str, Any] = {"controller": steep, "spec": spec}
    changes["target"] = None if direct else {"replicas": total, "scheduling": "Divided"}

    with_it, without_it = answered(scenario(whole, **changes)), answered(scenario(holed, **changes))

    size = without_it["desiredReplicas"] if without_it["rescale"] else total
    assert size >= min(with_it["desiredReplicas"], total)


def rps(usages: list[int]) -> list[dict[str, Any]]:
    """One value of the metric `rps` for each pod."""
    return [
        {
            "describedObject": {"kind": "Pod", "namespace": "shop", "name": f"web-{i}"},
            "metric": {"name": "rps"},
            "timestamp": "2026-03-11T13:23:00Z",
            "value": f"{milli}m",
        }
        for i, milli in enumerate(usages)
    ]


PER_POD: dict[str, dict[str, Any]] = {
    "Resource": CPU,
    "AverageValue": {"type": "Resource", "resource": {"name": "cpu", "target": {"averageValue": "50m"}}},
    "Container": {
        "type": "ContainerResource",
        "containerResource": {"name": "cpu", "container": "web", "target": {"averageUtilization": 50}},
    },
    "Pods": {
        "type": "Pods",
        "pods": {"metric": {"name": "rps"}, "target": {"type": "AverageValue", "averageValue": "50m"}},
    },
}
