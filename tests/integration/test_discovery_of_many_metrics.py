"""Discovery of many metrics: its documents are made once, and sent to many clients in pieces."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import msgspec
import pytest

from metrics_adapter.members.discovery_cache import MetricDiscoveryCache
from tests.support.adapter.application import CUSTOM, Client, client_of, members_source
from tests.support.timing import loop_time

COUNT = 5_000
VERSION = f"{CUSTOM}/v1beta1"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """The adapter over a member with 5,000 custom metrics."""
    served = {"kind": "APIGroup", "apiVersion": "v1", "versions": [{"version": "v1beta1"}]}
    resources = [
        {"name": f"pods/m{number:04}", "kind": "MetricValueList", "namespaced": True, "verbs": ["get"]}
        for number in range(COUNT)
    ]
    listed = {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": "custom.metrics.k8s.io/v1beta1",
        "resources": resources,
    }
    responses = {CUSTOM: served, VERSION: json.dumps(listed)}
    async with members_source({"m1": responses}, max_age=3600) as (source, _):
        cache = MetricDiscoveryCache(source, clock=loop_time)
        await cache.refresh()
        async with client_of(source, cache) as made:
            yield made


async def test_a_document_is_made_once_for_all_clients(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred clients that each had their own held the event loop for seconds, and filled the memory."""
    encode, made = msgspec.json.encode, 0

    def counted(value: object) -> bytes:
        nonlocal made
        made += 1
        return encode(value)

    monkeypatch.setattr(msgspec.json, "encode", counted)

    async def read(path: str, accept: str = "") -> tuple[int, bytes]:
        async with client.get(path, headers={"Accept": accept}) as response:
            return response.status, await response.read()

    lists = await asyncio.gather(*(read(VERSION) for _ in range(10)))
    groups = await asyncio.gather(*(read("/apis", AGGREGATED) for _ in range(10)))

    assert made == 2
    assert {status for status, _ in (*lists, *groups)} == {200}
    assert len({body for _, body in lists}) == len({body for _, body in groups}) == 1
    assert len(json.loads(lists[0][1])["resources"]) == COUNT
    assert "m4999" in groups[0][1].decode()
