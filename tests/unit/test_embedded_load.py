"""The load model of the embedded plane, and the metrics APIs that report it."""

import json
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request

from testbed.embedded.api.types import ANONYMOUS, Refusal
from testbed.embedded.cluster.load import IDLE_MILLIS, Load
from testbed.embedded.cluster.metrics import MetricsApis
from tests.support.embedded_member import ToyMember

LIMIT = {"resources": {"limits": {"cpu": "400m"}}}


def cpu_of(member: ToyMember) -> list[int]:
    return [usage.cpu for pod in member.pods() for usage in member.load.usage(pod).values()]


def test_ready_pods_of_all_members_share_the_demand() -> None:
    """The same part for each, wherever it runs; what is not ready yet idles."""
    load = Load()
    one, two = ToyMember(load), ToyMember(load)
    one.run("web", 2)
    two.run("web", 1)
    one.settle()
    two.settle()
    load.demand("shop", "web", 900)

    assert cpu_of(one) == [300, 300]
    assert cpu_of(two) == [300]
    two.resize("web", 3)
    two.workloads.step()
    assert sorted(cpu_of(two)) == [IDLE_MILLIS, IDLE_MILLIS, 300]
    two.settle()
    assert cpu_of(two) == [180, 180, 180]


def test_pod_uses_no_more_than_its_limit() -> None:
    """What the world demands beyond the limits of all pods is not served."""
    member = ToyMember()
    member.run("web", 2, LIMIT)
    member.settle()
    member.load.demand("shop", "web", 5000)

    assert cpu_of(member) == [400, 400]


def test_pods_that_go_leave_their_share_to_others() -> None:
    """The demand stays and is shared by those that are left."""
    member = ToyMember()
    member.run("web", 4)
    member.settle()
    member.load.demand("shop", "web", 400)
    member.resize("web", 2)
    member.settle()

    assert cpu_of(member) == [200, 200]


def test_store_that_joins_late_brings_its_pods() -> None:
    """Pods that were there before are counted."""
    member = ToyMember()
    member.run("web", 2)
    member.settle()
    late = Load()
    late.join(member.store)
    late.demand("shop", "web", 300)

    assert [usage.cpu for pod in member.pods() for usage in late.usage(pod).values()] == [150, 150]


class Answers:
    """The metrics APIs of a member with two ready pods of 250m each."""

    def __init__(self) -> None:
        self.member = ToyMember()
        self.member.run("web", 2, LIMIT)
        self.member.run("api", 1)
        self.member.settle()
        self.member.load.demand("shop", "web", 500)
        self.rubbish: Any = None
        self.apis = MetricsApis(
            self.member.store, self.member.load, lambda: self.member.now, rubbish=lambda: self.rubbish
        )

    async def get(self, path: str) -> Any:
        handler = self.apis.handler(path.partition("?")[0])
        assert handler is not None
        answer = await handler(make_mocked_request("GET", path), ANONYMOUS)
        return json.loads(answer.body)  # type: ignore[attr-defined]  # a web.Response


async def test_pod_metrics_are_those_of_running_pods() -> None:
    """Usage by container, with labels, time and window; a Pending pod has none."""
    answers = Answers()
    answers.member.run("huge", 1, {"resources": {"requests": {"cpu": "100"}}})
    answers.member.settle()

    found = await answers.get("/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods?labelSelector=app%3Dweb")
    everything = await answers.get("/apis/metrics.k8s.io/v1beta1/pods")

    assert len(everything["items"]) == 3
    assert {key: found[key] for key in ("kind", "apiVersion")} == {
        "kind": "PodMetricsList",
        "apiVersion": "metrics.k8s.io/v1beta1",
    }
    (item, _) = found["items"]
    assert item["metadata"]["labels"]["app"] == "web"
    assert item["timestamp"] == "2026-03-11T13:00:04Z"
    assert item["window"] == "1s"
    assert item["containers"][0]["name"] == "web"
    assert item["containers"][0]["usage"]["cpu"] == "250m"


async def test_node_metrics_are_sums_of_the_pods() -> None:
    """Two pods at work and one that idles."""
    (node,) = (await Answers().get("/apis/metrics.k8s.io/v1beta1/nodes"))["items"]

    assert node["metadata"]["name"] == "node1"
    assert node["usage"]["cpu"] == f"{2 * 250 + IDLE_MILLIS}m"


async def test_single_metrics_are_found_by_name_or_not_at_all() -> None:
    """GET of one pod or node; 404 for a pod that does not run."""
    answers = Answers()
    name = answers.member.ready()[0]

    one = await answers.get(f"/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods/{name}")

    assert (one["kind"], one["metadata"]["name"]) == ("PodMetrics", name)
    with pytest.raises(Refusal, match='"nobody" not found'):
        await answers.get("/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods/nobody")


async def test_requests_per_second_are_a_metric_of_each_pod() -> None:
    """10 ms of CPU a request: 250m are 25 requests a second."""
    found = await Answers().get(
        "/apis/custom.metrics.k8s.io/v1beta2/namespaces/shop/pods/*/http_requests_per_second"
        "?labelSelector=app%3Dweb"
    )

    assert [item["value"] for item in found["items"]] == ["25000m", "25000m"]
    assert {item["describedObject"]["kind"] for item in found["items"]} == {"Pod"}


async def test_external_metrics_are_selected_by_their_labels() -> None:
    """Values that were put there, by metric and label."""
    answers = Answers()
    answers.apis.external["queue_length"] = [({"queue": "a"}, 5000), ({"queue": "b"}, 7000)]
    path = "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/queue_length"

    (item,) = (await answers.get(f"{path}?labelSelector=queue%3Db"))["items"]

    assert (item["value"], item["metricLabels"]) == ("7000m", {"queue": "b"})


@pytest.mark.parametrize(("rubbish", "value"), [("nan", "NaN"), ("negative", "-250m")])
async def test_rubbish_is_reported_on_demand(rubbish: str, value: str) -> None:
    """A member that lies does so in every quantity."""
    answers = Answers()
    answers.rubbish = rubbish

    found = await answers.get("/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods?labelSelector=app%3Dweb")

    assert found["items"][0]["containers"][0]["usage"]["cpu"] == value


async def test_discovery_lists_what_is_served() -> None:
    """Group, version and resources of each group; other paths are somebody else's."""
    answers = Answers()

    group = await answers.get("/apis/metrics.k8s.io")
    resources = await answers.get("/apis/metrics.k8s.io/v1beta1")

    assert group["preferredVersion"]["groupVersion"] == "metrics.k8s.io/v1beta1"
    assert {each["name"]: each["namespaced"] for each in resources["resources"]} == {
        "nodes": False,
        "pods": True,
    }
    assert answers.apis.handler("/apis/apps/v1") is None
    assert answers.apis.handler("/api/v1/pods") is None


async def test_selector_that_cannot_be_read_is_a_bad_request() -> None:
    """400, as from metrics-server."""
    with pytest.raises(Refusal) as refused:
        await Answers().get("/apis/metrics.k8s.io/v1beta1/pods?labelSelector=a%20b%20c")

    assert refused.value.code == 400
