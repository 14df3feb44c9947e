"""Answers in the details that clients of metrics-server and custom-metrics-apiserver rely on."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from metrics_adapter.server import resource_metrics
from tests.support.adapter.application import CUSTOM, EXTERNAL, Client, adapter, get, items, serving, value
from tests.support.fakeapi import Object

API = "/apis/metrics.k8s.io/v1beta1"
LIST = f"{API}/namespaces/shop/pods"
STAR = "namespaces/shop/pods/*/hits"
META = "g=meta.k8s.io"
OF_METADATA = "application/json;as=PartialObjectMetadata{};{};v={}"


def pod(name: str, **labels: str) -> Object:
    """Metrics of a pod."""
    return {
        "metadata": {"name": name, "namespace": "shop", "labels": labels},
        "timestamp": "2026-03-11T12:00:00Z",
        "window": "30s",
        "containers": [{"name": "app", "usage": {"cpu": "100m", "memory": "1Mi"}}],
    }


def usage(*pods: Object) -> dict[str, Any]:
    """The answers of a member with these pods."""
    found = {f"{LIST}/{one['metadata']['name']}": {"kind": "PodMetrics", **one} for one in pods}
    return {LIST: {"kind": "PodMetricsList", "items": list(pods)}, **found}


WORLD = {"m1": usage(pod("a", app="web"), pod("b", app="db"))}


async def raw(client: Client, path: str, **headers: str) -> tuple[int, Any, bytes]:
    """Returns status, headers and the body as it was sent."""
    response = await client.get(path, headers=headers, skip_auto_headers=["Accept-Encoding"])
    return response.status, response.headers, await response.read()


async def test_a_selector_without_matches_has_an_empty_list() -> None:
    """Usage and values of a known metric are empty with 200; a metric that nobody knows is not found."""
    world = serving("v1beta2", **{STAR: items()}) | usage(pod("a", app="web"))
    async with adapter({"m1": world, "m2": serving("v1beta2")}) as (client, _):
        usages = await get(client, f"{LIST}?labelSelector=app%3Dnone")
        values = await get(client, f"{CUSTOM}/v1beta2/{STAR}?labelSelector=app%3Dnone")
        unknown = await get(client, f"{CUSTOM}/v1beta2/namespaces/shop/pods/*/other")

    assert [(answer[0], answer[1].get("items")) for answer in (usages, values)] == [(200, []), (200, [])]
    assert (unknown[0], unknown[1]["reason"]) == (404, "NotFound")


async def test_an_object_without_a_value_is_not_found() -> None:
    """The client of a metric of one object expects exactly one value."""
    one = "namespaces/shop/services/web/hits"
    async with adapter({"m1": serving("v1beta2", **{one: items()})}) as (client, _):
        status, _, _ = await get(client, f"{CUSTOM}/v1beta2/{one}")

    assert status == 404


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_metadata_alone(version: str) -> None:
    """Garbage collectors and informers of metadata request it; each item says its kind."""
    meta = {"apiVersion": f"meta.k8s.io/{version}"}
    async with adapter(WORLD) as (client, _):
        accept = OF_METADATA.format("List", META, version)
        _, whole, _ = await get(client, LIST, Accept=accept)
        _, none, _ = await get(client, f"{LIST}?labelSelector=app%3Dnone", Accept=accept)
        _, one, _ = await get(client, f"{LIST}/a", Accept=OF_METADATA.format("", META, version))
        refused = await get(client, LIST, Accept=OF_METADATA.format("", META, version))

    assert {key: whole[key] for key in ("kind", "apiVersion")} == {
        "kind": "PartialObjectMetadataList",
        **meta,
    }
    assert [item["metadata"]["name"] for item in whole["items"]] == ["a", "b"]
    assert whole["items"][0] == one
    assert set(one) == {"kind", "apiVersion", "metadata"}
    assert (one["kind"], one["metadata"]["labels"]) == ("PartialObjectMetadata", {"app": "web"})
    assert none["items"] == []
    assert refused[0] == 406


@pytest.mark.parametrize("path", [LIST, f"{LIST}/a"])
async def test_a_table_of_the_older_version(path: str) -> None:
    """The Table and the objects of its rows have the version that the client accepts."""
    async with adapter(WORLD) as (client, _):
        _, found, _ = await get(client, path, Accept=f"application/json;as=Table;v=v1beta1;{META}")

    assert (found["kind"], found["apiVersion"]) == ("Table", "meta.k8s.io/v1beta1")
    assert found["rows"][0]["object"]["apiVersion"] == "meta.k8s.io/v1beta1"


@pytest.mark.parametrize("accept", ["application/json", f"application/json;as=Table;v=v1;{META}"])
@pytest.mark.parametrize("selector", ["", "?fieldSelector=metadata.name!=x"])
async def test_large_answers_are_compressed_for_clients_that_accept_it(
    monkeypatch: pytest.MonkeyPatch, accept: str, selector: str
) -> None:
    """Both forms of a body that is kept for all clients, and of one that is not, are the same document."""
    monkeypatch.setattr(resource_metrics, "GZIP_BYTES", 1)
    async with adapter(WORLD, max_age=60.0) as (client, _):
        client._session._auto_decompress = False
        found = [
            await raw(client, LIST + selector, Accept=accept, **headers)
            for headers in ({}, {"Accept-Encoding": "deflate, gzip"}, {"Accept-Encoding": "gzip;q=1"}) * 2
        ]

    assert ["Content-Encoding" in headers for _, headers, _ in found] == [False, True, False] * 2
    assert found[1][1]["Vary"] == "Accept-Encoding"
    plain, packed = found[0][2], found[1][2]
    assert gzip.decompress(packed) == plain
    assert json.loads(plain)["kind"] in ("PodMetricsList", "Table")
    assert [body for _, _, body in found] == [plain, packed, plain] * 2


async def test_a_slash_at_the_end_changes_nothing() -> None:
    """Kubernetes' servers ignore it."""
    depth = {"kind": "ExternalMetricValueList", "items": []}
    world = (
        serving("v1beta2", **{STAR: items(value("a", "1"))})
        | usage(pod("a"))
        | {f"{EXTERNAL}/namespaces/shop/depth": depth}
    )
    async with adapter({"m1": world}) as (client, _):
        for path in (LIST, f"{LIST}/a", f"{CUSTOM}/v1beta2/{STAR}", f"{EXTERNAL}/namespaces/shop/depth"):
            with_slash = await get(client, f"{path}/")

            assert with_slash == await get(client, path)
            assert with_slash[0] == 200


