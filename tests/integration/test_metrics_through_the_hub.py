"""--metrics-via=hub: usage and metrics come from the hub's metrics APIs, pods from the members."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from controller.flags import HUB
from tests.support.controller import METRICS_PATH, ControllerWorld, world
from tests.support.fakeapi import Object, eventually

pytestmark = pytest.mark.looptime(noop_cycles=0)

USAGE_PATH = f"{METRICS_PATH}/v1beta1/namespaces/shop/pods"
CUSTOM = "/apis/custom.metrics.k8s.io"
EXTERNAL_PATH = "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/depth"
ANNOTATION = "resource.karmada.io/query-from-cluster"
BOTH: dict[str, Any] = {"clusterAffinity": {"clusterNames": ["m1", "m2"]}}


def serve_usage(w: ControllerWorld, millis: int, *clusters: str, annotated: bool = True) -> None:
    """Serve usage on the hub as its adapter does: this much for each pod of the clusters."""

    def answer() -> Object:
        items = []
        for cluster in clusters:
            for pod in w.members[cluster].all(("v1", "pods")):
                metadata: Object = {"name": pod["metadata"]["name"], "namespace": "shop"}
                if annotated:
                    metadata["annotations"] = {ANNOTATION: cluster}
                container = {"name": "app", "usage": {"cpu": f"{millis}m", "memory": "1Mi"}}
                times = {"timestamp": "2026-01-01T00:00:00Z", "window": "15s"}
                items.append({"metadata": metadata, **times, "containers": [container]})
        return {"kind": "PodMetricsList", "metadata": {}, "items": items}

    w.hub.answers[USAGE_PATH] = answer


def serve(w: ControllerWorld, path: str, body: Callable[[], Any]) -> None:
    w.hub.answers[path] = body


def complete(w: ControllerWorld) -> bool:
    return w.condition("MetricsComplete")[0] == "True"


async def test_usage_is_each_clusters_by_its_annotation() -> None:
    """Same-named pods of two clusters are two pods, and the members' metrics APIs get no request."""
    async with world(m1=2, m2=2) as w:
        serve_usage(w, 100, "m1", "m2")
        w.scale(**BOTH)
        async with w.controller(metrics_via=HUB):
            await eventually(lambda: sum(w.replicas.values()) == 8)
            asked = w.hub.queries(USAGE_PATH)

        assert {tuple(query.items()) for query in asked} == {(("labelSelector", "app=web"),)}
        assert [member.queries(USAGE_PATH) for member in w.members.values()] == [[], []]


async def test_unannotated_usage_counts_where_names_are_unique() -> None:
    """Without an annotation, a pod name that only one cluster has identifies the pod."""
    async with world(m1=2) as w:
        serve_usage(w, 100, "m1", annotated=False)
        w.scale()
        async with w.controller(metrics_via=HUB):
            await eventually(lambda: w.status())

        assert w.replicas == {"m1": 4}
        assert complete(w)


async def test_unannotated_usage_of_same_named_pods_is_not_guessed() -> None:
    """For same-named pods without the annotation both clusters lack metrics, and nothing is scaled."""
    async with world(m1=2, m2=2) as w:
        serve_usage(w, 100, "m1", "m2", annotated=False)
        w.scale(**BOTH)
        async with w.controller(metrics_via=HUB) as controller:
            await eventually(lambda: w.condition("MetricsComplete")[0] == "False")
            await w.reconciles(controller)
            _, _, message = w.condition("MetricsComplete")

        assert ANNOTATION in message
        assert "which is in m1, m2" in message
        assert w.replicas == {"m1": 2, "m2": 2}


async def test_a_cluster_that_the_hub_is_silent_about_is_missing() -> None:
    """A cluster without usage in the hub's answer does not count as idle."""
    async with world(m1=4, m2=4) as w:
        serve_usage(w, 1, "m1")
        w.scale(**BOTH)
        async with w.controller(metrics_via=HUB) as controller:
            await eventually(lambda: w.state("m2") == "MetricsMissing")
            await w.reconciles(controller)
            message = w.status()["clusters"][1]["message"]

        assert message.startswith("none of its ready pods has a sample of cpu")
        assert w.replicas == {"m1": 4, "m2": 4}


