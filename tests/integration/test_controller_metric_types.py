"""The controller scales by Pods, Object and External metrics, read from all members."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fedhpa.api.identity import IDENTITY_PATH
from tests.support.controller import (
    METRICS_PATH,
    NAMESPACE,
    ControllerWorld,
    Plane,
    eventually_more,
    reconciliations,
    world,
)
from tests.support.fakeapi import PODS, Object, eventually
from tests.support.members import DEADLINE

pytestmark = pytest.mark.looptime(noop_cycles=0)

CUSTOM = "/apis/custom.metrics.k8s.io"
EXTERNAL = "/apis/external.metrics.k8s.io/v1beta1"
INGRESS = {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "front"}
SERVICE = {"apiVersion": "v1", "kind": "Service", "name": "web"}
QUEUE = {"matchLabels": {"queue": "orders"}}
LONG_AGO = "2020-01-01T00:00:00Z"


# -- the members' metrics ------------------------------------------------------------------------------
def serve_custom(member: Plane, *versions: str) -> None:
    """Add the group to discovery, as the aggregator does."""
    served = [{"groupVersion": f"custom.metrics.k8s.io/{v}", "version": v} for v in versions]
    group = {"kind": "APIGroup", "versions": served, "preferredVersion": served[-1]}
    member.answers[CUSTOM] = lambda: group
    for version, resources in (
        ("/api/v1", [{"name": "services", "kind": "Service", "namespaced": True}]),
        ("/apis/networking.k8s.io/v1", [{"name": "ingresses", "kind": "Ingress", "namespaced": True}]),
    ):
        member.answers[version] = lambda found=resources: {"resources": found}  # type: ignore[misc]  # bound


def pods_path(metric: str = "qps", version: str = "v1beta2") -> str:
    return f"{CUSTOM}/{version}/namespaces/{NAMESPACE}/pods/*/{metric}"


def serve_pods(member: Plane, total: int | Callable[[], int], version: str = "v1beta2") -> None:
    """Serve requests per second, in milli-units, spread evenly over all pods of all members."""
    serve_custom(member, version)

    def answer() -> Object:
        each = total if isinstance(total, int) else total()
        items = [
            value("qps", each, version, kind="Pod", name=p["metadata"]["name"]) for p in member.all(PODS)
        ]
        return {"kind": "MetricValueList", "items": items}

    member.answers[pods_path(version=version)] = answer


def value(metric: str, milli: Any, version: str = "v1beta2", **described: str) -> Object:
    """An item of a MetricValueList, as each version spells it."""
    shared = {
        "describedObject": {"namespace": NAMESPACE, **described},
        "timestamp": LONG_AGO,
        "value": f"{milli}m" if isinstance(milli, int) else milli,
    }
    if version == "v1beta1":
        return {**shared, "metricName": metric, "selector": None, "window": 60}
    return {**shared, "metric": {"name": metric, "selector": None}, "windowSeconds": 60}


def serve_object(member: Plane, where: str, *values: Any) -> None:
    serve_custom(member, "v1beta1", "v1beta2")
    items = [value("hits", milli) for milli in values]
    member.answers[f"{CUSTOM}/v1beta2/namespaces/{NAMESPACE}/{where}/hits"] = lambda: {"items": items}


def serve_external(member: Plane, *values: Any, metric: str = "depth") -> None:
    """Serve series without labels, as adapters do that aggregate."""
    items = [
        {"metricName": metric, "metricLabels": None, "timestamp": LONG_AGO, "value": milli}
        for milli in values
    ]
    member.answers[f"{EXTERNAL}/namespaces/{NAMESPACE}/{metric}"] = lambda: {"items": items}


# -- metrics of autoscalers ----------------------------------------------------------------------------
def by_pods(average: str = "10", selector: Object | None = None) -> Object:
    metric = {"name": "qps", **({"selector": selector} if selector else {})}
    return {
        "type": "Pods",
        "pods": {"metric": metric, "target": {"type": "AverageValue", "averageValue": average}},
    }


def by_object(described: Object, aggregation: str | None = None, **target: str) -> Object:
    (field,) = target
    source = {
        "metric": {"name": "hits"},
        "describedObject": described,
        "target": {"type": field[0].upper() + field[1:], **target},
    }
    return {"type": "Object", "object": source | ({"aggregation": aggregation} if aggregation else {})}


def by_external(
    aggregation: str | None = None, selector: Object | None = None, metric: str = "depth", **target: str
) -> Object:
    (field,) = target
    named = {"name": metric, **({"selector": selector} if selector else {})}
    source = {"metric": named, "target": {"type": field[0].upper() + field[1:], **target}}
    return {"type": "External", "external": source | ({"aggregation": aggregation} if aggregation else {})}


CPU = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
}


def current(w: ControllerWorld) -> list[Object]:
    return w.status().get("currentMetrics") or []


# -- each type -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
async def test_pods_metric_is_averaged_over_the_pods_of_all_members(version: str) -> None:
    """Same-named pods of two members are two pods, in every version of the API."""
    async with world(m1=2, m2=2) as w:
        for member, milli in zip(w.members.values(), (30_000, 10_000), strict=True):
            # All pods share the load equally.
            serve_pods(member, lambda m=milli: m * 4 // sum(w.replicas.values()), version)  # type: ignore[misc]
        w.scale(metrics=[by_pods()])
        async with w.controller() as controller:
            await eventually(lambda: w.status().get("currentReplicas") == 8)
            await w.reconciles(controller)

        assert w.replicas == {"m1": 4, "m2": 4}
        assert current(w)[0]["pods"]["current"] == {"averageValue": "10"}
        assert w.condition("MetricsComplete")[0] == "True"


@pytest.mark.parametrize(
    ("described", "where"),
    [
        (INGRESS, "ingresses.networking.k8s.io/front"),
        (SERVICE, "services/web"),
        ({"apiVersion": "v1", "kind": "Namespace", "name": "other"}, "metrics"),
    ],
)
async def test_object_is_asked_for_where_kubernetes_asks(described: Object, where: str) -> None:
    """The path has the kind's group, and a Namespace is always the autoscaler's own."""
    async with world(m1=1) as w:
        serve_object(w.members["m1"], where, 30_000)
        w.scale(metrics=[by_object(described, averageValue="10")])
        async with w.controller():
            await eventually(lambda: w.replicas == {"m1": 3})


async def test_series_without_the_selectors_labels_count() -> None:
    """Two metrics of one name with different selectors are two queries."""
    async with world(m1=1) as w:
        member = w.members["m1"]
        serve_external(member, "30")
        w.scale(metrics=[by_external(averageValue="10"), by_external(selector=QUEUE, averageValue="10")])
        async with w.controller():
            await eventually(lambda: w.replicas == {"m1": 3})

        asked = {query.get("labelSelector") for query in member.queries("/depth")}
        assert asked == {None, "queue=orders"}


async def test_selectors_are_passed_on() -> None:
    """The workload's selector and the metric's selector are sent as separate parameters."""
    async with world(m1=2) as w:
        member = w.members["m1"]
        serve_pods(member, 10_000)
        verbs = {"matchExpressions": [{"key": "verb", "operator": "In", "values": ["PUT", "GET"]}]}
        w.scale(metrics=[by_pods(selector=verbs)])
        async with w.controller() as controller:
            await w.reconciles(controller)

        expected = {"labelSelector": "app=web", "metricLabelSelector": "verb in (GET,PUT)"}
        assert member.queries("/pods/*/qps")[0] == expected
        assert w.condition("ScalingActive")[0] == "True"


# -- several -------------------------------------------------------------------------------------------
async def test_one_metric_may_fail_alone() -> None:
    """An External metric that a member lacks does not affect another that it has."""
    async with world(m1=1) as w:
        serve_external(w.members["m1"], "30")
        w.scale(metrics=[by_external(metric="unknown", averageValue="1"), by_external(averageValue="10")])
        async with w.controller():
            await eventually(lambda: w.replicas == {"m1": 3})
            await eventually(lambda: w.status().get("currentReplicas") == 3)

        assert current(w)[0] == {"type": ""}
        assert current(w)[1]["external"]["current"] == {"averageValue": "10"}


# -- members without usable data -----------------------------------------------------------------------
async def test_member_without_the_api_is_missing_not_empty() -> None:
    """A member without the metric stops scale-down, and the condition gives the reason."""
    async with world(m1=2, m2=2) as w:
        serve_pods(w.members["m1"], 1_000)
        w.scale(metrics=[by_pods()])
        async with w.controller() as controller:
            await eventually(lambda: w.condition("MetricsComplete")[0] == "False")
            await w.reconciles(controller, 4)

            assert w.condition("MetricsComplete")[2].startswith(
                "m2: no custom metrics API (custom.metrics.k8s.io) registered, since "
            )
            assert w.state("m2") == "MetricsMissing"
            assert w.replicas == {"m1": 2, "m2": 2}
            serve_pods(w.members["m2"], 1_000)
            await eventually(lambda: w.condition("MetricsComplete")[0] == "True")
            await eventually(lambda: sum(w.replicas.values()) < 4)


async def test_member_without_pods_needs_no_pods_metric() -> None:
    """A cluster without pods of the workload needs no metric and is not missing."""
    async with world(m1=2, m2=0) as w:
        serve_pods(w.members["m1"], 10_000)
        w.scale(metrics=[by_pods()])
        async with w.controller() as controller:
            await w.reconciles(controller)

        assert w.condition("MetricsComplete")[0] == "True"


async def test_member_that_has_no_series_is_not_missed() -> None:
    """An empty list is an answer, so the value of another member counts."""
    async with world(m1=1, m2=1) as w:
        serve_external(w.members["m1"], "30")
        serve_external(w.members["m2"])
        w.scale(metrics=[by_external(averageValue="10")])
        async with w.controller():
            await eventually(lambda: w.status().get("desiredReplicas") == 3)

        assert sum(w.replicas.values()) == 3
        assert w.condition("MetricsComplete")[0] == "True"


NONSENSE: list[Any] = ["NaN", "-5", "", None, [], "1x"]


@pytest.mark.parametrize("nonsense", NONSENSE)
async def test_nonsense_is_not_a_number(nonsense: Any) -> None:
    """An impossible value invalidates its member's answer, so nothing is scaled down on it."""
    async with world(m1=2, m2=2) as w:
        for member in w.members.values():
            serve_external(member, "1")
        serve_external(w.members["m2"], nonsense, "0")
        w.scale(metrics=[by_external(averageValue="10")])
        async with w.controller() as controller:
            await eventually(lambda: w.condition("MetricsComplete")[0] == "False")
            await w.reconciles(controller)

        assert w.condition("MetricsComplete")[2].startswith("m2: ")
        assert w.replicas == {"m1": 2, "m2": 2}


