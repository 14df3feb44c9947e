"""Properties of holds: no share, bound or scale changes against their direction, whatever runs."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fedhpa.api.hold import HOLD_ANNOTATION
from fedhpa.api.taints import CORDON_TAINT, DRAIN_TAINT
from tests.support import distributed_scenarios as distributed
from tests.support.nightly import examples
from tests.support.scenarios import answered, cluster, scenario

POLICIES = ("StaticWeighted", "DynamicWeighted", "Aggregated", "Prioritized", "LoadWeighted", "Duplicated")
DIRECTIONS = ("down", "up", "all")


@st.composite
def workloads(draw: st.DrawFn) -> dict[str, Any]:
    """A workload of mode Centralized in one to four clusters, tainted, limited or silent, under a hold."""
    clusters, wishes = [], []
    for index in range(draw(st.integers(1, 4))):
        name, usages = f"m{index}", draw(st.lists(st.integers(0, 200), max_size=6))
        found = cluster(name, usages, availableReplicas=draw(st.none() | st.integers(0, 8)))
        if taint := draw(st.sampled_from(["", "", DRAIN_TAINT, CORDON_TAINT])):
            found["taints"] = [{"key": taint, "effect": "NoSchedule"}]
        if index and draw(st.integers(0, 5)) == 0:
            found |= {"ready": False, "error": "unreachable", "lastReplicas": len(usages)}
        clusters.append(found)
        low, high = sorted((draw(st.integers(0, 8)), draw(st.integers(0, 8))))
        limits = draw(
            st.sampled_from([{}, {"autoscalingMinThreshold": low, "autoscalingMaxThreshold": high}])
        )
        wishes.append({"targetCluster": {"clusterNames": [name]}, **limits})
    low, high = sorted((draw(st.integers(1, 12)), draw(st.integers(1, 30))))
    assignment = {
        "federatedHPAAssignmentType": draw(st.sampled_from(POLICIES)),
        "clusterAutoscalingPreference": wishes,
    }
    spec = {"minReplicas": low, "maxReplicas": high, "federatedHPAAssignment": assignment}
    made = scenario(clusters, target=None, spec=spec)
    if draw(st.booleans()):
        made["record"] = {"size": draw(st.integers(1, 12))}
        del made["history"]
    made["federatedHPA"]["metadata"]["annotations"] = {HOLD_ANNOTATION: draw(st.sampled_from(DIRECTIONS))}
    return made


@settings(max_examples=examples(60, 2000), deadline=None)
@given(made=workloads())
def test_no_share_changes_against_the_hold(made: dict[str, Any]) -> None:
    """Under `down` the size and each share stay, but for drains; under `up` only minReplicas adds any."""
    answer = answered(made)
    direction = made["federatedHPA"]["metadata"]["annotations"][HOLD_ANNOTATION]
    spec = made["federatedHPA"]["spec"]
    before = {one["name"]: one["scale"]["specReplicas"] for one in made["clusters"]}
    drained = {one["name"] for one in made["clusters"] if DRAIN_TAINT in str(one.get("taints"))}
    after = {one["cluster"]: one["replicas"] for one in answer["assignment"]}
    current, desired = answer["currentReplicas"], answer["desiredReplicas"]
    if answer["error"] is not None:
        assert not answer["rescale"]  # nothing is written
        return

    if direction != "up":
        assert desired >= current
        assert all(after[name] >= before[name] for name in after if name not in drained)
        # A drain removes replicas that run besides the size.
        least = min(sum(before[name] for name in after), current if drained else 1000)
        assert sum(after.values()) >= least
    if direction != "down":
        assert desired <= max(current, spec["minReplicas"])
        assert desired > current or all(after[name] <= before[name] for name in after)
    if direction == "all" and desired == current:
        assert after == {name: before[name] for name in after}


@st.composite
def fleets(draw: st.DrawFn) -> dict[str, Any]:
    """A workload of mode Distributed, assigned once, with other bounds, usage and a hold since."""
    names = [f"m{index}" for index in range(draw(st.integers(1, 4)))]
    policy = draw(st.sampled_from(["StaticWeighted", "Aggregated", "Prioritized", "Duplicated"]))
    sizes = st.integers(1, 6)
    clusters = [distributed.cluster(name, draw(sizes)) for name in names]
    zero = draw(st.booleans())
    first = distributed.federated(
        draw(st.integers(1, 8)), draw(st.integers(8, 30)), policy, scalingToZero=zero
    )
    made = distributed.assigned(distributed.scenario(first, *clusters))
    low, high = sorted((draw(st.integers(1, 12)), draw(st.integers(1, 30))))
    made["federatedHPA"]["spec"] |= {"minReplicas": low, "maxReplicas": high}
    made["federatedHPA"]["metadata"]["annotations"] = {HOLD_ANNOTATION: draw(st.sampled_from(DIRECTIONS))}
    for each in made["clusters"]:
        if each["hpa"] is not None:
            spec, runs = each["hpa"]["spec"], each["scale"]["specReplicas"]
            usage = draw(st.integers(1, 100))
            each["hpa"] = distributed.hpa(spec["minReplicas"], spec["maxReplicas"], runs, usage)
            each["pendingReplicas"] = draw(st.integers(0, runs))
    return made


@settings(max_examples=examples(60, 2000), deadline=None)
@given(made=fleets())
def test_no_bound_cuts_or_starts_replicas_against_the_hold(made: dict[str, Any]) -> None:
    """Under `down` no bound or scale falls below what runs; under `up` only minReplicas adds replicas."""
    answer = distributed.replayed(made)
    direction = made["federatedHPA"]["metadata"]["annotations"][HOLD_ANNOTATION]
    runs = {one["name"]: one["scale"]["specReplicas"] for one in made["clusters"]}
    hpas = {one["name"]: one["hpa"] for one in made["clusters"]}
    for one in answer["assignment"]:
        name = one["cluster"]
        if direction != "up" and hpas[name] is not None:
            assert one["maxReplicas"] >= min(runs[name], hpas[name]["spec"]["maxReplicas"])
            assert one["minReplicas"] >= min(runs[name], hpas[name]["spec"]["minReplicas"])
        if direction != "up":
            assert one.get("replicas", runs[name]) >= runs[name]
        if direction != "down" and hpas[name] is not None:
            assigned = answer["record"]["clusters"][name].get("assignment", {}).get("minimum", 0)
            allowed = max(runs[name], hpas[name]["spec"]["minReplicas"], assigned, 1)
            assert one["minReplicas"] <= allowed
