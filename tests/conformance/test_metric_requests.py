"""Custom and external metrics are asked for with the requests that Kubernetes 1.36's own clients send."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from controller.federatedhpa.cluster_reader import MemberCaches, MetricNeeds
from controller.federatedhpa.hub_metrics import HubMetrics, read_hub
from controller.federatedhpa.metric_reader import MetricSource, metric_queries, read_metrics
from fedhpa.api.selectors import parse_selector
from fedhpa.cache import Fetched
from fedhpa.decision import ClusterSnapshot, WorkloadReading
from fedhpa.kube import SYSTEM
from fedhpa.kube.client import ApiClient
from fedhpa.kube.config import ApiConfig
from fedhpa.kube.resources import Resource, ResourceMapper
from fedhpa.kube.transport import target
from fedhpa.members import Again
from fedhpa.members.lists import SharedLists, Upstream
from fedhpa.metric_types.container_resource import CONTAINER_RESOURCE
from fedhpa.metric_types.external import EXTERNAL
from fedhpa.metric_types.metric import ScalingMetric
from fedhpa.metric_types.object import OBJECT
from fedhpa.metric_types.pods import PODS
from fedhpa.metric_types.resource import RESOURCE
from fedhpa.scaling.records import PodRecord
from fedhpa.scaling.requests import PodRequests
from tests.conformance.tables import table
from tests.support.fake_responses import with_list_head

T = TypeVar("T")

METRICS = ("/apis/custom.metrics.k8s.io/", "/apis/external.metrics.k8s.io/")
POD_SELECTOR = "app=web,tier in (a,b),!x,z!=1"
SELECTOR = {
    "matchLabels": {"verb": "GET"},
    "matchExpressions": [
        {"key": "code", "operator": "In", "values": ["500", "200"]},
        {"key": "n", "operator": "NotIn", "values": ["q"]},
        {"key": "e", "operator": "Exists"},
        {"key": "d", "operator": "DoesNotExist"},
    ],
}
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
SERVICE = {"apiVersion": "v1", "kind": "Service", "name": "svc"}
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "name": "whatever"}
NODE = {"apiVersion": "v1", "kind": "Node", "name": "node-1"}
PLURALS = {"Deployment": "deployments", "Service": "services", "Node": "nodes"}

# By the recorded cases' names. Two of the table are of the client alone: the autoscaler never sends them.
ASKED: Mapping[str, ScalingMetric] = {
    "pods metric, no metric selector (nil LabelSelector)": ScalingMetric(PODS, name="qps"),
    "pods metric, empty metric selector": ScalingMetric(PODS, name="qps", selector={}),
    "pods metric with metric selector": ScalingMetric(PODS, name="qps", selector=SELECTOR),
    "object: apps/v1 Deployment": ScalingMetric(OBJECT, name="hits", described_object=DEPLOYMENT),
    "object: apps/v1 Deployment with metric selector": ScalingMetric(
        OBJECT, name="hits", described_object=DEPLOYMENT, selector=SELECTOR
    ),
    "object: v1 Service": ScalingMetric(OBJECT, name="hits", described_object=SERVICE),
    "object: v1 Namespace (name ignored, hpa namespace used)": ScalingMetric(
        OBJECT, name="hits", described_object=NAMESPACE
    ),
    "object: v1 Namespace with metric selector": ScalingMetric(
        OBJECT, name="hits", described_object=NAMESPACE, selector=SELECTOR
    ),
    "object: v1 Node (root scoped kind, still fetched namespaced)": ScalingMetric(
        OBJECT, name="hits", described_object=NODE
    ),
    "external: nil selector": ScalingMetric(EXTERNAL, name="queue_depth"),
    "external: empty selector": ScalingMetric(EXTERNAL, name="queue_depth", selector={}),
    "external: selector": ScalingMetric(EXTERNAL, name="queue_depth", selector=SELECTOR),
}
CLIENT_ALONE = {
    "root scoped: node (client API only; HPA does not use it)",
    "root scoped: all nodes (client API only)",
}
ROWS = [row for row in table("k8s_requests")["requests"] if row["uri"].startswith(METRICS)]


class Recorder(SharedLists):
    """Answers every request with an empty list, and discovery with one version."""

    def __init__(self, version: str) -> None:
        super().__init__(clock=SYSTEM.monotonic)
        self.sent: list[str] = []
        self._version = version

    async def get(
        self,
        member: Upstream,
        path: str,
        params: Mapping[str, str] | None,
        decode: Callable[[bytes], T],
        *,
        max_age: float,
        deadline: float | None = None,
        again: Again | None = None,
    ) -> Fetched[T]:
        if path.count("/") == 2:
            served = {"versions": [{"version": self._version}]}
            return Fetched(decode(json.dumps(with_list_head(path, served)).encode()), 0.0)
        self.sent.append(str(target("http://member", path, params)).removeprefix("http://member"))
        return Fetched(decode(json.dumps(with_list_head(path, {"items": []})).encode()), 0.0)


class Kinds(ResourceMapper):
    """Knows the table's kinds without asking."""

    async def resolve(self, api_version: str, kind: str, *, deadline: float | None = None) -> Resource:
        return Resource(api_version, kind, PLURALS[kind], namespaced=kind != "Node", scale=False)


