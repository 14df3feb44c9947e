"""Each API of the adapter serves the requested form, and refuses other forms with a Status."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
import yaml

from tests.support.adapter.application import CUSTOM, EXTERNAL, NOON, Client, adapter, items, serving, value

PODS = "/apis/metrics.k8s.io/v1beta1/pods"
HITS = f"{CUSTOM}/v1beta2/namespaces/shop/services/web/hits"
DEPTH = f"{EXTERNAL}/namespaces/shop/depth"
KINDS = {PODS: "PodMetricsList", HITS: "MetricValueList", DEPTH: "ExternalMetricValueList"}
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
# The Accept header of kubectl get.
KUBECTL = f"{TABLE},application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
PROTOBUF = "application/vnd.kubernetes.protobuf"
FORMS = {
    "": "json",
    "*/*": "json",
    "application/*": "json",
    "application/json; charset=utf-8": "json",
    "application/yaml": "yaml",
    "application/json;q=0.5, application/yaml": "yaml",
    "application/yaml;q=0.2,application/json;q=0.1": "yaml",
    "application/yaml;q=0.1,application/json;q=0.2": "json",
    "application/json;q=0,application/yaml;q=0.1": "yaml",
    f"{PROTOBUF},application/json": "json",
    f"{PROTOBUF},application/yaml": "yaml",
    "application/cbor,application/json": "json",
    KUBECTL: "table",
    TABLE: "table",
    f"{TABLE};q=0.1,application/json": "json",
    "application/json;as=Table;v=v2;g=meta.k8s.io,application/json": "json",
}
REFUSED = (
    "text/html",
    "text/*",
    "nonsense",
    PROTOBUF,
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/json;as=Table;v=v2;g=meta.k8s.io",
    "application/json;as=Table;v=v1;g=example.com",
)
DISCOVERY = (
    "/apis",
    "/apis/metrics.k8s.io",
    "/apis/custom.metrics.k8s.io",
    "/apis/custom.metrics.k8s.io/v1beta1",
    "/apis/external.metrics.k8s.io/v1beta1",
)


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """Starts a client of an adapter over one member with one object of each kind."""
    usage = {"name": "web", "usage": {"cpu": "1m", "memory": "1Ki"}}
    pod = {"metadata": {"name": "web", "namespace": "shop"}, "timestamp": NOON, "window": "10s"}
    world: dict[str, Any] = {
        **serving("v1beta2"),
        PODS: {"kind": "PodMetricsList", "metadata": {}, "items": [{**pod, "containers": [usage]}]},
        HITS: items(value("web", "3", kind="Service")),
        DEPTH: {"items": [{"metricName": "depth", "metricLabels": {}, "timestamp": NOON, "value": "4"}]},
    }
    async with adapter({"m1": world}) as (made, _):
        yield made


@pytest.mark.parametrize("path", KINDS)
async def test_the_form_most_wanted_is_given(client: Client, path: str) -> None:
    """Forms are JSON, YAML and Table.

    Values have no Table form, so the client gets the list, as from Karmada.
    """
    for accept, form in FORMS.items():
        response = await client.get(path, headers={"Accept": accept})
        text = await response.text()
        kind = "Table" if form == "table" and path == PODS else KINDS[path]
        content_type = "application/yaml" if form == "yaml" else "application/json"

        assert (response.status, response.content_type) == (200, content_type), accept
        assert (yaml.safe_load(text) if form == "yaml" else json.loads(text))["kind"] == kind


async def test_a_large_list_as_yaml_holds_nobody_up() -> None:
    """Ten thousand items, which would take ten seconds as YAML, are JSON in one line, which is valid YAML."""
    world = {**serving("v1beta2"), HITS: items(*(labelled(number) for number in range(10_000)))}
    async with adapter({"m1": world}) as (client, _):
        began = time.process_time()
        response = await client.get(HITS, headers={"Accept": "application/yaml"})
        text = await response.text()
        seconds = time.process_time() - began
        head, _, rest = text.partition('"items":[')
        first, _, _ = rest.partition(',{"describedObject"')

    assert (response.status, response.content_type) == (200, "application/yaml")
    assert yaml.safe_load(head + '"items":[' + first + "]}") == {
        "kind": "MetricValueList",
        "apiVersion": "custom.metrics.k8s.io/v1beta2",
        "metadata": {},
        "items": [{**labelled(0)}],
    }
    assert "\n" not in text
    assert seconds < 5


def labelled(number: int) -> dict[str, Any]:
    """Returns a value of the Service with labels of its own."""
    return value("web", "3", kind="Service", labels={"n": f"{number:05}"})


@pytest.mark.parametrize("path", KINDS)
async def test_a_form_that_cannot_be_given_is_refused(client: Client, path: str) -> None:
    """The 406 has a Status that names the supported forms."""
    for accept in REFUSED:
        response = await client.get(path, headers={"Accept": accept})
        body = await response.json()

        assert (response.status, body["kind"], body["reason"]) == (406, "Status", "NotAcceptable"), accept
        assert "application/yaml" in body["message"]


@pytest.mark.parametrize("path", [*KINDS, *DISCOVERY, "/openapi/v2", "/openapi/v3", "/version"])
async def test_only_reading_is_allowed(client: Client, path: str) -> None:
    """HEAD is GET without a body. Other methods are 405, whatever the request has."""
    head = await client.head(path)
    plain = await client.get(path)
    others = {
        method: await client.request(method, path, data=b"{}" if method != "OPTIONS" else None)
        for method in ("OPTIONS", "POST", "PUT", "PATCH", "DELETE")
    }
    bodies = {method: await response.json() for method, response in others.items()}

    assert (head.status, await head.read()) == (200, b"")
    assert head.headers["Content-Type"] == plain.headers["Content-Type"]
    assert {method: response.status for method, response in others.items()} == dict.fromkeys(others, 405)
    assert {body["kind"] + body["reason"] for body in bodies.values()} == {"StatusMethodNotAllowed"}


@pytest.mark.parametrize("path", KINDS)
async def test_what_means_nothing_here_is_ignored(client: Client, path: str) -> None:
    """Lists have no pages and no versions, so they are always whole."""
    for query in ("limit=1", "continue=abc", "resourceVersion=5", "timeout=1s", "pretty=1", "other=x"):
        response = await client.get(f"{path}?{query}")
        body = await response.json()

        assert (response.status, len(body["items"])) == (200, 1), query
        assert body["metadata"] == {}


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_what_is_not_served_is_not_found(client: Client, method: str) -> None:
    """Unknown groups, versions and resources are 404 with a Status, for every method."""
    for path in (
        "/api/v1/pods",
        "/apis/example.com",
        "/apis/example.com/v1",
        "/apis/metrics.k8s.io/v1",
        "/apis/metrics.k8s.io/v1/pods",
        "/apis/metrics.k8s.io/v1beta1/services",
        "/apis/metrics.k8s.io/v1beta1/namespaces/shop/nodes",
        "/apis/custom.metrics.k8s.io/v1beta3/namespaces/shop/services/web/hits",
        "/apis/external.metrics.k8s.io/v1beta2/namespaces/shop/depth",
        "/openapi/v3/apis/example.com/v1",
    ):
        response = await client.request(method, path)
        body = await response.json()

        assert (response.status, body["kind"], body["reason"]) == (404, "Status", "NotFound"), path


@pytest.mark.parametrize("path", DISCOVERY)
async def test_discovery_is_given_as_yaml_and_below_a_slash_too(client: Client, path: str) -> None:
    """Kubernetes' servers do the same. A client that accepts neither JSON nor YAML gets JSON."""
    plain = await (await client.get(path)).json()
    slashed = await (await client.get(f"{path}/")).json()
    text = await client.get(path, headers={"Accept": "application/yaml"})
    other = await client.get(path, headers={"Accept": PROTOBUF})

    assert slashed == plain
    assert (text.content_type, yaml.safe_load(await text.text())) == ("application/yaml", plain)
    assert (other.content_type, await other.json()) == ("application/json", plain)
