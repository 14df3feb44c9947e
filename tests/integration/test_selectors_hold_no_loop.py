"""No selector of a caller holds the event loop for 50 ms, in CPU time, however long or odd it is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import pytest

from fedhpa.api.errors import InvalidObject
from fedhpa.api.selectors import MAX_TERMS, MAX_VALUES, parse_field_selector, parse_selector, selector_of
from metrics_adapter.members.resource_metrics import decode_list
from tests.support.adapter.application import CUSTOM, EXTERNAL, NOON, Client, client_of, members_source
from tests.support.costs import least_cpu_seconds, least_longest_hold, least_longest_pass

HELD = 0.05
PODS = "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods"
VALUES = f"{CUSTOM}/v1beta2/namespaces/shop/pods/*/hits"
QUEUE = f"{EXTERNAL}/namespaces/shop/queue"
SIZE = 60_000
COUNT = 10_000


def repeated(part: str, size: int = SIZE) -> str:
    return ",".join(part.format(number) for number in range(size // len(part)))[:size]


HOSTILE = {
    "absent labels": ",".join("!a" for _ in range(SIZE // 3)),
    "different absent labels": repeated("!a{}"),
    "values of one term": f"app in ({repeated('v{}')})",
    "most values": f"app in ({','.join(f'v{number}' for number in range(MAX_VALUES))})",
    "empty values": f"app in ({',' * SIZE})",
    "excluded values": f"app notin ({repeated('v{}')})",
    "terms": repeated("l{}=v"),
    "most terms": ",".join(f"!l{number}" for number in range(MAX_TERMS)),
    "integers": ",".join(f"n>{'9' * 63}" for _ in range(MAX_TERMS)),
    "one integer": "n>" + "9" * SIZE,
    "one key": "k" * SIZE,
    "one prefix": "a." * (SIZE // 2) + "/k=v",
    "parentheses": "a in " + "(" * SIZE,
    "symbols": "!=" * (SIZE // 2),
    "blanks": " " * SIZE + "a=b",
}
FIELDS = {
    "terms": repeated("metadata.name!=w{}"),
    "one value": "metadata.name=" + "w" * SIZE,
    "escapes": "metadata.name=" + "\\," * (SIZE // 2),
    "unknown": repeated("status.phase{}=x"),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=list(HOSTILE))
def test_a_label_selector_is_read_quickly(text: str) -> None:
    """Most are refused; reading them costs a few milliseconds."""

    def read() -> None:
        try:
            parse_selector(text).matches({"app": "web", "n": "7"})
        except InvalidObject:
            pass

    assert least_cpu_seconds(read, HELD / 2) < HELD


@pytest.mark.parametrize("text", FIELDS.values(), ids=list(FIELDS))
def test_a_field_selector_is_read_quickly(text: str) -> None:
    """As a label selector is."""

    def read() -> None:
        try:
            parse_field_selector(text).matches(name="web", namespace="shop")
        except InvalidObject:
            pass

    assert least_cpu_seconds(read, HELD / 2) < HELD


@pytest.mark.parametrize("labels", [20_000, MAX_TERMS])
def test_a_selector_of_an_object_is_read_quickly(labels: int) -> None:
    """The selector of a metric, or of a workload in a member, has the same bounds."""
    expressions = [
        {"key": f"k{number}", "operator": "In", "values": ["v"] * 9} for number in range(labels - 50)
    ]
    whole: dict[str, Any] = {"matchLabels": {f"l{number}": "v" for number in range(50)}}
    whole["matchExpressions"] = expressions

    def read() -> None:
        try:
            selector_of(whole)
        except InvalidObject:
            pass

    assert least_cpu_seconds(read, HELD / 2) < HELD


def usage(number: int) -> dict[str, Any]:
    labels = {f"l{n}": f"v{number % 7}" for n in range(10)} | {"n": str(number)}
    return {
        "metadata": {"name": f"web-{number}", "namespace": "shop", "labels": labels},
        "timestamp": NOON,
        "window": "15s",
        "containers": [{"name": "app", "usage": {"cpu": "100m", "memory": "1Mi"}}],
    }


def sample(number: int) -> dict[str, Any]:
    described = {"kind": "Pod", "namespace": "shop", "name": f"web-{number}", "apiVersion": "v1"}
    return {"describedObject": described, "metric": {"name": "hits"}, "timestamp": NOON, "value": "1"}


def listed(kind: str, version: str, items: list[dict[str, Any]]) -> str:
    return json.dumps({"kind": kind, "apiVersion": version, "metadata": {}, "items": items})


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """The adapter over a member with 10,000 pods in one namespace."""
    served = {"kind": "APIGroup", "apiVersion": "v1", "versions": [{"version": "v1beta2"}]}
    queue = [
        {"metricName": "queue", "metricLabels": {"n": str(number)}, "timestamp": NOON, "value": "1"}
        for number in range(COUNT)
    ]
    responses = {
        PODS: listed("PodMetricsList", "metrics.k8s.io/v1beta1", [usage(number) for number in range(COUNT)]),
        CUSTOM: served,
        VALUES: listed(
            "MetricValueList", "custom.metrics.k8s.io/v1beta2", [sample(number) for number in range(COUNT)]
        ),
        QUEUE: listed("ExternalMetricValueList", "external.metrics.k8s.io/v1beta1", queue),
    }
    async with members_source({"m1": responses}, max_age=3600) as (source, _), client_of(source) as made:
        yield made


MATCHING = ",".join([*(f"!x{number}" for number in range(MAX_TERMS - 2)), "n>1", "n<9000"])
REQUESTS = {
    "usage, 100 terms": f"{PODS}?labelSelector={quote(MATCHING)}",
    "usage, 1,000 values": f"{PODS}?labelSelector={quote(HOSTILE['most values'])}",
    "usage, 60 kB of terms": f"{PODS}?labelSelector={'!a,' * 2_000}!a",
    "usage, fields": f"{PODS}?fieldSelector={quote(repeated('metadata.name!=w{}', 1_500))}",
    "custom, labels of pods": f"{VALUES}?labelSelector={quote(MATCHING)}",
    "custom, labels of the metric": f"{VALUES}?metricLabelSelector={quote(MATCHING)}",
    "external": f"{QUEUE}?labelSelector={quote(MATCHING)}",
}


@pytest.mark.parametrize("path", REQUESTS.values(), ids=list(REQUESTS))
async def test_a_request_with_a_selector_holds_the_loop_briefly(client: Client, path: str) -> None:
    """A namespace of 10,000 pods and a selector of 100 terms: other requests are served between the items."""
    statuses = []

    async def ask() -> None:
        async with client.get(path) as response:
            statuses.append(response.status)
            await response.read()

    await ask()

    assert await least_longest_hold(ask, HELD / 2) < HELD
    assert set(statuses) in ({200}, {400})


async def test_many_selections_at_once_hold_the_loop_briefly() -> None:
    """A hundred LISTs by labels once held it for 3.8 s, with a piece of each in one pass, and took 600 MB."""
    body = listed("PodMetricsList", "metrics.k8s.io/v1beta1", [usage(number) for number in range(2_000)])
    labels, fields = parse_selector(MATCHING), parse_field_selector("metadata.name!=w")

    async def select() -> None:
        items = decode_list(body.encode(), "m1")
        selections = [items.select(labels) if one % 2 else items.filter(fields) for one in range(40)]
        found = await asyncio.gather(*selections)

        assert [len(each or ()) for each in found] == [2_000, 1_998] * 20

    assert await least_longest_pass(select, HELD / 2) < HELD