@pytest.mark.parametrize("body", [{}, {"kind": "Status", "code": 404}, {"items": [{"metricName": "depth"}]}])
async def test_answer_without_values_is_not_an_empty_one(body: Object) -> None:
    """An answer that is no list of values is an error."""
    async with world(m1=2) as w:
        w.members["m1"].answers[f"{EXTERNAL}/namespaces/{NAMESPACE}/depth"] = lambda: body
        w.scale(metrics=[by_external(averageValue="10")])
        async with w.controller():
            await eventually(lambda: w.condition("ScalingActive")[1] == "FailedGetExternalMetric")

        assert w.condition("ScalingActive")[0] == "False"
        assert w.replicas == {"m1": 2}


async def test_text_of_a_member_does_not_fill_the_status() -> None:
    """An invalid time of a member is quoted only in part."""
    async with world(m1=2) as w:
        member = w.members["m1"]
        serve_pods(member, 0)
        item = {**value("qps", 1, kind="Pod", name="web-0"), "timestamp": "x" * 100_000}
        member.answers[pods_path()] = lambda: {"items": [item]}
        w.scale(metrics=[by_pods()])
        async with w.controller():
            await eventually(lambda: w.condition("ScalingActive")[1] == "FailedGetPodsMetric")

        assert "items[0].timestamp" in w.condition("ScalingActive")[2]
        assert all(len(entry["message"]) < 1_000 for entry in w.status()["conditions"])


