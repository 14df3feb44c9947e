"""The event about a new size has a reason, and with direct propagation each cluster's share."""

from __future__ import annotations

from typing import Any

import pytest

from fedhpa.decision.explanation import to_text
from tests.support.scenarios import CPU, answered, cluster, decided, external, scenario

BY_TARGET = "cpu resource utilization (percentage of request) above target"
BY_WINDOW = "recommended earlier: 7 replicas, 61 s ago, by cpu resource utilization (percentage of request)"
QUEUE = {
    "type": "External",
    "external": {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "10"}},
}
EARLIER = {"recommendations": [{"time": "2026-03-11T13:22:16Z", "replicas": 7}]}


def message(given: dict[str, Any]) -> str:
    """The message of the one SuccessfulRescale."""
    (found,) = [event.message for event in decided(given).events if event.reason == "SuccessfulRescale"]
    return found


def test_size_that_a_window_raises_has_the_reason_of_the_window() -> None:
    """Kubernetes leaves this reason empty. The record keeps Kubernetes' reason."""
    given = scenario([cluster("m", [50] * 4)], history=EARLIER)

    assert message(given) == f"New size: 7; reason: {BY_WINDOW}"
    assert decided(given).reason == ""


@pytest.mark.parametrize("load", [5, 60])
def test_size_of_a_spike_that_is_over_has_the_reason_of_the_spike(load: int) -> None:
    """While the rate limit releases an earlier recommendation, present usage is not the reason of growth.

    It may be below the target, or call for fewer replicas than the spike did.
    """
    earlier = {"recommendations": [{"time": "2026-03-11T13:23:03Z", "replicas": 64}]}
    given = scenario([cluster("m", [load] * 16)], history=earlier)

    by_spike = (
        "recommended earlier: 64 replicas, 14 s ago, by cpu resource utilization (percentage of request)"
    )
    decision = decided(given)

    assert message(given) == f"New size: 32; reason: {by_spike}"
    assert decision.why == by_spike
    assert answered(given)["status"]["summary"]["reason"] == by_spike
    assert f"scale 16 -> 32 replicas; reason: {by_spike}" in to_text(decision)


@pytest.mark.parametrize(
    "spec",
    [
        {"metrics": [CPU, QUEUE]},
        {"partialMetrics": {"policy": "Fallback", "fallbackReplicas": 7}},
    ],
)
def test_earlier_recommendation_names_a_metric_only_if_it_made_it(spec: dict[str, Any]) -> None:
    """Of several metrics, nobody knows which one recommended the size. Fallback recommends without any."""
    member = cluster("m", [50] * 4, externalMetrics=[external("queue", "10")])
    given = scenario([member], history=EARLIER, spec=spec)

    assert message(given) == "New size: 7; reason: recommended earlier: 7 replicas, 61 s ago"


def test_size_that_a_threshold_raises_does_not_blame_low_usage() -> None:
    """A threshold that raises the size is the reason, although all metrics are below target."""
    assignment = {
        "federatedHPAAssignmentType": "Duplicated",
        "clusterAutoscalingPreference": [{"autoscalingMinThreshold": 9}],
    }
    members = [cluster("m1", [10] * 4), cluster("m2", [10] * 4)]
    given = scenario(members, target=None, spec={"federatedHPAAssignment": assignment})

    reason = "autoscalingMinThreshold keeps that many in each cluster"
    assert message(given) == f"New size: 9; reason: {reason}; m1 4 -> 9, m2 4 -> 9"


def test_dry_run_gives_the_same_reason() -> None:
    """The event of a size that is not written has a reason, too."""
    given = scenario([cluster("m", [50] * 4)], history=EARLIER, spec={"dryRun": True})

    (event,) = decided(given).events
    assert event.message == f"New size would be: 7; reason: {BY_WINDOW}"


def test_raise_at_zero_has_the_reason_of_the_bound() -> None:
    """A workload that is woken by its bounds says so."""
    given = scenario([cluster("m", [])], spec={"minReplicas": 3})
    given["federatedHPA"]["status"] = {"conditions": [{"type": "ScaledToZero", "status": "True"}]}
    given["clusters"][0]["scale"]["statusReplicas"] = 0

    decision = decided(given)

    assert not decision.writes or decision.why


def test_split_names_each_cluster_that_changes() -> None:
    """With direct propagation over several clusters the event says where the replicas went."""
    given = scenario([cluster("m1", [100] * 4), cluster("m2", [100] * 3)], target=None)

    assert message(given) == f"New size: 14; reason: {BY_TARGET}; m1 4 -> 7, m2 3 -> 7"


def test_split_is_left_out_of_one_cluster_and_of_a_template() -> None:
    """Where one number was written, the message is Kubernetes'."""
    members = [cluster("m1", [100] * 4), cluster("m2", [100] * 3)]
    template = scenario(members, target={"replicas": 7, "scheduling": "Divided"})

    assert message(scenario(members[:1], target=None)) == f"New size: 8; reason: {BY_TARGET}"
    assert message(template) == f"New size: 14; reason: {BY_TARGET}"


@pytest.mark.parametrize(("count", "more"), [(10, ""), (11, " and 1 more"), (20, " and 10 more")])
def test_split_over_many_clusters_is_short(count: int, more: str) -> None:
    """Ten clusters are named, then the number of the others."""
    members = [cluster(f"m{number:02}", [100] * 2) for number in range(count)]
    given = scenario(members, target=None)

    split = message(given).partition(f"{BY_TARGET}; ")[2]

    assert split.count(" -> ") == 10
    assert split.removesuffix(more).endswith("m09 2 -> 4")
    assert split.endswith(more)
