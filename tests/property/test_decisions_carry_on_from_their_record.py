"""A chain of decisions needs only the record of the one before each, and decides as with the status."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedhpa.api.times import format_time, parse_time
from tests.property.test_distributed_decisions import fleets
from tests.support.distributed_scenarios import cluster as distributed_cluster
from tests.support.distributed_scenarios import federated, hpa
from tests.support.distributed_scenarios import scenario as distributed_scenario
from tests.support.nightly import examples
from tests.support.scenarios import CPU, answered, carry_on, cluster, external, scenario

STATES = st.sampled_from(("answers", "answers", "answers", "away", "unmeasured", "held", "empty"))
QUEUE = {
    "type": "External",
    "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"}},
}
POLICY = {"type": "Pods", "value": 2, "periodSeconds": 120}
BEHAVIORS: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    (
        {},
        {"behavior": {"scaleUp": {"policies": [POLICY]}, "scaleDown": {"policies": [POLICY]}}},
        {"behavior": {"scaleUp": {"stabilizationWindowSeconds": 60}, "scaleDown": {}}},
    )
)
PLACEMENTS = st.sampled_from(
    (None, {"federatedHPAAssignmentType": "Duplicated"}, {"federatedHPAAssignmentType": "StaticWeighted"})
)
ASKED = {"autoscaling.karmada.io/rebalance": "2026-03-11T13:24:00Z"}


def without_history(answer: dict[str, Any]) -> dict[str, Any]:
    """The decision without its history. The record leaves out entries that no later decision notices."""
    found = copy.deepcopy(answer)
    for place in (found, found["record"]):
        place.pop("history", None)
    return found


def in_process(raw: dict[str, Any], answer: dict[str, Any]) -> None:
    """Carry on as a process does that has the whole history."""
    carry_on(raw, answer)
    raw["history"] = answer["history"]


def chains(raw: dict[str, Any], changes: list[dict[str, Any]], apply: Any) -> None:
    """Decide, carry out and change both chains step by step. Each pair of decisions is the same."""
    with_history, with_record = raw, copy.deepcopy(raw)
    for change in changes:
        first, second = answered(with_history), answered(with_record)
        assert without_history(second) == without_history(first)
        in_process(with_history, first)
        carry_on(with_record, second)
        for one in (with_history, with_record):
            apply(one, first, change)
            one["now"] = format_time((parse_time(one["now"]) or 0) + change["seconds"])


def carried_out(raw: dict[str, Any], answer: dict[str, Any], change: dict[str, Any]) -> None:
    """Mode Centralized: the members run what was written, with other usage, and some fail."""
    shares = {share["cluster"]: share["replicas"] for share in answer["assignment"]}
    size = answer["desiredReplicas"] if answer["rescale"] else answer["currentReplicas"]
    if "target" in raw:
        raw["target"] = {"replicas": size, "scheduling": "Divided"}
    for index, (before, (state, load)) in enumerate(zip(raw["clusters"], change["members"], strict=True)):
        name, running = before["name"], before["scale"]["specReplicas"]
        count = shares.get(name, running) if "target" not in raw else (size + index) // len(raw["clusters"])
        raw["clusters"][index] = member(name, min(count, 20), state, load)
    if change["queue"] is not None:
        raw["clusters"][0]["externalMetrics"] = [external("queue", str(change["queue"]))]


def member(name: str, count: int, state: str, load: int) -> dict[str, Any]:
    found = cluster(name, [load] * count)
    found |= {"ready": False} if state == "away" else {}
    found |= {"held": True} if state == "held" else {}
    found |= {"podMetrics": {"error": "HTTP 503"}} if state == "unmeasured" else {}
    found |= {"podMetrics": []} if state == "empty" else {}
    return found


MEMBERS = st.tuples(STATES, st.sampled_from((0, 20, 45, 50, 55, 90, 200)))
CHANGES = st.lists(
    st.fixed_dictionaries(
        {
            "seconds": st.sampled_from((15, 60, 150, 301, 4000)),
            "members": st.tuples(MEMBERS, MEMBERS, MEMBERS),
            "queue": st.none() | st.integers(0, 200),
        }
    ),
    min_size=3,
    max_size=8,
)


@st.composite
def workloads(draw: st.DrawFn) -> dict[str, Any]:
    """Three clusters in mode Centralized, with policies, windows, placements and a rebalance."""
    spec: dict[str, Any] = {
        "minReplicas": draw(st.sampled_from((0, 1, 4))),
        "maxReplicas": draw(st.sampled_from((4, 40))),
        "metrics": draw(st.sampled_from(([CPU], [CPU, QUEUE]))),
        "partialMetrics": {
            "policy": draw(st.sampled_from(("ScaleUpOnly", "Hold", "Fallback", "Proceed"))),
            "fallbackReplicas": 7,
            "lostAfterSeconds": draw(st.sampled_from((60, 300))),
        },
        "dryRun": draw(st.sampled_from((False, False, False, True))),
        **draw(BEHAVIORS),
    }
    placement, with_template = draw(PLACEMENTS), draw(st.booleans())
    if placement:
        spec["federatedHPAAssignment"] = placement
    sizes = draw(st.tuples(*[st.integers(0, 8)] * 3))
    found = scenario(
        [cluster(f"m{index}", [50] * size) for index, size in enumerate(sizes)],
        spec=spec,
        target={"replicas": sum(sizes), "scheduling": "Divided"} if with_template else None,
    )
    if draw(st.booleans()):
        found["federatedHPA"]["metadata"]["annotations"] = ASKED
    return found


def a_rebalance() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A rebalance begins after the first decision. A cluster is missing right after replicas moved."""
    found = scenario([cluster(f"m{index}", [50] * size) for index, size in enumerate((8, 2, 2))], target=None)
    found["federatedHPA"]["metadata"]["annotations"] = ASKED
    well, away = ("answers", 50), ("away", 50)
    members = [(well, well, well), (well, well, well), (well, well, well), (away, well, well)]
    return found, [{"seconds": 60, "members": each, "queue": None} for each in (*members, *members)]