async def test_values_of_others_pods_are_ignored() -> None:
    """Values of other pods or namespaces are ignored."""
    async with world(m1=2) as w:
        member = w.members["m1"]
        serve_pods(member, 0)
        own = [value("qps", 10_000, kind="Pod", name=f"web-{number}") for number in range(2)]
        others = [value("qps", 900_000, kind="Pod", name="stranger")]
        elsewhere = [{**value("qps", 900_000), "describedObject": {"namespace": "else", "name": "web-0"}}]
        member.answers[pods_path()] = lambda: {"items": own + others + elsewhere}
        w.scale(metrics=[by_pods()])
        async with w.controller() as controller:
            await eventually(lambda: current(w))
            await w.reconciles(controller)

        assert w.replicas == {"m1": 2}
        assert current(w)[0]["pods"]["current"] == {"averageValue": "10"}


ERRORS = [
    (by_pods(), "FailedGetPodsMetric", "pod web-0 has two values of qps"),
    # As with Kubernetes.
    (
        by_object(SERVICE, averageValue="10"),
        "FailedGetObjectMetric",
        "returned 2 results when we asked for exactly one",
    ),
    (
        by_object({**SERVICE, "kind": "Wonder"}, averageValue="10"),
        "FailedGetObjectMetric",
        "unable to map kind Wonder",
    ),
]


