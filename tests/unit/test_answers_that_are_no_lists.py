"""An answer that is not the list that was asked for is an error: it would decode as an empty list."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from controller.federatedhpa.hub_metrics import _decode_usage as usage_of_the_hub
from controller.federatedhpa.metric_reader import decode_usage
from fedhpa.api.errors import InvalidObject, MetricsUnavailable
from fedhpa.api.json import WHOLE_BYTES, check_collection, decode_json
from fedhpa.api.wire import ObjectList
from fedhpa.kube.pieces import PIECE_BYTES, decode_in_pieces
from fedhpa.members.metrics import (
    _versions,
    custom_samples,
    custom_values,
    external_samples,
    external_values,
)
from metrics_adapter.members.discovery_cache import _custom_metrics, _external_metrics
from metrics_adapter.members.resource_metrics import decode_list
from tests.support.metrics_lists import items_of

USAGE = ("PodMetricsList", "metrics.k8s.io/v1beta1")
CUSTOM = ("MetricValueList", "custom.metrics.k8s.io/v1beta2")
OLD_CUSTOM = ("MetricValueList", "custom.metrics.k8s.io/v1beta1")
KARMADA = "autoscaling.karmada.io/v1alpha1"
EXTERNAL = ("ExternalMetricValueList", "external.metrics.k8s.io/v1beta1")

READERS: list[tuple[Callable[[bytes], Any], tuple[str, str]]] = [
    (lambda body: decode_usage("m1", body), USAGE),
    (usage_of_the_hub, USAGE),
    (lambda body: items_of(decode_list(body, "m1")), USAGE),
    (lambda body: items_of(decode_list(body, "m1")), ("NodeMetricsList", "metrics.k8s.io/v1beta1")),
    (custom_samples, CUSTOM),
    (custom_samples, OLD_CUSTOM),
    (custom_values, CUSTOM),
    (external_samples, EXTERNAL),
    (external_values, EXTERNAL),
]
OTHERS: list[dict[str, Any]] = [
    {"status": "ok"},
    {},
    {"items": []},
    {"items": None},
    {"kind": "Status", "apiVersion": "v1", "items": []},
    {"kind": "PodList", "apiVersion": "v1", "items": []},
    {"kind": "List", "apiVersion": "v1", "items": []},
]


@pytest.mark.parametrize(("read", "named"), READERS)
@pytest.mark.parametrize("other", OTHERS)
def test_metrics_that_are_no_list_of_them(
    read: Callable[[bytes], Any], named: tuple[str, str], other: dict[str, Any]
) -> None:
    """Any other answer of a metrics API is an error, and never an empty list."""
    with pytest.raises((InvalidObject, MetricsUnavailable)):
        read(json.dumps(other).encode())


@pytest.mark.parametrize(("read", "named"), READERS)
def test_a_list_names_kind_and_version(read: Callable[[bytes], Any], named: tuple[str, str]) -> None:
    """The right kind in another version is an error, too; so is a list without items."""
    kind, version = named
    good = {"kind": kind, "apiVersion": version, "metadata": {}}

    assert list(read(json.dumps({**good, "items": []}).encode())) == []
    assert list(read(json.dumps({**good, "items": None}).encode())) == []
    for odd in (good, {**good, "apiVersion": "v2", "items": []}, {**good, "kind": "Status", "items": []}):
        with pytest.raises((InvalidObject, MetricsUnavailable)):
            read(json.dumps(odd).encode())


@pytest.mark.parametrize(
    ("path", "kind", "version"),
    [
        ("/api/v1/namespaces/shop/pods", "PodList", "v1"),
        ("/api/v1/nodes", "NodeList", "v1"),
        ("/apis/apps/v1/namespaces/shop/deployments", "DeploymentList", "apps/v1"),
        (
            "/apis/autoscaling.karmada.io/v1alpha1/federatedhpas",
            "FederatedHPAList",
            "autoscaling.karmada.io/v1alpha1",
        ),
        ("/apis/networking.k8s.io/v1/ingresses", "IngressList", "networking.k8s.io/v1"),
        ("/apis/policy.karmada.io/v1alpha1/policies", "PolicyList", "policy.karmada.io/v1alpha1"),
    ],
)
def test_lists_of_collections(path: str, kind: str, version: str) -> None:
    """A page is a list of the collection's kind, in the path's apiVersion."""

    def check(**fields: str) -> None:
        check_collection(path, fields.get("kind", ""), fields.get("apiVersion", ""))

    check(kind=kind, apiVersion=version)
    for fields in (
        {},
        {"kind": kind},
        {"apiVersion": version},
        {"kind": kind, "apiVersion": "v9"},
        {"kind": "ConfigMapList", "apiVersion": version},
        {"kind": kind.removesuffix("List"), "apiVersion": version},
        {"kind": "Status", "apiVersion": version},
        {"kind": "List", "apiVersion": version},
    ):
        with pytest.raises(InvalidObject, match=r"^the answer is "):
            check(**fields)


def test_a_list_has_items() -> None:
    """Go servers always send the field, at least as null."""
    with pytest.raises(InvalidObject, match="items"):
        decode_json(b'{"kind":"PodList","apiVersion":"v1"}', ObjectList[Any])


def test_pieces_of_a_list_may_lack_what_comes_after_the_items() -> None:
    """A server may sort its keys. Only a piece from the middle is as large, and it has no wrong kind."""
    item = {"metadata": {"name": "web-0", "namespace": "shop"}, "timestamp": None, "window": "15s"}
    items = [{**item, "metadata": {"name": f"web-{i}"}} for i in range(2_000)]
    version = {"apiVersion": "metrics.k8s.io/v1beta1"}

    assert len(decode_usage("m1", json.dumps({**version, "items": items}).encode())) == 2_000
    for body in ({**version, "items": items[:10]}, {**version, "items": items, "kind": "NodeList"}):
        with pytest.raises(InvalidObject):
            decode_usage("m1", json.dumps(body).encode())


@pytest.mark.parametrize("count", [1_500, 5_000])
@pytest.mark.parametrize("before", [True, False])
async def test_a_large_list_names_kind_and_version(count: int, before: bool) -> None:
    """Before or after its items; a list that is cut into pieces is no exception."""
    item = {"metadata": {"name": "web-0", "namespace": "shop"}, "timestamp": None, "window": "15s"}
    items = [{**item, "metadata": {"name": f"web-{i}", "namespace": "shop"}} for i in range(count)]

    async def read(named: dict[str, str]) -> int:
        document = {**named, "items": items} if before else {"items": items, **named}
        body = json.dumps(document).encode()
        assert len(body) > WHOLE_BYTES
        return sum(map(len, await decode_in_pieces([body], lambda piece: decode_list(piece, "m1"))))

    named = {"kind": USAGE[0], "apiVersion": USAGE[1]}

    assert await read(named) == count
    for without in ({}, {"kind": USAGE[0]}, {"apiVersion": USAGE[1]}, {**named, "kind": "Status"}):
        with pytest.raises((InvalidObject, MetricsUnavailable), match="the answer is "):
            await read(without)


async def test_a_large_answer_whose_items_come_late_names_kind_and_version() -> None:
    """Its head is too long for it to be cut; it is decoded whole."""
    padding = {"metadata": {"resourceVersion": "1" * 70_000}}
    named = {"kind": EXTERNAL[0], "apiVersion": EXTERNAL[1]}
    body = json.dumps({**padding, **named, "items": []}).encode()

    assert await decode_in_pieces([body], external_samples) == [()]
    with pytest.raises(InvalidObject, match="no kind"):
        await decode_in_pieces([json.dumps({**padding, "items": []}).encode()], external_samples)


@pytest.mark.parametrize("other", [{}, {"status": "ok"}, {"kind": "Status", "apiVersion": "v1"}])
def test_discovery_that_is_none(other: dict[str, Any]) -> None:
    """A member whose discovery was emptied has not lost its metrics."""
    body = json.dumps(other).encode()
    for read in (_versions, _custom_metrics, _external_metrics):
        with pytest.raises(InvalidObject, match="the answer is "):
            read(body)


def test_a_small_body_is_a_whole_list() -> None:
    """Larger ones are cut."""
    assert WHOLE_BYTES == PIECE_BYTES