@example(*a_rebalance())
@given(workloads(), CHANGES)
@settings(max_examples=examples(40, 2_000), deadline=None)
def test_centralized_decisions_need_only_the_record(
    raw: dict[str, Any], changes: list[dict[str, Any]]
) -> None:
    """Absences, failovers, rebalances, windows and policies go on as with the status and the history."""
    chains(raw, changes, carried_out)


def bounds_written(raw: dict[str, Any], answer: dict[str, Any], change: dict[str, Any]) -> None:
    """Mode Distributed: the members have the bounds, some are full, loaded or gone."""
    bounds = {each["cluster"]: (each["minReplicas"], each["maxReplicas"]) for each in answer["assignment"]}
    for each, (pending, usage, gone) in zip(raw["clusters"], change["members"], strict=False):
        least, most = bounds.get(each["name"], (0, 0))
        running = min(max(each["scale"]["specReplicas"], least), most)
        each["scale"] |= {"specReplicas": running, "statusReplicas": running}
        each["hpa"] = hpa(least, most, running, usage) if most else None
        each["pendingReplicas"] = min(pending, running)
        each.pop("error", None)
        each |= {"error": "no answer"} if gone else {}
    raw.pop("target", None)
    if change["no_hub"]:
        raw["target"] = {"error": "no hub"}


LOADS = st.tuples(
    st.sampled_from((0, 0, 2)), st.sampled_from((20, 50, 90)), st.sampled_from((False, False, True))
)
PASSES = st.lists(
    st.fixed_dictionaries(
        {
            "seconds": st.sampled_from((60, 120, 301, 900)),
            "members": st.tuples(*[LOADS] * 4),
            "no_hub": st.sampled_from((False, False, False, True)),
        }
    ),
    min_size=3,
    max_size=8,
)


def a_cluster_at_zero() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Load falls until clusters go to 0, and rises again."""
    found = distributed_scenario(
        federated(2, 12), *(distributed_cluster(name, 1, hpa(1, 4, 1, 30)) for name in "abc")
    )
    calm, busy = (0, 30, False), (0, 90, False)
    loads = [*[(calm,) * 4] * 8, *[(busy,) * 4] * 4]
    return found, [{"seconds": 60, "members": each, "no_hub": False} for each in loads]


@example(*a_cluster_at_zero(), True)
@given(fleets(), PASSES, st.booleans())
@settings(max_examples=examples(40, 2_000), deadline=None)
def test_passes_need_only_the_record(
    raw: dict[str, Any], changes: list[dict[str, Any]], to_zero: bool
) -> None:
    """Bounds, help, holds, full clusters, losses and clusters at 0 go on as with the status."""
    raw["federatedHPA"]["spec"]["scalingToZero"] = to_zero
    chains(raw, changes, bounds_written)
