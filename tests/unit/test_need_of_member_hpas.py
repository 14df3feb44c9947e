"""The need of a cluster is read from the status of its own HPA. Unreadable values are unknown."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from fedhpa.api.times import format_time
from fedhpa.assignment.member_hpa import pinned_need, usage_load
from tests.support.distributed import NOW


def cpu(target: int) -> dict[str, Any]:
    return {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": target}},
    }


def cpu_now(usage: int) -> dict[str, Any]:
    return {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": usage}}}


def limited(since: float | None = NOW - 600, reason: str = "TooManyReplicas") -> dict[str, Any]:
    condition = {"type": "ScalingLimited", "status": "True", "reason": reason}
    return condition if since is None else {**condition, "lastTransitionTime": format_time(since)}


def hpa(
    metrics: Any, values: Any, conditions: Any = None, current: Any = 4, maximum: Any = 4
) -> dict[str, Any]:
    return {
        "spec": {"minReplicas": 1, "maxReplicas": maximum, "metrics": metrics},
        "status": {
            "currentReplicas": current,
            "currentMetrics": values,
            "conditions": [limited()] if conditions is None else conditions,
        },
    }


def test_a_pinned_cluster_needs_its_replicas_at_the_usage() -> None:
    """4 replicas at 75 % of 50 % need 6."""
    assert pinned_need(hpa([cpu(50)], [cpu_now(75)]), 0, NOW) == 6


def test_the_highest_metric_counts() -> None:
    """Values are found by what they measure, in any order."""
    pods = {
        "type": "Pods",
        "pods": {"metric": {"name": "rps"}, "target": {"type": "AverageValue", "averageValue": "500m"}},
    }
    now = {"type": "Pods", "pods": {"metric": {"name": "rps"}, "current": {"averageValue": "1"}}}

    assert pinned_need(hpa([cpu(50), pods], [now, cpu_now(75)]), 0, NOW) == 8


@pytest.mark.parametrize(
    "conditions",
    [[], [limited(reason="TooFewReplicas")], [{**limited(), "status": "False"}], [limited(NOW - 59)]],
    ids=["none", "another limit", "false", "younger than the delay"],
)
def test_a_cluster_without_an_old_limit_is_not_pinned(conditions: list[Any]) -> None:
    """ScalingLimited=True with TooManyReplicas must be as old as autoscaleMultiClusterDelay."""
    assert pinned_need(hpa([cpu(50)], [cpu_now(75)], conditions), 60, NOW) is None


def test_the_condition_is_the_clock() -> None:
    """Exactly the delay is long enough, and a condition without a time counts as old."""
    assert pinned_need(hpa([cpu(50)], [cpu_now(75)], [limited(NOW - 60)]), 60, NOW) == 6
    assert pinned_need(hpa([cpu(50)], [cpu_now(75)], [limited(None)]), 60, NOW) == 6


def test_a_condition_from_the_future_counts_as_now() -> None:
    """It is as young as can be, however far ahead the member's clock is."""
    ahead = hpa([cpu(50)], [cpu_now(75)], [limited(NOW + 3600)])

    assert pinned_need(ahead, 1, NOW) is None
    assert pinned_need(ahead, 0, NOW) == 6


def test_a_cluster_below_its_maximum_is_not_pinned() -> None:
    """The condition may be older than a raised maximum."""
    assert pinned_need(hpa([cpu(50)], [cpu_now(75)], maximum=5), 0, NOW) is None


def test_values_of_an_hpa_that_cannot_compute_are_old() -> None:
    """With ScalingActive=False neither need nor load is known."""
    broken = hpa([cpu(50)], [cpu_now(75)], [limited(), {"type": "ScalingActive", "status": "False"}])

    assert (pinned_need(broken, 0, NOW), usage_load(broken)) == (None, None)


def test_the_load_needs_every_metric() -> None:
    """A metric without a value may be the highest, so the load is unknown; the need is at least the rest."""
    memory = {
        "type": "Resource",
        "resource": {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 50}},
    }
    half = hpa([cpu(50), memory], [cpu_now(75)])

    assert (pinned_need(half, 0, NOW), usage_load(half)) == (6, None)
    assert usage_load(hpa([cpu(50)], [cpu_now(15)], current=1)) == Fraction(3, 10)


def test_a_value_of_another_metric_is_no_value() -> None:
    """Name, container, selector and object must be the same."""
    container = {
        "type": "ContainerResource",
        "containerResource": {
            "name": "cpu",
            "container": "web",
            "target": {"type": "Utilization", "averageUtilization": 50},
        },
    }
    other = {
        "type": "ContainerResource",
        "containerResource": {"name": "cpu", "container": "log", "current": {"averageUtilization": 90}},
    }

    assert pinned_need(hpa([container], [other]), 0, NOW) is None


@pytest.mark.parametrize(
    "odd", [True, -1, 1.5, "x", 2**40, 1e300, [], {}, [[]], {"a": 1}, "9" * 400], ids=repr
)
def test_odd_values_are_unknown(odd: Any) -> None:
    """The answer is a replica count or unknown for any value that a member sends."""
    usage = {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": odd}}}
    found = [
        pinned_need(one, 0, NOW)
        for one in (
            hpa([cpu(50)], [usage]),
            hpa([cpu(50)], odd),
            hpa(odd, [cpu_now(75)]),
            hpa([odd], [odd]),
            hpa([cpu(50)], [cpu_now(75)], odd),
            hpa([cpu(50)], [cpu_now(75)], current=odd),
            hpa([cpu(50)], [cpu_now(75)], maximum=odd),
            odd,
            {"spec": odd, "status": odd},
        )
    ]

    assert all(need is None or (type(need) is int and 0 <= need < 2**31) for need in found)
    assert found[2:7] == [None] * 5
