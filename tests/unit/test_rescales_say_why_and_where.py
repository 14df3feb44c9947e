"""The event about a new size has a reason, and with direct propagation each cluster's share."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.scenarios import cluster, decided, scenario

BY_TARGET = "cpu resource utilization (percentage of request) above target"
BY_WINDOW = "recent recommendations were higher than current one, applying the highest recent recommendation"
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
