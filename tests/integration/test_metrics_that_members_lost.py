"""A member whose metric disappeared minutes ago is named. A member that never had it is not."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from structlog.testing import capture_logs

import fedhpa.members.metrics as values_of_members
from metrics_adapter.members import recently_served as remembered
from tests.support.adapter.application import (
    CUSTOM,
    EXTERNAL,
    Client,
    StubMember,
    adapter,
    get,
    items,
    serving,
    value,
)

HITS = f"{CUSTOM}/v1beta2/namespaces/shop/services/web/hits"
POD = f"{CUSTOM}/v1beta2/namespaces/shop/pods/web-0/hits"
PODS = f"{CUSTOM}/v1beta2/namespaces/shop/pods/*/hits"
DEPTH = f"{EXTERNAL}/namespaces/shop/depth"


def world(*, here: bool = True) -> dict[str, Any]:
    """Returns a member that serves both APIs, and the metrics only if they are `here`."""
    if not here:
        return serving("v1beta2")
    depth = {"metricName": "depth", "metricLabels": {}, "timestamp": "2026-03-11T12:00:00Z", "value": "4"}
    return {
        **serving("v1beta2"),
        HITS: items(value("web", "3", kind="Service")),
        POD: items(value("web-0", "3")),
        PODS: items(value("web-0", "3")),
        DEPTH: {"kind": "ExternalMetricValueList", "metadata": {}, "items": [depth]},
    }


@pytest.fixture
async def federation() -> AsyncIterator[tuple[Client, dict[str, StubMember]]]:
    """Starts two members with the metrics, and one that never had any."""
    async with adapter({"m1": world(), "m2": world(), "m3": world(here=False)}) as made:
        yield made


@pytest.mark.parametrize("path", [HITS, PODS, DEPTH], ids=["custom", "custom by selector", "external"])
@pytest.mark.parametrize("how", ["metric", "API"])
async def test_a_metric_that_went_is_missed_by_name(
    federation: tuple[Client, dict[str, StubMember]], path: str, how: str
) -> None:
    """The metric or the whole API may be gone. The others' values are served with a warning."""
    client, members = federation
    before = await get(client, path)
    if how == "API":
        members["m2"].no_api = True
    else:
        del members["m2"].responses[path]
    response = await client.get(path)
    after = await get(client, path)
    series = await (await client.get("/metrics")).text()
    group = path.split("/")[2]

    assert (before[0], before[2]) == (200, [])
    assert (after[0], after[2]) == (200, ["m2"])
    assert re.search(r"m2 did not answer: it served this \d+ s ago: it ", response.headers["Warning"])
    assert f'fedhpa_adapter_member_missing_total{{api="{group}",cluster="m2"}} 2.0' in series
    assert f'fedhpa_adapter_member_api_answered{{api="{group}",cluster="m2"}} 0.0' in series
    assert f'fedhpa_adapter_partial_answers_total{{api="{group}"}} 2.0' in series


async def test_a_metric_that_went_everywhere_is_not_one_that_never_was(
    federation: tuple[Client, dict[str, StubMember]],
) -> None:
    """404 with warnings if some member never had it, and 503 if all members had it."""
    client, members = federation
    await get(client, DEPTH)
    await get(client, f"{DEPTH}?cluster=m1")
    for name in ("m1", "m2"):
        del members[name].responses[DEPTH]
    everywhere = await get(client, DEPTH)
    one = await get(client, f"{DEPTH}?cluster=m1")
    never = await get(client, f"{EXTERNAL}/namespaces/shop/never")

    assert (everywhere[0], everywhere[2]) == (404, ["m1", "m2"])
    assert (one[0], one[1]["reason"]) == (503, "ServiceUnavailable")
    assert (never[0], never[2]) == (404, [])


async def test_nobody_misses_a_pod_that_went(federation: tuple[Client, dict[str, StubMember]]) -> None:
    """Pods requested by name come and go, so only other metrics are remembered."""
    client, members = federation
    await get(client, POD)
    del members["m2"].responses[POD]
    status, _, named = await get(client, POD)

    assert (status, named) == (200, [])


@pytest.mark.parametrize("path", [HITS, DEPTH], ids=["custom", "external"])
async def test_an_api_that_went_for_good_is_no_alarm(
    federation: tuple[Client, dict[str, StubMember]], path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the five minutes the metric is absent, and no warning names the member."""
    client, members = federation
    await get(client, path)
    members["m2"].responses = {}
    members["m2"].no_api = True
    missing = await get(client, path)
    monkeypatch.setattr(remembered, "TTL_SECONDS", -1.0)
    # The versions of a member are cached. Until they expire, the metric is absent, not the API.
    monkeypatch.setattr(values_of_members, "VERSION_SECONDS", 0.0)
    absent = await get(client, path)
    series = await (await client.get("/metrics")).text()
    up = [line for line in series.splitlines() if line.startswith("fedhpa_adapter_member_api_answered{")]

    assert [missing[2], absent[2]] == [["m2"], []]
    assert "m2" not in "".join(up)
    assert "m1" in "".join(up)


async def test_the_log_is_not_filled_by_one_metric_of_many(
    federation: tuple[Client, dict[str, StubMember]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member that lost one metric and serves others is logged once, not in each round."""
    # This does not depend on the duration of a round on this machine.
    monkeypatch.setattr("metrics_adapter.members.source.RECOVERY_SECONDS", 3600.0)
    client, members = federation
    await get(client, DEPTH)
    other = f"{EXTERNAL}/namespaces/shop/other"
    for stub in members.values():
        stub.responses[other] = stub.responses.get(DEPTH, {"items": []})
    del members["m2"].responses[DEPTH]
    with capture_logs() as logs:
        for _ in range(10):
            await get(client, DEPTH)
            await get(client, other)
    told = [line["event"] for line in logs if line["log_level"] in ("warning", "info")]

    assert told == ["metrics missing"]


async def test_a_metric_that_comes_back_is_whole_again(
    federation: tuple[Client, dict[str, StubMember]],
) -> None:
    """The next answer has no warning."""
    client, members = federation
    await get(client, DEPTH)
    lost = members["m2"].responses.pop(DEPTH)
    missing = await get(client, DEPTH)
    members["m2"].responses[DEPTH] = lost
    back = await get(client, DEPTH)
    series = await (await client.get("/metrics")).text()

    assert [missing[2], back[2]] == [["m2"], []]
    assert 'fedhpa_adapter_member_api_answered{api="external.metrics.k8s.io",cluster="m2"} 1.0' in series
