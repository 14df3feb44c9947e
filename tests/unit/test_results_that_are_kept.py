"""Results that every reconcile needs are computed once, and anew after what they depend on has changed."""

from __future__ import annotations

from email.utils import formatdate, parsedate_to_datetime
from types import SimpleNamespace
from typing import Any

import pytest

from controller.apply.plan import MemberScales
from controller.federatedhpa.competition import KEEP_SECONDS, CompetingAutoscalers
from fedhpa.api.autoscalers import StoredAutoscaler
from fedhpa.api.json import convert_json
from fedhpa.api.member_hpas import MemberHpa
from fedhpa.api.selectors import parse_selector
from fedhpa.api.wire import ObjectMeta, Scale, ScaleSpec
from fedhpa.decision import WorkloadReading
from fedhpa.kube import server_clock

NOW = 1_800_000_000.0
PATH = "/apis/apps/v1/namespaces/shop/deployments/web"


def test_date_of_an_answer_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred objects read the header of the same answer; the next answer has another one."""
    read = list[str]()

    def note(header: str) -> Any:
        read.append(header)
        return parsedate_to_datetime(header)

    monkeypatch.setattr(server_clock, "parsedate_to_datetime", note)
    clock = server_clock.ServerClock()
    clock.seen = formatdate(NOW + 600, usegmt=True), 100.0
    found = {clock.ahead(NOW, 100.0) for _ in range(100)}
    clock.seen = formatdate(NOW - 600, usegmt=True), 100.0

    assert found == {600.5}
    assert clock.ahead(NOW, 100.0) == -599.5
    assert len(read) == 2


def test_report_of_a_member_hpa_is_read_once() -> None:
    """The watch keeps an HPA until it changes."""
    reads = list[str]()

    def read(hpa: MemberHpa) -> str:
        reads.append(hpa.metadata.name)
        return hpa.metadata.name

    hpa, other = (MemberHpa(metadata=ObjectMeta(name=name)) for name in ("one", "other"))

    assert [hpa.derived(read) for _ in range(10)] == ["one"] * 10
    assert other.derived(read) == "other"
    assert reads == ["one", "other"]


def workloads(version: str) -> dict[str, WorkloadReading]:
    """The workload of one cluster at a resourceVersion."""
    scale = Scale(ObjectMeta(resourceVersion=version), ScaleSpec(3))
    return {"m1": WorkloadReading(path=PATH, scale=scale, selector=parse_selector("app=web"))}


def test_scales_follow_workload_and_member() -> None:
    """Equal workloads of a member give the same scales. A write never uses an old version or client."""
    kept, noted = MemberScales(), list[Any]()
    first: Any = SimpleNamespace(client="first")
    second: Any = SimpleNamespace(client="second")

    def scales(version: str, member: Any) -> Any:
        return kept.of(workloads(version), {"m1": member}, 3.0, lambda *seen: noted.append(seen))

    before = scales("1", first)
    assert scales("1", first) is before
    assert scales("2", first)["m1"].scale.metadata.resourceVersion == "2"
    assert scales("2", second)["m1"].client == "second"
    assert kept.of(workloads("2"), {}, 3.0, lambda *_: None) == {}
    before["m1"].on_read("newer")
    assert noted == [(first, PATH, "newer")]


class Server:
    """An API server with these autoscalers, which counts its lists."""

    def __init__(self) -> None:
        self.items: list[StoredAutoscaler] = []
        self.lists = 0

    async def list(self, *_: Any) -> Any:
        """Answer a list."""
        self.lists += 1
        return SimpleNamespace(items=tuple(self.items))


async def test_namespace_without_autoscalers_is_asked_again() -> None:
    """An autoscaler that appears is found after a minute, and another cluster is asked at once."""
    now, hub, member, other = 0.0, Server(), Server(), Server()
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    scaler = {"metadata": {"namespace": "shop", "name": "web"}, "spec": {"scaleTargetRef": target}}
    autoscalers = CompetingAutoscalers(clock=lambda: now)

    async def find(**clients: Any) -> tuple[str, ...]:
        found = autoscalers.find(scaler, hub, clients)  # type: ignore[arg-type]  # what it needs of a client
        await autoscalers.settle()
        return found

    for _ in range(3):
        assert await find(m1=member) == ()
    assert (member.lists, hub.lists) == (1, 1)
    raw = {"metadata": {"name": "theirs", "namespace": "shop"}, "spec": {"scaleTargetRef": target}}
    member.items = other.items = [convert_json(raw, StoredAutoscaler)]
    assert await find(m1=member, m2=other) == ()  # it is listed for the next call
    assert await find(m1=member, m2=other) == ("HorizontalPodAutoscaler shop/theirs in m2",)
    now = KEEP_SECONDS + 1
    await find(m1=member)
    assert await find(m1=member) == ("HorizontalPodAutoscaler shop/theirs in m1",)
    await autoscalers.end()
