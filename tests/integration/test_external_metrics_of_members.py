"""external.metrics.k8s.io over many members: each value is listed with its cluster as a label."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.adapter.application import EXTERNAL, NOON, adapter, get

PATH = "/namespaces/shop/depth"
DEPTH = EXTERNAL + PATH


def series(amount: Any, metric: str = "depth", **fields: Any) -> dict[str, Any]:
    labels = fields.pop("labels", {"queue": "orders"})
    return {"metricName": metric, "metricLabels": labels, "timestamp": NOON, "value": amount, **fields}


def member(*found: Any) -> dict[str, Any]:
    return {DEPTH: {"kind": "ExternalMetricValueList", "metadata": {}, "items": list(found)}}


def shown(body: Any) -> list[tuple[str, str]]:
    return [(item["metricLabels"]["cluster"], item["value"]) for item in body["items"]]


async def test_every_value_of_every_member_is_given_with_its_cluster() -> None:
    """Values are sorted by cluster and labels. A hub's HPA adds them up over clusters."""
    worlds = {
        "m2": member(series("0.5", window=30)),
        "m1": member(series("3", labels={"queue": "b"}), series("4k", labels={"queue": "a"}), series("1")),
    }
    async with adapter(worlds) as (client, _):
        status, body, missing = await get(client, DEPTH)

    assert (status, missing) == (200, [])
    assert (body["kind"], body["apiVersion"]) == (
        "ExternalMetricValueList",
        "external.metrics.k8s.io/v1beta1",
    )
    assert body["items"] == [
        series("4k", labels={"cluster": "m1", "queue": "a"}),
        series("3", labels={"cluster": "m1", "queue": "b"}),
        series("1", labels={"cluster": "m1", "queue": "orders"}),
        series("500m", labels={"cluster": "m2", "queue": "orders"}, window=30),
    ]


async def test_a_member_cannot_speak_for_another_cluster() -> None:
    """The member's own label of that name is renamed, as Prometheus does with labels that it overrides."""
    async with adapter({"m1": member(series("1", labels={"cluster": "m2"}))}) as (client, _):
        _, body, _ = await get(client, DEPTH)

    assert [item["metricLabels"] for item in body["items"]] == [
        {"cluster": "m1", "exported_cluster": "m2"},
    ]


@pytest.mark.parametrize(
    ("query", "expected", "asked"),
    [
        ("?cluster=m2", ["m2"], {}),
        ("?labelSelector=cluster%3Dm1", ["m1"], {}),
        ("?labelSelector=cluster+notin+(m1),queue%3D%3Dorders", ["m2"], {"labelSelector": "queue=orders"}),
        ("?labelSelector=queue,a!%3Db", ["m1", "m2"], {"labelSelector": "a!=b,queue"}),
    ],
)
async def test_the_cluster_is_selected_here_and_all_else_there(
    query: str, expected: list[str], asked: dict[str, str]
) -> None:
    """Members do not know the label, and clusters that are not selected receive no request."""
    async with adapter({"m1": member(series("1")), "m2": member(series("2"))}) as (client, members):
        _, body, _ = await get(client, DEPTH + query)
        queries = {name: stub.queries(PATH) for name, stub in members.items() if stub.seen}

    assert [cluster for cluster, _ in shown(body)] == expected
    assert queries == {name: [asked] for name in expected}


RUBBISH: dict[str, Any] = {
    "no number": series("NaN"),
    "negative": series("-1m"),
    "null": series(None),
    "no time": series("1", timestamp="2026-02-31T00:00:00Z"),
    "labels that are no strings": series("1", labels={"a": 1}),
    "a window before it began": series("1", window=-1),
}


@pytest.mark.parametrize("name", RUBBISH)
async def test_a_member_that_sends_rubbish_did_not_answer(name: str) -> None:
    """The member is named and the others' values are served. If it is the only one, the response is 503."""
    worlds = {"m1": member(series("5")), "m2": member(series("1"), RUBBISH[name])}
    async with adapter(worlds) as (client, _):
        both = await get(client, DEPTH)
        alone = await get(client, f"{DEPTH}?cluster=m2")

    assert (both[0], shown(both[1]), both[2]) == (200, [("m1", "5")], ["m2"])
    assert (alone[0], alone[1]["reason"]) == (503, "ServiceUnavailable")


NOT_KNOWN = {DEPTH: 404}
FAILING = {"*": 500}


@pytest.mark.parametrize(
    ("worlds", "status", "missing"),
    [
        ({}, 404, []),
        ({"m1": NOT_KNOWN}, 404, []),
        ({"m1": NOT_KNOWN, "m2": FAILING}, 404, ["m2"]),
        ({"m1": NOT_KNOWN, "m2": member()}, 200, []),
        ({"m1": NOT_KNOWN, "m2": member(series("1")), "m3": FAILING, "m4": None}, 200, ["m3", "m4"]),
        ({"m1": FAILING, "m2": None}, 503, []),
    ],
)
async def test_who_knows_no_such_metric_is_not_missing(
    worlds: dict[str, Any], status: int, missing: list[str]
) -> None:
    """404 if no member that answers knows the metric, and an empty list if one has no value now."""
    async with adapter(worlds) as (client, _):
        answer = await get(client, DEPTH)

    assert (answer[0], answer[2]) == (status, missing)


async def test_a_member_without_the_api_is_not_expected_to_answer() -> None:
    """If it is the only one, the response is 404. Beside a failing member its answer proves nothing."""
    async with adapter({"m1": {}, "m2": FAILING}) as (client, members):
        members["m1"].no_api = True
        alone = await get(client, f"{DEPTH}?cluster=m1")
        both = await get(client, DEPTH)

    assert (alone[0], both[0]) == (404, 503)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/namespaces/shop/depth/more", 404),
        ("/namespaces/shop", 404),
        ("/namespaces//depth", 404),
        ("/namespaces/shop/depth?labelSelector=a%3D%3D%3Db", 400),
        ("/namespaces/shop/depth?fieldSelector=metadata.name%3Dorders", 400),
        ("/namespaces/shop/depth?watch=true", 405),
        ("/namespaces/shop/depth?cluster=m9", 404),
        ("/depth", 404),
    ],
)
async def test_what_cannot_be_asked_is_refused(path: str, status: int) -> None:
    """No member receives a request."""
    async with adapter({"m1": member(series("1"))}) as (client, members):
        answer = await get(client, EXTERNAL + path)

    assert (answer[0], answer[1]["kind"], members["m1"].seen) == (status, "Status", [])
