"""Whole syncs of the benchmarks' model of the HPA controller, worked out by hand from Kubernetes HPA 1.36."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.world.hpa import Hpa, PodFacts, Sync

# 2026-03-11T13:20:00Z
START = 1_773_235_200.0
PERIOD = 15.0
NO_WINDOW = {"scaleDown": {"stabilizationWindowSeconds": 0}}
UTILIZATION = "cpu resource utilization (percentage of request)"


def cpu(target: int = 50) -> dict[str, Any]:
    """A metric of CPU in per cent of requests."""
    source = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": target}}
    return {"type": "Resource", "resource": source}


def cores(target: str) -> dict[str, Any]:
    """A metric of CPU in cores per pod."""
    source = {"name": "cpu", "target": {"type": "AverageValue", "averageValue": target}}
    return {"type": "Resource", "resource": source}


def spec(**given: Any) -> dict[str, Any]:
    """A spec with a target of 50 per cent."""
    return {"minReplicas": 1, "maxReplicas": 100, "metrics": [cpu()], **given}


def pods(*usages: int | None, **facts: Any) -> list[PodFacts]:
    """Pods that have been ready for an hour, each with a request of 1000m and its usage."""
    hour_ago = {"started": START - 3610, "ready": True, "ready_changed": START - 3600, "measured": START}
    return [PodFacts(f"web-{index}", usage=usage, **hour_ago | facts) for index, usage in enumerate(usages)]


def sync(hpa: Hpa, given: dict[str, Any], current: int, facts: list[PodFacts], after: float = 0.0) -> Sync:
    """The sync that begins `after` seconds."""
    return hpa.sync(given, current, current, facts, START + after)


def conditions(outcome: Sync) -> dict[str, str]:
    """Status and reason of each condition by its type."""
    return {one["type"]: f"{one['status']} {one['reason']}" for one in outcome.status["conditions"]}


def condition(outcome: Sync, kind: str) -> dict[str, str]:
    """The condition of a type."""
    found: dict[str, str] = next(one for one in outcome.status["conditions"] if one["type"] == kind)
    return found


@pytest.mark.parametrize(
    ("size", "behavior", "expected"),
    [(1, None, 4), (2, None, 4), (3, None, 6), (10, None, 20), (1, {}, 5), (4, {}, 8), (10, {}, 20)],
)
def test_growth_is_limited(size: int, behavior: dict[str, Any] | None, expected: int) -> None:
    """One sync at most doubles, or reaches 4 pods; by default rules it at most doubles, or adds 4 pods."""
    given = spec() if behavior is None else spec(behavior=behavior)

    outcome = sync(Hpa(), given, size, pods(*[5000] * size))

    assert outcome.replicas == expected
    assert conditions(outcome) == {
        "AbleToScale": "True SucceededRescale",
        "ScalingActive": "True ValidMetricFound",
        "ScalingLimited": "True ScaleUpLimit",
    }


def test_a_sync_reports_all_of_the_status() -> None:
    """The status of a sync that scales names the size before and after, metrics, time and messages."""
    outcome = sync(Hpa(), spec(), 3, pods(700, 700, 701))

    # 2101 x 100 / 3000 is cut to 70, and 70 / 50 x 3 is raised to 5.
    assert outcome.replicas == 5
    moment = "2026-03-11T13:20:00Z"
    current = {"averageUtilization": 70, "averageValue": "700m"}
    assert outcome.status == {
        "currentReplicas": 3,
        "desiredReplicas": 5,
        "lastScaleTime": moment,
        "currentMetrics": [{"type": "Resource", "resource": {"name": "cpu", "current": current}}],
        "conditions": [
            {
                "type": "AbleToScale",
                "status": "True",
                "lastTransitionTime": moment,
                "reason": "SucceededRescale",
                "message": "the HPA controller was able to update the target scale to 5",
            },
            {
                "type": "ScalingActive",
                "status": "True",
                "lastTransitionTime": moment,
                "reason": "ValidMetricFound",
                "message": f"the HPA was able to successfully calculate a replica count from {UTILIZATION}",
            },
            {
                "type": "ScalingLimited",
                "status": "False",
                "lastTransitionTime": moment,
                "reason": "DesiredWithinRange",
                "message": "the desired count is within the acceptable range",
            },
        ],
    }


def test_the_time_of_a_condition_moves_with_its_status_only() -> None:
    """ScalingLimited is True while the window remembers 6 replicas of at most 4, then False."""
    hpa, given = Hpa(), spec(maxReplicas=4)
    grown = sync(hpa, given, 3, pods(1000, 1000, 1000))
    assert grown.replicas == 4

    held = [sync(hpa, given, 4, pods(*[500] * 4), count * PERIOD) for count in range(1, 20)]
    settled = sync(hpa, given, 4, pods(*[500] * 4), 300)
    later = sync(hpa, given, 4, pods(*[500] * 4), 315)

    for outcome in grown, *held:
        assert outcome.status["desiredReplicas"] == 4
        limited = condition(outcome, "ScalingLimited")
        assert (limited["status"], limited["reason"]) == ("True", "TooManyReplicas")
        assert limited["lastTransitionTime"] == "2026-03-11T13:20:00Z"
    for outcome in settled, later:
        limited = condition(outcome, "ScalingLimited")
        assert (limited["status"], limited["reason"]) == ("False", "DesiredWithinRange")
        assert limited["lastTransitionTime"] == "2026-03-11T13:25:00Z"
        assert condition(outcome, "AbleToScale")["lastTransitionTime"] == "2026-03-11T13:20:00Z"


def test_without_metrics_nothing_changes() -> None:
    """No metrics of any pod: the size and its limit stay, and ScalingActive tells why."""
    hpa = Hpa()
    assert sync(hpa, spec(), 2, pods(5000, 5000)).replicas == 4

    outcome = sync(hpa, spec(), 4, pods(None, None, None, None), PERIOD)

    assert outcome.replicas is None
    assert (outcome.status["currentReplicas"], outcome.status["desiredReplicas"]) == (4, 4)
    assert outcome.status["currentMetrics"] == [{"type": ""}]
    assert conditions(outcome) == {
        "AbleToScale": "True SucceededGetScale",
        "ScalingActive": "False FailedGetResourceMetric",
        "ScalingLimited": "True ScaleUpLimit",
    }
    active = condition(outcome, "ScalingActive")
    assert active["lastTransitionTime"] == "2026-03-11T13:20:15Z"
    assert active["message"] == (
        "the HPA was unable to compute the replica count: failed to get cpu utilization: unable to get "
        "metrics for resource cpu: no metrics returned from resource metrics API"
    )


def test_metrics_of_pods_that_start_are_none() -> None:
    """Metrics of pods that have just started are as good as none."""
    outcome = sync(Hpa(), spec(), 2, pods(900, 900, started=START - 10, ready=False))

    # No sync has decided a size yet.
    assert (outcome.replicas, outcome.status["desiredReplicas"]) == (None, 0)
    assert condition(outcome, "ScalingActive")["message"].endswith(
        "failed to get cpu utilization: did not receive metrics for targeted pods (pods might be unready)"
    )


@pytest.mark.parametrize(("size", "expected"), [(1, 2), (12, 9)])
def test_a_size_out_of_bounds_is_corrected_at_once(size: int, expected: int) -> None:
    """Without a look at metrics, and whatever the window and rates, the size becomes the bound."""
    given = spec(minReplicas=2, maxReplicas=9, behavior={"scaleDown": {"selectPolicy": "Disabled"}})

    outcome = sync(Hpa(), given, size, pods(*[None] * size))

    assert outcome.replicas == expected
    assert outcome.status["currentMetrics"] is None
    assert conditions(outcome) == {"AbleToScale": "True SucceededRescale"}


def test_no_replicas_disable_scaling() -> None:
    """An HPA leaves a workload at zero, whatever its minimum, until somebody else scales it."""
    hpa = Hpa()
    off = sync(hpa, spec(minReplicas=2), 0, [])
    woken = sync(hpa, spec(minReplicas=2), 3, pods(500, 500, 500), PERIOD)

    assert (off.replicas, off.status["currentMetrics"]) == (None, None)
    assert conditions(off) == {
        "AbleToScale": "True SucceededGetScale",
        "ScalingActive": "False ScalingDisabled",
    }
    assert woken.replicas is None
    active = condition(woken, "ScalingActive")
    assert (active["status"], active["lastTransitionTime"]) == ("True", "2026-03-11T13:20:15Z")


@pytest.mark.parametrize(
    ("given", "usage", "expected", "reason"),
    [
        ({"maxReplicas": 8}, 1000, 8, "DesiredWithinRange"),
        ({"maxReplicas": 8}, 2000, 8, "TooManyReplicas"),
        ({"maxReplicas": 9}, 2000, 8, "ScaleUpLimit"),
        ({"maxReplicas": 8, "behavior": {}}, 2000, 8, "TooManyReplicas"),
        ({"maxReplicas": 9, "behavior": {}}, 2000, 8, "ScaleUpLimit"),
        ({"minReplicas": 2, "behavior": "half"}, 100, 2, "TooFewReplicas"),
        ({"minReplicas": 1, "behavior": "half"}, 100, 2, "ScaleDownLimit"),
    ],
)
def test_a_bound_at_the_rate_limit_is_the_reason(
    given: dict[str, Any], usage: int, expected: int, reason: str
) -> None:
    """If bound and rate limit are equal, the bound is named."""
    if given.get("behavior") == "half":
        policies = [{"type": "Percent", "value": 50, "periodSeconds": 60}]
        given = given | {"behavior": {"scaleDown": {"policies": policies, "stabilizationWindowSeconds": 0}}}

    outcome = sync(Hpa(), spec(**given), 4, pods(*[usage] * 4))

    assert outcome.replicas == expected
    assert condition(outcome, "ScalingLimited")["reason"] == reason


@pytest.mark.parametrize(
    ("tolerance", "usage", "expected"), [(None, 54, None), (None, 56, 12), ("0.2", 60, None), ("50m", 54, 11)]
)
def test_the_tolerance_of_a_direction(tolerance: str | None, usage: int, expected: int | None) -> None:
    """A deviation within the tolerance of the direction, else of the controller, changes nothing."""
    given = spec(behavior={"scaleUp": {"tolerance": tolerance}})

    assert sync(Hpa(), given, 10, pods(*[usage * 10] * 10)).replicas == expected


@pytest.mark.parametrize(
    ("usage", "expected", "active"), [(900, 8, "True"), (300, None, "True"), (10, None, "False")]
)
def test_a_failed_metric_forbids_only_a_scale_down(usage: int, expected: int | None, active: str) -> None:
    """A pod without a request fails the utilization; the average may raise or hold the size."""
    given = spec(metrics=[cpu(), cores("300m")], behavior=NO_WINDOW)
    outcome = sync(Hpa(), given, 4, pods(*[usage] * 4, request=None))

    assert outcome.replicas == expected
    assert condition(outcome, "ScalingActive")["status"] == active
    assert outcome.status["currentMetrics"][0] == {"type": ""}


def test_metrics_of_a_container() -> None:
    """A metric of a container has its own name, reason and status."""
    source = {"name": "cpu", "container": "web", "target": {"type": "Utilization", "averageUtilization": 50}}
    given = spec(metrics=[{"type": "ContainerResource", "containerResource": source}])
    hpa = Hpa()

    measured = sync(hpa, given, 2, pods(500, 500))
    lost = sync(hpa, given, 2, pods(None, None), PERIOD)

    assert condition(measured, "ScalingActive")["message"].endswith(
        "from cpu container resource utilization (percentage of request)"
    )
    current = {"averageUtilization": 50, "averageValue": "500m"}
    assert measured.status["currentMetrics"] == [
        {
            "type": "ContainerResource",
            "containerResource": {"name": "cpu", "container": "web", "current": current},
        }
    ]
    assert conditions(lost)["ScalingActive"] == "False FailedGetContainerResourceMetric"


def test_an_empty_spec_has_the_defaults_of_the_api_server() -> None:
    """Without metrics and minimum the target is 80 per cent of CPU, and the minimum 1."""
    assert sync(Hpa(), {"maxReplicas": 9}, 2, pods(960, 960)).replicas == 3


@pytest.mark.parametrize("kind", ["Pods", "Object", "External"])
def test_other_metrics_are_refused(kind: str) -> None:
    """A metric that the model does not have is an error and not a guess."""
    with pytest.raises(NotImplementedError, match=kind):
        sync(Hpa(), spec(metrics=[{"type": kind}]), 2, pods(1, 1))
