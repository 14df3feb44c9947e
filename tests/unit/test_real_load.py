"""The load of workloads on real members, as kwok's expression of a pod's CPU."""

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import aiohttp
import pytest

from testbed.real import load
from testbed.real.member import Member


class FakeApi:
    """The API of a member: its pods, and the usage that was written."""

    def __init__(self, pods: list[dict[str, Any]]) -> None:
        self.pods = pods
        self.up = True
        self.written: list[str] = []

    async def __aenter__(self) -> "FakeApi":
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def get(self, path: str) -> Any:
        assert path == "/api/v1/namespaces/shop/pods"
        if not self.up:
            raise aiohttp.ClientError
        return {"items": self.pods}

    async def apply(self, manifest: Mapping[str, Any]) -> None:
        if not self.up:
            raise aiohttp.ClientError
        (usage,) = manifest["spec"]["usages"]
        self.written.append(usage["usage"]["cpu"]["expression"])


class FakeMember:
    def __init__(self, *pods: dict[str, Any]) -> None:
        self.the_api = FakeApi([*pods])

    def api(self) -> FakeApi:
        return self.the_api


def pod(name: str, owner: str, *, ready: str = "True") -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "labels": {"pod-template-hash": "5d4"},
            "ownerReferences": [{"controller": True, "kind": "ReplicaSet", "name": owner}],
        },
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


class Stopped(Exception):
    """Ends `follow` after a round."""


async def follow(followed: load.Load, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs one round."""

    async def stop(_: float) -> None:
        raise Stopped

    monkeypatch.setattr(asyncio, "sleep", stop)
    with pytest.raises(Stopped):
        await followed.follow()


async def test_ready_pods_share_the_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    """All ready pods have the same share, and those of one member also its additional load; others idle."""
    one = FakeMember(pod("web-5d4-a", "web-5d4"), pod("web-api-5d4-b", "web-api-5d4"))
    two = FakeMember(pod("web-5d4-c", "web-5d4"), pod("web-5d4-d", "web-5d4", ready="False"))
    followed = load.Load(cast(Mapping[str, Member], {"member1": one, "member2": two}))
    followed.demand("shop", "web", 200)
    followed.demand("shop", "web", 40, "member2")

    await follow(followed, monkeypatch)

    of_a_pod = '(pod.metadata.namespace + "/" + pod.metadata.name) in'
    assert one.the_api.written == [f'{of_a_pod} ["shop/web-5d4-a"] ? Quantity("100m") : (Quantity("1m"))']
    assert two.the_api.written == [f'{of_a_pod} ["shop/web-5d4-c"] ? Quantity("140m") : (Quantity("1m"))']


async def test_a_lost_member_keeps_its_pods_and_its_usage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods of a member that does not answer count as before. Nothing is written twice."""
    one, two = FakeMember(pod("web-5d4-a", "web-5d4")), FakeMember(pod("web-5d4-b", "web-5d4"))
    followed = load.Load(cast(Mapping[str, Member], {"member1": one, "member2": two}))
    followed.demand("shop", "web", 200)
    await follow(followed, monkeypatch)
    two.the_api.up = False
    await follow(followed, monkeypatch)
    followed.demand("shop", "web", 100)
    await follow(followed, monkeypatch)

    assert ["100m" in each for each in one.the_api.written] == [True, False]
    assert "50m" in one.the_api.written[-1]
    assert len(two.the_api.written) == 1
    two.the_api.up = True
    await follow(followed, monkeypatch)
    assert "50m" in two.the_api.written[-1]
