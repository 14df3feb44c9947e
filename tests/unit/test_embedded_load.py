"""The load model of the embedded plane and its metrics APIs."""

import json
from typing import Any

from aiohttp.test_utils import make_mocked_request

from testbed.embedded.api.types import ANONYMOUS
from testbed.embedded.cluster.load import IDLE_MILLIS, Load
from testbed.embedded.cluster.metrics import MetricsApis
from tests.support.embedded_member import SimulatedMember

LIMIT = {"resources": {"limits": {"cpu": "400m"}}}


def cpu_of(member: SimulatedMember) -> list[int]:
    return [usage.cpu for pod in member.pods() for usage in member.load.usage(pod).values()]


def test_ready_pods_of_all_members_share_the_demand() -> None:
    """Every ready pod gets the same share, in any member; a pod that is not ready idles."""
    load = Load()
    one, two = SimulatedMember(load), SimulatedMember(load)
    one.run("web", 2)
    two.run("web", 1)
    one.settle()
    two.settle()
    load.demand("shop", "web", 900)

    assert cpu_of(one) == [300, 300]
    assert cpu_of(two) == [300]
    two.resize("web", 3)
    two.controllers.step()
    assert sorted(cpu_of(two)) == [IDLE_MILLIS, IDLE_MILLIS, 300]
    two.settle()
    assert cpu_of(two) == [180, 180, 180]


def test_pod_uses_no_more_than_its_limit() -> None:
    """Demand above the limits of all pods is not served."""
    member = SimulatedMember()
    member.run("web", 2, LIMIT)
    member.settle()
    member.load.demand("shop", "web", 5000)

    assert cpu_of(member) == [400, 400]


def test_a_member_can_have_a_load_of_its_own() -> None:
    """The additional load of one member is shared by the pods of this member only."""
    together = Load()
    one, two = SimulatedMember(Load(shared=together)), SimulatedMember(together)
    together.join(one.store)
    one.run("web", 2)
    two.run("web", 1)
    one.settle()
    two.settle()
    together.demand("shop", "web", 900)
    one.load.demand("shop", "web", 100)

    assert cpu_of(one) == [350, 350]
    assert cpu_of(two) == [300]


class Answers:
    """The metrics APIs of a member with two ready pods of 250m each."""

    def __init__(self) -> None:
        self.member = SimulatedMember()
        self.member.run("web", 2, LIMIT)
        self.member.run("api", 1)
        self.member.settle()
        self.member.load.demand("shop", "web", 500)
        self.apis = MetricsApis(self.member.store, self.member.load, lambda: self.member.now)

    async def get(self, path: str) -> Any:
        handler = self.apis.handler(path.partition("?")[0])
        assert handler is not None
        answer = await handler(make_mocked_request("GET", path), ANONYMOUS)
        return json.loads(answer.body)  # type: ignore[attr-defined]  # a web.Response


async def test_pod_metrics_are_those_of_running_pods() -> None:
    """Items have usage by container, labels, time and window; a Pending pod has no item."""
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
    """The node runs two busy pods and one idle pod."""
    (node,) = (await Answers().get("/apis/metrics.k8s.io/v1beta1/nodes"))["items"]

    assert node["metadata"]["name"] == "node1"
    assert node["usage"]["cpu"] == f"{2 * 250 + IDLE_MILLIS}m"


async def test_requests_per_second_are_a_metric_of_each_pod() -> None:
    """A request costs 10 ms of CPU, so 250m are 25 requests per second."""
    found = await Answers().get(
        "/apis/custom.metrics.k8s.io/v1beta2/namespaces/shop/pods/*/http_requests_per_second"
        "?labelSelector=app%3Dweb"
    )

    assert [item["value"] for item in found["items"]] == ["25000m", "25000m"]
    assert {item["describedObject"]["kind"] for item in found["items"]} == {"Pod"}


async def test_external_metrics_are_selected_by_their_labels() -> None:
    """The values in `external` are selected by metric and label."""
    answers = Answers()
    answers.apis.external["queue"] = [({"queue": "a"}, 5000), ({"queue": "b"}, 7000)]
    path = "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/queue"

    (item,) = (await answers.get(f"{path}?labelSelector=queue%3Db"))["items"]

    assert (item["value"], item["metricLabels"]) == ("7000m", {"queue": "b"})