PARAMETERS = [
    ("watch=yes", 405, "watch is not supported"),
    ("watch=", 405, "watch is not supported"),
    ("watch=False", 200, ""),
    ("watch=0", 200, ""),
    ("limit=x", 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
    ("limit=500", 200, ""),
    ("timeoutSeconds=1.5", 400, 'strconv.ParseInt: parsing "1.5": invalid syntax'),
    ("timeout=1x", 400, "invalid timeout specified in the request URL"),
    ("timeout=32s", 200, ""),
    ("resourceVersionMatch=Exact", 422, "is forbidden unless resourceVersion is provided"),
    ("resourceVersionMatch=Exact&resourceVersion=0", 422, 'is forbidden for resourceVersion "0"'),
    ("resourceVersionMatch=Odd&resourceVersion=1", 422, 'Unsupported value: "Odd"'),
    ("resourceVersionMatch=NotOlderThan&resourceVersion=0", 200, ""),
    ("sendInitialEvents=true", 422, "sendInitialEvents is forbidden for list"),
]


async def test_parameters_of_a_list_are_checked() -> None:
    """A parameter that cannot be used is refused, and a member receives no request."""
    async with adapter(WORLD) as (client, members):
        for query, status, message in PARAMETERS:
            members["m1"].seen.clear()
            found, body, _ = await get(client, f"{LIST}?{query}")

            assert found == status, query
            assert message in body.get("message", "")
            assert bool(members["m1"].seen) == (status == 200)


async def test_an_object_that_is_not_found_has_the_resource_of_metrics_server() -> None:
    """metrics-server passes on the words of its listers."""
    empty = {"kind": "NodeMetricsList", "items": []}
    async with adapter({"m1": {**usage(), f"{API}/nodes": empty}}) as (client, _):
        _, pod_body, _ = await get(client, f"{LIST}/gone")
        _, node_body, _ = await get(client, f"{API}/nodes/gone")

    assert pod_body["details"] == {"name": "gone", "kind": "pods"}
    assert node_body["details"] == {"name": "gone", "kind": "node"}
    assert node_body["message"] == 'node "gone" not found'


async def test_a_refused_list_option_is_an_invalid_object() -> None:
    """Clients read the causes of an Invalid status."""
    async with adapter(WORLD) as (client, _):
        _, body, _ = await get(client, f"{LIST}?resourceVersionMatch=Odd")

    assert (body["reason"], body["details"]["kind"]) == ("Invalid", "ListOptions")
    assert [cause["reason"] for cause in body["details"]["causes"]] == [
        "FieldValueForbidden",
        "FieldValueNotSupported",
    ]


async def test_nothing_is_cached_but_what_has_a_hash() -> None:
    """Answers and refusals must not be cached. An OpenAPI document of a hash, and discovery, may."""
    async with adapter(WORLD) as (client, _):
        unsafe = [await raw(client, path) for path in (LIST, "/nowhere", API, "/openapi/v3")]
        index = json.loads(unsafe[-1][2])
        url = index["paths"]["apis/metrics.k8s.io/v1beta1"]["serverRelativeURL"]
        _, schema, _ = await raw(client, url)
        _, other, _ = await raw(client, url.replace("hash=", "hash=0"))

    assert {headers["Cache-Control"] for _, headers, _ in unsafe} == {"no-cache, private"}
    assert schema["Cache-Control"].startswith("public, immutable")
    assert other["Cache-Control"] == "no-cache, private"
    assert url.endswith(f"?hash={schema['ETag'].strip(chr(34))}")


async def test_an_unchanged_document_is_not_sent_again() -> None:
    """The hub and kubectl send the ETag that they have."""
    async with adapter(WORLD) as (client, _):
        for path, accept in (
            ("/openapi/v2", "application/json"),
            ("/openapi/v3", "application/json"),
            ("/openapi/v3/apis/metrics.k8s.io/v1beta1", "application/json"),
            ("/apis", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"),
        ):
            first = await raw(client, path, Accept=accept)
            again = await raw(client, path, Accept=accept, **{"If-None-Match": first[1]["ETag"]})
            changed = await raw(client, path, Accept=accept, **{"If-None-Match": '"other"'})

            assert (first[0], again[0], changed[0]) == (200, 304, 200), path
            assert (again[2], changed[2]) == (b"", first[2])