@pytest.mark.parametrize(("metric", "reason", "text"), ERRORS, ids=["pod", "object", "kind"])
async def test_a_metric_that_is_no_one_value_is_an_error(metric: Object, reason: str, text: str) -> None:
    """Two values of one pod or object, and a kind that the member does not serve."""
    async with world(m1=2) as w:
        member = w.members["m1"]
        serve_pods(member, 0)
        serve_object(member, "services/web", 1_000, 2_000)
        items = [value("qps", milli, kind="Pod", name="web-0") for milli in (1_000, 90_000)]
        member.answers[pods_path()] = lambda: {"items": items}
        w.scale(metrics=[metric])
        async with w.controller():
            await eventually(lambda: w.condition("ScalingActive")[1] == reason)

        assert text in w.condition("ScalingActive")[2]
        assert w.replicas == {"m1": 2}


async def test_bad_metric_selector_is_the_metrics_fault() -> None:
    """An invalid selector sends no request, and no member is missing for it."""
    async with world(m1=2) as w:
        member = w.members["m1"]
        serve_external(member, "30")
        bad = {"matchExpressions": [{"key": "a", "operator": "Cheddar"}]}
        w.scale(metrics=[by_external(selector=bad, averageValue="10")])
        async with w.controller():
            await eventually(lambda: w.condition("ScalingActive")[1] == "FailedGetExternalMetric")

        assert '"Cheddar" is not a valid label selector operator' in w.condition("ScalingActive")[2]
        assert w.condition("MetricsComplete")[0] == "True"
        assert member.request_count("GET", "/depth") == 0


