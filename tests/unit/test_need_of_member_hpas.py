"""The need of a cluster is read from the status of its own HPA. Unreadable values are unknown."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from fedhpa.api.member_hpas import HpaSpec, MemberHpa
from fedhpa.api.times import format_time
from fedhpa.assignment.member_hpa import HpaReport, report_of
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


def hpa(metrics: Any, values: Any, conditions: Any = None, **status: Any) -> dict[str, Any]:
    return {
        "spec": {"metrics": metrics},
        "status": {
            "currentMetrics": values,
            "conditions": [limited()] if conditions is None else conditions,
            **status,
        },
    }


def report(found: Any) -> HpaReport:
    """The report of an HPA, from any status that a member sends."""
    parts: list[Any] = [found.get(part) if isinstance(found, dict) else found for part in ("spec", "status")]
    spec, status = parts
    metrics = spec.get("metrics") if isinstance(spec, dict) else spec
    return report_of(MemberHpa(spec=HpaSpec(metrics=metrics), status=status))


def limited_for(found: Any) -> float | None:
    """For how many seconds it has been limited."""
    since = report(found).limited_since
    return None if since is None else max(NOW - since, 0.0)


def test_the_load_is_what_would_keep_usage_at_target() -> None:
    """4 ready replicas at 75 % of 50 % need 6; those that only start have no usage yet."""
    assert report(hpa([cpu(50)], [cpu_now(75)])).load(4) == 6
    assert report(hpa([cpu(50)], [cpu_now(15)])).load(1) == Fraction(3, 10)


def test_the_highest_metric_counts() -> None:
    """Values are found by what they measure, in any order."""
    pods = {
        "type": "Pods",
        "pods": {"metric": {"name": "rps"}, "target": {"type": "AverageValue", "averageValue": "500m"}},
    }
    now = {"type": "Pods", "pods": {"metric": {"name": "rps"}, "current": {"averageValue": "1"}}}

    assert report(hpa([cpu(50), pods], [now, cpu_now(75)])).load(4) == 8


@pytest.mark.parametrize(
    "conditions",
    [[], [limited(reason="TooFewReplicas")], [{**limited(), "status": "False"}]],
    ids=["none", "another limit", "false"],
)
def test_a_cluster_without_the_limit_is_not_pinned(conditions: list[Any]) -> None:
    """ScalingLimited is True for other reasons, too."""
    assert limited_for(hpa([cpu(50)], [cpu_now(75)], conditions)) is None


def test_the_clock_is_the_later_of_condition_and_scaling() -> None:
    """The condition keeps its time between its reasons, and without any time the clock is infinite."""
    assert limited_for(hpa([], [], [limited(NOW - 60)])) == 60
    assert limited_for(hpa([], [], [limited()], lastScaleTime=format_time(NOW - 30))) == 30
    assert limited_for(hpa([], [], [limited(None)])) == float("inf")
    assert limited_for(hpa([], [], [limited(NOW + 3600)])) == 0


def test_values_of_an_hpa_that_cannot_compute_are_old() -> None:
    """With ScalingActive=False no load is known."""
    broken = hpa([cpu(50)], [cpu_now(75)], [limited(), {"type": "ScalingActive", "status": "False"}])

    assert report(broken).load(4) is None


def test_the_load_needs_every_metric() -> None:
    """A metric without a value may be the highest; where a known one asks for more, it suffices."""
    memory = {
        "type": "Resource",
        "resource": {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 50}},
    }
    half = hpa([cpu(50), memory], [cpu_now(75)])

    assert not report(half).complete
    assert report(half).load(4) == 6


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

    assert report(hpa([container], [other])).load(4) is None


@pytest.mark.parametrize(
    "odd", [True, -1, 1.5, "x", 2**40, 1e300, [], {}, [[]], {"a": 1}, "9" * 400], ids=repr
)
def test_odd_values_are_unknown(odd: Any) -> None:
    """The answer is a replica count or unknown for any value that a member sends."""
    usage = {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": odd}}}
    for one in (
        hpa([cpu(50)], [usage]),
        hpa([cpu(50)], odd),
        hpa(odd, [cpu_now(75)]),
        hpa([odd], [odd]),
        hpa([cpu(50)], [cpu_now(75)], odd),
        hpa([cpu(50)], [cpu_now(75)], lastScaleTime=odd),
        odd,
        {"spec": odd, "status": odd},
    ):
        load, limited_seconds = report(one).load(4), limited_for(one)
        assert load is None or 0 <= load < 2**31
        assert limited_seconds is None or limited_seconds >= 0