async def test_the_hubs_failure_is_everybodys_reason() -> None:
    """Without a metrics API on the hub nothing is scaled, and all clusters wait for one deadline only."""
    async with world(m1=2, m2=2) as w:
        w.hub.faults.status[USAGE_PATH] = 503
        w.scale(**BOTH)
        async with w.controller(metrics_via=HUB) as controller:
            await eventually(lambda: w.condition("MetricsComplete")[0] == "False")
            await w.reconciles(controller)
            _, _, message = w.condition("MetricsComplete")

        assert message.count("the server is currently unable to handle the request") == 2
        assert w.replicas == {"m1": 2, "m2": 2}


async def test_external_metrics_come_from_the_hub() -> None:
    """A value for all clusters is queried once a reconcile."""
    metric = {"name": "depth", "selector": {"matchLabels": {"queue": "q"}}}
    target = {"type": "AverageValue", "averageValue": "10"}
    async with world(m1=2, m2=2) as w:
        item = {"metricName": "depth", "metricLabels": {"queue": "q"}, "value": "60"}
        serve(w, EXTERNAL_PATH, lambda: {"items": [item]})
        w.scale(metrics=[{"type": "External", "external": {"metric": metric, "target": target}}], **BOTH)
        async with w.controller(metrics_via=HUB):
            await eventually(lambda: sum(w.replicas.values()) == 6)
            asked = w.hub.queries("/depth")

        assert {tuple(query.items()) for query in asked} == {(("labelSelector", "queue=q"),)}
        assert [member.queries("/depth") for member in w.members.values()] == [[], []]


@pytest.mark.parametrize(("clusters", "scaled"), [(("m1",), True), (("m1", "m2"), False)])
async def test_pods_metrics_count_where_names_are_unique(clusters: tuple[str, ...], scaled: bool) -> None:
    """Custom metrics name no cluster, so values of same-named pods are not used."""
    target = {"type": "AverageValue", "averageValue": "10"}
    spec: dict[str, Any] = {
        "metrics": [{"type": "Pods", "pods": {"metric": {"name": "qps"}, "target": target}}]
    }
    async with world(**dict.fromkeys(clusters, 2)) as w:
        serve(w, CUSTOM, lambda: {"versions": [{"version": "v1beta2"}]})
        items = [
            {
                "describedObject": {"kind": "Pod", "namespace": "shop", "name": f"web-{number}"},
                "metric": {"name": "qps"},
                "timestamp": "2026-01-01T00:00:00Z",
                "value": "20",
            }
            for number in range(2)
        ]
        serve(w, f"{CUSTOM}/v1beta2/namespaces/shop/pods/*/qps", lambda: {"items": items})
        w.scale(**spec)
        async with w.controller(metrics_via=HUB) as controller:
            await w.reconciles(controller, 4)
            message = w.condition("MetricsComplete")[2]

        assert (sum(w.replicas.values()) == 4 * len(clusters)) == scaled
        assert ("custom metrics name no cluster" in message) != scaled


@pytest.mark.parametrize("app", ["web", "shop-web"])
async def test_failed_external_metric_is_missing_in_every_cluster(app: str) -> None:
    """A failure of a metric of no pod counts for all clusters, also for those with another selector."""
    source = {"metric": {"name": "depth"}, "target": {"type": "AverageValue", "averageValue": "1"}}
    async with world(m1=2, m2=2) as w:
        w.members["m2"].deploy(2, app=app)
        w.hub.refused["GET", EXTERNAL_PATH] = 500
        w.scale(metrics=[{"type": "External", "external": source}], **BOTH)
        async with w.controller(metrics_via=HUB):
            await eventually(lambda: w.state("m1") == "MetricsMissing")

        assert w.state("m2") == "MetricsMissing"