async def test_names_stay_inside_their_path_segment() -> None:
    """Names that look like paths are escaped."""
    async with world(m1=2) as w:
        member = w.members["m1"]
        serve_custom(member, "v1beta2")
        upwards = by_object({**SERVICE, "name": "../../../kube-system/services/web"}, averageValue="10")
        w.scale(metrics=[by_external(metric="..", averageValue="10"), upwards])
        async with w.controller():
            await eventually(lambda: w.condition("ScalingActive")[0] == "False")
            await eventually(lambda: w.events("FailedGetObjectMetric"))

        assert not any(
            "kube-system" in seen.path and f"/namespaces/{NAMESPACE}/" not in seen.path
            for seen in member.seen
            if seen.path != IDENTITY_PATH
        )
        assert "'..' is no name of a Kubernetes object" in w.condition("ScalingActive")[2]


async def test_hung_adapter_costs_its_deadline_once() -> None:
    """CPU is evaluated in each period while a metrics adapter hangs behind a healthy API server."""
    async with world(m1=2, m2=2) as w:
        for member in w.members.values():
            serve_external(member, "1")
        w.members["m2"].faults.hang.add("/apis/external.metrics.k8s.io")
        w.load(400)
        w.scale(metrics=[CPU, by_external(averageValue="10")])
        async with w.controller() as controller:
            await eventually(lambda: w.condition("MetricsComplete")[0] == "False")
            await eventually(lambda: w.replicas == {"m1": 4, "m2": 4})
            before = w.clock.monotonic()
            await w.reconciles(controller, 5)

        assert w.clock.monotonic() - before < 5 * DEADLINE
        assert w.members["m2"].request_count("GET", "/depth") == 1
        message = w.condition("MetricsComplete")[2]
        assert message.startswith(f"m2: no answer within {DEADLINE:g} s, since ")


async def test_apis_that_hang_cost_one_deadline_together() -> None:
    """Usage and other metrics are queried concurrently."""
    async with world(m1=2) as w:
        w.members["m1"].faults.hang |= {METRICS_PATH, "/apis/external.metrics.k8s.io"}
        w.scale(metrics=[CPU, by_external(averageValue="10")])
        async with w.controller() as controller:
            await eventually(lambda: w.members["m1"].request_count("GET", "/deployments"))
            began = w.clock.monotonic()
            await w.reconciles(controller, 1)

        assert w.clock.monotonic() - began < 1.5 * DEADLINE


# -- requests ------------------------------------------------------------------------------------------
async def test_autoscalers_share_one_request() -> None:
    """Two objects with equal queries share one request a period, and discovery is read once."""
    async with world(m1=1) as w:
        member = w.members["m1"]
        member.deploy(1, name="twin", app="twin")
        serve_external(member, "10")
        serve_object(member, "services/web", 10_000)
        metrics = [by_external(averageValue="10"), by_object(SERVICE, averageValue="10")]
        w.scale(metrics=metrics, syncPeriodSeconds=15)
        w.scale("twin", target="twin", metrics=metrics, syncPeriodSeconds=15)
        async with w.controller() as controller:
            await w.reconciles(controller, 2)
            await eventually(lambda: current(w))

            assert (member.request_count("GET", "/depth"), member.request_count("GET", "/hits")) == (1, 1)
            for _ in range(2):
                await eventually_more(lambda: reconciliations(controller), 2, within=40.0)

        assert member.request_count("GET", "/depth") in (3, 4)  # the two are not reconciled at the same time
        assert member.request_count("GET", CUSTOM) == 1


async def test_only_what_the_spec_names_is_asked_for() -> None:
    """Only the metrics APIs that the object needs are queried."""
    async with world(m1=1, m2=1) as w:
        serve_external(w.members["m1"], "10")
        serve_external(w.members["m2"], "10")
        w.scale(metrics=[by_external(averageValue="10")])
        async with w.controller() as controller:
            await w.reconciles(controller)

            paths = {seen.path for seen in w.members["m1"].seen}
            assert not any("/metrics.k8s.io" in path or "/custom.metrics" in path for path in paths)
            w.scale(metrics=[CPU])
            await w.reconciles(controller, 1)
            w.members["m1"].seen.clear()
            await w.reconciles(controller)

        paths = {seen.path for seen in w.members["m1"].seen}
        assert not any("external.metrics" in path for path in paths)