def requests_of(spec: ScalingMetric, version: str) -> list[str]:
    async def ask(member: Any) -> list[str]:
        lists = Recorder(version)
        mapper = Kinds(ApiClient(ApiConfig(server="http://member")), clock=SYSTEM.monotonic)
        selector = parse_selector(POD_SELECTOR)
        source = MetricSource(lists, member, mapper, "ns1", selector, {"web-0"}, 0.0)
        await read_metrics(source, metric_queries([spec]))
        return lists.sent

    return asyncio.run(ask(SimpleNamespace(name="member1")))


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, id=f"{row['case']}/{row['custom_metrics_version']}/{row['client_content_type']}")
        for row in ROWS
        if row["case"] not in CLIENT_ALONE
    ],
)
def test_request_is_the_one_that_kubernetes_sends(row: dict[str, Any]) -> None:
    """Path, encoding, names and order of the parameters are the same."""
    assert requests_of(ASKED[row["case"]], row["custom_metrics_version"]) == [row["uri"]]


def hub_requests_of(spec: ScalingMetric, version: str) -> list[str]:
    async def ask() -> list[str]:
        lists = Recorder(version)
        client = ApiClient(ApiConfig(server="http://hub"))
        hub = HubMetrics(client, Kinds(client, clock=SYSTEM.monotonic), 3.0, clock=SYSTEM.monotonic)
        pod = PodRecord("m1", "ns1", "web-0", {"app": "web"}, PodRequests())
        workload = WorkloadReading(selector=parse_selector(POD_SELECTOR))
        readings = {"m1": ClusterSnapshot(name="m1", pods=(pod,), workload=workload)}
        await read_hub(
            MemberCaches(lists, clock=SYSTEM.monotonic), hub, "ns1", readings, MetricNeeds.of([spec], 0.0)
        )
        return lists.sent

    return asyncio.run(ask())


HUB_ASKED: Mapping[str, ScalingMetric] = {
    **ASKED,
    "resource: pods of selector": ScalingMetric(RESOURCE, name="cpu"),
    "resource: one container": ScalingMetric(CONTAINER_RESOURCE, name="cpu", container="app"),
}


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, id=f"{row['case']}/{row['custom_metrics_version']}/{row['client_content_type']}")
        for row in table("k8s_requests")["requests"]
        if row["uri"].startswith((*METRICS, "/apis/metrics.k8s.io/"))
        and row["case"] not in CLIENT_ALONE | {"nodemetrics list"}
    ],
)
def test_request_through_the_hub_is_the_one_that_kubernetes_sends(row: dict[str, Any]) -> None:
    """With --metrics-via=hub the hub sees what Kubernetes' own controller would send, for usage too."""
    assert hub_requests_of(HUB_ASKED[row["case"]], row["custom_metrics_version"]) == [row["uri"]]


def test_every_recorded_request_for_a_metric_is_compared() -> None:
    """A case that is added to the table is not passed over."""
    assert {row["case"] for row in ROWS} == set(ASKED) | CLIENT_ALONE
