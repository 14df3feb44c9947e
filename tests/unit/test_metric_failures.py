"""A metric that fails says so in Kubernetes' words."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.scenarios import CPU, answered, cluster, condition, pod, scenario, usage

NOT_A_SELECTOR = {"matchExpressions": [{"key": "a", "operator": "Cheddar"}]}
NOT_AN_OPERATOR = '"Cheddar" is not a valid label selector operator'
SERVICE = {"kind": "Service", "name": "web", "apiVersion": "v1"}


def resource(**target: Any) -> dict[str, Any]:
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def container(name: str, **target: Any) -> dict[str, Any]:
    source = {"name": "cpu", "container": name, "target": target}
    return {"type": "ContainerResource", "containerResource": source}


def pods(selector: Any = None) -> dict[str, Any]:
    target = {"type": "AverageValue", "averageValue": "10"}
    return {"type": "Pods", "pods": {"metric": {"name": "qps", "selector": selector}, "target": target}}


def of_object(selector: Any = None, **target: Any) -> dict[str, Any]:
    metric = {"name": "qps", "selector": selector}
    return {"type": "Object", "object": {"metric": metric, "describedObject": SERVICE, "target": target}}


def outside(selector: Any = None, **target: Any) -> dict[str, Any]:
    metric = {"name": "queue", "selector": selector}
    return {"type": "External", "external": {"metric": metric, "target": target}}


NO_USAGE = "unable to get metrics for resource cpu: no metrics returned from resource metrics API"
NO_TARGET = (
    "invalid resource metric source: neither an average utilization target nor an average value "
    "(usage) target was set"
)
EMPTY_OBJECT = (
    "unable to get metric qps: Service on shop web/unable to fetch metrics from custom metrics API: "
    "the custom metrics API server returned 0 results when we asked for exactly one"
)
EMPTY_EXTERNAL = "unable to get external metric shop/queue/nil: no metrics returned from external metrics API"
SELECTOR_DUMP = (
    "&LabelSelector{MatchLabels:map[string]string{b: 2,},MatchExpressions:[]LabelSelectorRequirement"
    "{LabelSelectorRequirement{Key:a,Operator:In,Values:[1 2],},},}"
)
SELECTOR = {
    "matchLabels": {"b": "2"},
    "matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}],
}


@pytest.mark.parametrize(
    ("metric", "reason", "cause", "source"),
    [
        (
            resource(averageValue="1"),
            "FailedGetResourceMetric",
            f"failed to get cpu usage: {NO_USAGE}",
            "failed to get cpu resource metric value: ",
        ),
        (
            resource(),
            "FailedGetResourceMetric",
            NO_TARGET,
            "failed to get cpu resource metric value: ",
        ),
        (
            container("web", averageUtilization=50),
            "FailedGetContainerResourceMetric",
            f"failed to get cpu utilization: {NO_USAGE}",
            "failed to get web container metric value: ",
        ),
        (
            pods(),
            "FailedGetPodsMetric",
            "unable to get metric qps: no metrics returned from custom metrics API",
            "failed to get pods metric value: ",
        ),
        (
            pods(NOT_A_SELECTOR),
            "FailedGetPodsMetric",
            NOT_AN_OPERATOR,
            "failed to get pods metric value: ",
        ),
        (
            of_object(type="Value", value="1"),
            "FailedGetObjectMetric",
            EMPTY_OBJECT,
            "failed to get object metric value: ",
        ),
        (
            of_object(type="AverageValue", averageValue="1"),
            "FailedGetObjectMetric",
            EMPTY_OBJECT,
            "failed to get object metric value: failed to get qps object metric: ",
        ),
        (
            of_object(type="AverageValue", value="1"),
            "FailedGetObjectMetric",
            "invalid object metric source: neither a value target nor an average value target was set",
            "failed to get object metric value: ",
        ),
        (
            of_object(NOT_A_SELECTOR, type="AverageValue", averageValue="1"),
            "FailedGetObjectMetric",
            NOT_AN_OPERATOR,
            "failed to get object metric value: ",
        ),
        (
            outside(value="1"),
            "FailedGetExternalMetric",
            EMPTY_EXTERNAL,
            "failed to get queue external metric value: failed to get external metric queue: ",
        ),
        (
            outside(averageValue="1"),
            "FailedGetExternalMetric",
            EMPTY_EXTERNAL,
            "failed to get queue external metric value: failed to get queue external metric: ",
        ),
        (
            outside(SELECTOR, value="1"),
            "FailedGetExternalMetric",
            EMPTY_EXTERNAL.replace("nil", SELECTOR_DUMP),
            "failed to get queue external metric value: failed to get external metric queue: ",
        ),
        (
            outside(),
            "FailedGetExternalMetric",
            "invalid external metric source: neither a value target nor an average value target was set",
            "failed to get queue external metric value: ",
        ),
        ({"type": "Cheddar"}, "InvalidMetricSourceType", 'unknown metric source type "Cheddar"', ""),
    ],
)
def test_the_sync_names_the_source_before_the_cause(
    metric: dict[str, Any], reason: str, cause: str, source: str
) -> None:
    """The event and the condition hold the cause, the error of the sync the source before it."""
    answer = answered(scenario([cluster("member1", [80, 80], podMetrics=[])], spec={"metrics": [metric]}))

    error = f"invalid metrics (1 invalid out of 1), first error is: {source}{cause}"
    assert answer["error"] == error
    assert [(event["reason"], event["message"]) for event in answer["events"]] == [
        (reason, cause),
        ("FailedComputeMetricsReplicas", error),
    ]
    assert condition(answer, "ScalingActive") == (
        "False",
        reason,
        f"the HPA was unable to compute the replica count: {cause}",
    )
    assert answer["metrics"][0]["error"] == source + cause


def test_no_usage_is_told_before_missing_requests() -> None:
    """Where only unready pods have usage, that is the failure, and not that a pod asks for nothing."""
    member = cluster("member1", [80], pods=[pod("web-0", phase="Pending")])
    member["pods"][0]["spec"]["containers"][0]["resources"] = {}

    answer = answered(scenario([member]))

    assert answer["events"][0]["message"] == (
        "failed to get cpu utilization: did not receive metrics for targeted pods (pods might be unready)"
    )


def test_one_pod_without_requests_fails_the_metric() -> None:
    """Even a failed pod must say what it asks for; an average value asks nobody."""
    member = cluster("member1", [80, 80])
    member["pods"].append(pod("web-9", phase="Failed"))
    member["pods"][2]["spec"]["containers"][0]["resources"] = {}
    text = "failed to get cpu utilization: missing request for cpu in container web of Pod web-9"

    by_share = answered(scenario([member]))
    by_usage = answered(scenario([member], spec={"metrics": [resource(averageValue="80m")]}))

    assert by_share["events"][0]["message"] == text
    assert (by_usage["error"], by_usage["desiredReplicas"]) == (None, 2)


def test_usage_that_lacks_the_resource_is_no_usage() -> None:
    """An answer of the metrics API without the resource leaves the pods without metrics."""
    member = cluster("member1", [80], podMetrics=[{**usage("web-0", "1m"), "containers": []}])

    answer = answered(scenario([member], spec={"metrics": [CPU]}))

    assert answer["events"][0]["message"].endswith(
        "did not receive metrics for targeted pods (pods might be unready)"
    )


def container_cpu(container: str, **target: Any) -> dict[str, Any]:
    """Returns a ContainerResource metric."""
    source = {"name": "cpu", "container": container, "target": target}
    return {"type": "ContainerResource", "containerResource": source}


@pytest.mark.parametrize("target", [{"averageUtilization": 50}, {"averageValue": "50m"}])
def test_container_that_no_pod_has_is_named(target: dict[str, Any]) -> None:
    """A wrong name of a container is not told as pods that might be unready."""
    answer = answered(
        scenario([cluster("member1", [80, 80])], spec={"metrics": [container_cpu("app", **target)]})
    )

    what = "usage" if "averageValue" in target else "utilization"
    text = f"failed to get cpu {what}: no pod has a container app: the containers of the pods are web"
    assert condition(answer, "ScalingActive") == (
        "False",
        "FailedGetContainerResourceMetric",
        f"the HPA was unable to compute the replica count: {text}",
    )


def test_container_of_unready_pods_is_not_called_missing() -> None:
    """Where the pods have the container, but no metrics yet, they might be unready as in Kubernetes."""
    young = cluster("member1", [80], pods=[pod("web-0", phase="Pending")])

    answer = answered(scenario([young], spec={"metrics": [container_cpu("web", averageUtilization=50)]}))

    assert answer["events"][0]["message"] == (
        "failed to get cpu utilization: did not receive metrics for targeted pods (pods might be unready)"
    )


def test_cluster_without_samples_of_the_container_is_named_with_it() -> None:
    """The reason of an implausible answer names the container."""
    other = cluster("member2", [80, 80])
    for item in other["podMetrics"]:
        item["containers"][0]["name"] = "sidecar"
    given = scenario(
        [cluster("member1", [80, 80]), other], spec={"metrics": [container_cpu("web", averageValue="80m")]}
    )

    (reason,) = answered(given)["coverage"]["missing"].values()

    assert reason == "none of its ready pods has a sample of cpu resource of container web"
