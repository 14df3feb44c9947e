"""The responses of Karmada's adapter, request by request, with a list of the differences."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from fedhpa.kube import SYSTEM
from fedhpa.kube.client import ApiClient
from fedhpa.kube.config import ApiConfig
from fedhpa.kube.transport import tcp_connector
from fedhpa.members.cluster import Access, Cluster, ClusterMeta
from fedhpa.members.lists import SharedLists
from fedhpa.members.member import Member
from fedhpa.serving.authentication import Authenticator, PeerAuthenticator, Trust
from fedhpa.serving.authorization import Authorizer, Guard
from fedhpa.serving.health import Health
from metrics_adapter.adapter_series import Telemetry
from metrics_adapter.members.discovery_cache import MetricDiscoveryCache
from metrics_adapter.members.source import MembersSource
from metrics_adapter.server.application import build_application
from tests.support.fakeapi import FakeApi

DATA = Path(__file__).parent / "data" / "karmada_metrics_adapter.json"
WORLDS = {world["world"]: world for world in json.loads(DATA.read_text())["worlds"]}
CASES = [
    pytest.param(world["world"], case, id=f"{world['world']}: {case['name']}")
    for world in WORLDS.values()
    for case in world["requests"]
]
PODS = "/apis/metrics.k8s.io/v1beta1/namespaces/ns1/pods"

NO_API = "it does not serve metrics.k8s.io/v1beta1 (HTTP 404)"
NOBODY = (
    f"no member cluster answered: m1: {NO_API}; m2: {NO_API};"
    " m3: metrics.k8s.io/v1beta1: recorded (HTTP 500);"
    f" m4: {NO_API}; m5: its credentials are not known"
)
NO_EXTERNAL = "the server could not find the external metric queue_depth"
TWO = "found in more than one cluster: m1, m2; choose one with ?cluster=NAME"
# Deliberate differences (docs/explanation/differences.md) by case: what this adapter answers instead.
STATUS_INSTEAD = {
    "get pod in two clusters": (409, f'Operation cannot be fulfilled on pods.metrics.k8s.io "web-b": {TWO}'),
    "get node in two clusters": (
        409,
        f'Operation cannot be fulfilled on nodes.metrics.k8s.io "shared": {TWO}',
    ),
    # Three members did not answer, so it is unknown whether the pod exists.
    "get pod unknown": (404, 'podmetrics.metrics.k8s.io "ns1/nope" not found'),
    "get node unknown": (404, 'nodemetrics.metrics.k8s.io "nope" not found'),
    # As metrics-server.
    "none: get node": (404, 'node "a" not found'),
    # The recorded members do not know this path, and a 404 for a list means that there is no metrics API.
    "list pods empty namespace": (503, NOBODY),
    "discovery /api": (404, "the server could not find the requested resource"),
    # Karmada's is a stub. This adapter queries the members, and none in this world knows the metric.
    "external metric": (404, NO_EXTERNAL),
    "external metric with selector": (404, NO_EXTERNAL),
    # As every path that is not served.
    "namespace metric root path by name": (404, "the server could not find the requested resource"),
    "short path": (404, "the server could not find the requested resource"),
    "bad metric label selector": (400, "unable to parse requirement: found '=', expected: identifier"),
}
# Values of pods stay per cluster, and other labels make another series.
EVERY_POD = ["web-a 500m", "web-b 2", "web-b 250m", "web-c 1500m"]
SERIES = ["svc 10", "svc 2500m"]
VALUES_INSTEAD = {
    "pods wildcard v1beta2": EVERY_POD,
    "pods wildcard v1beta1": EVERY_POD,
    "pods wildcard encoded star": EVERY_POD,
    "pods wildcard label selectors": EVERY_POD,
    "pods wildcard v1beta1 label selectors": EVERY_POD,
    "watch param": EVERY_POD,
    "pod by name in two clusters: values are added": ["web-b 2", "web-b 250m"],
    "pod by name with metric selector": ["web-b 2", "web-b 250m"],
    "object service: sum, metadata of the first to arrive": SERIES,
    "object service v1beta1": SERIES,
}
ALL_NODES = ["m1//n1", "m1//shared", "m2//n2", "m2//shared"]
NAMES_INSTEAD = {
    "field selector metadata.name hit: filter is NOT applied to the answer": ["m1/ns1/web-a"],
    "field selector metadata.namespace": ["m1/ns2/db-0"],
    "list nodes fieldSelector": ["m1//n1"],
    # Their NodeMetrics have no labels, so the members select, and the recorded ones ignore the query.
    "list nodes label": ALL_NODES,
    "list nodes none": ALL_NODES,
}
# Karmada lists groups that it serves as stubs, and paths of Go's generic server.
OTHER_DOCUMENTS = {
    "discovery legacy /apis",
    "root",
    # This adapter lists all groups with all versions.
    "discovery aggregated",
    "discovery group",
}
# Names are sorted and without duplicates. This world has no external metrics.
METRICS_INSTEAD = [
    "jobs.batch/promhttp_metric_handler_requests",
    "namespaces/ns_metric",
    "nodes/node_metric",
    "pods/http_requests",
    "pods/only_m1",
]


class RecordedMember(FakeApi):
    """A member that gives the recorded answers, whatever the query."""

    def __init__(self, responses: Mapping[str, Any]) -> None:
        super().__init__(tls=False)
        self._responses = responses

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        answer = self._responses.get(request.path, self._responses.get("*", 404))
        for group in self._responses.get("/apis", {}).get("groups", ()):
            # Karmada's adapter reads the list of groups. Every server also has a document for each group.
            if request.path == f"/apis/{group['name']}":
                answer = {"kind": "APIGroup", "apiVersion": "v1", **group}
        if isinstance(answer, int):
            body = {"kind": "Status", "status": "Failure", "code": answer, "message": "recorded"}
            reason = "NotFound" if answer == 404 else "InternalError"
            return web.json_response({**body, "reason": reason}, status=answer)
        return web.json_response(answer)


@asynccontextmanager
async def adapter(world: Mapping[str, Any]) -> AsyncIterator[TestClient[web.Request, web.Application]]:
    """Returns the adapter's application over the members of a world, without authentication."""

    async def nothing() -> None:
        """There is no Secret to read again."""

    async with AsyncExitStack() as stack:
        members = {}
        for recorded in world["memberClusters"]:
            api = RecordedMember(recorded["responses"])
            await api.start()
            stack.push_async_callback(api.stop)
            member = Member(
                Cluster(metadata=ClusterMeta(name=recorded["name"])),
                reread=nothing,
                connector=tcp_connector,
                clock=SYSTEM.monotonic,
                wall=SYSTEM.wall,
            )
            ready = recorded["hasDiscoveryClient"]
            way = Access(api.url, "token", None, None, ()) if ready else "its credentials are not known"
            await member.observe(member.cluster, way)
            stack.push_async_callback(member.client.close)
            members[recorded["name"]] = member
        lists = await stack.enter_async_context(SharedLists(clock=SYSTEM.monotonic))
        source = MembersSource(lambda: members, lists, max_age=0.0, clock=SYSTEM.monotonic)
        peers = PeerAuthenticator(Trust(), SYSTEM.wall)
        nobody = ApiClient(ApiConfig(server="http://hub.invalid"))
        guard = Guard(
            Authenticator(lambda: peers),
            Authorizer(nobody, clock=SYSTEM.monotonic),
            ["*"],
            clock=SYSTEM.monotonic,
        )
        catalogue = MetricDiscoveryCache(source, clock=SYSTEM.monotonic)
        await catalogue.refresh()
        application = build_application(
            source, guard, Health(), Telemetry(lambda: members), discovery_cache=catalogue
        )
        yield await stack.enter_async_context(TestClient(TestServer(application)))


@pytest.mark.parametrize(("world", "case"), CASES)
async def test_a_recorded_request_is_answered_alike(world: str, case: Mapping[str, Any]) -> None:
    """Status, content type and body are Karmada's, except for the listed differences."""
    name, expected = case["name"], case["expect"]
    headers = {"Accept": case["accept"]} if "accept" in case else {}
    async with adapter(WORLDS[world]) as client:
        response = await client.request(case["method"], case["path"], headers=headers)
        text = await response.text()
    body = yaml.safe_load(text)

    if instead := STATUS_INSTEAD.get(name) or STATUS_INSTEAD.get(f"{world}: {name}"):
        assert (response.status, body["message"]) == instead
        assert body["kind"] == "Status"
    elif name in NAMES_INSTEAD:
        assert [identity(item) for item in body["items"]] == NAMES_INSTEAD[name]
    elif name in ("discovery v1beta1", "discovery v1beta2"):
        assert [resource["name"] for resource in body["resources"]] == METRICS_INSTEAD
    elif name in VALUES_INSTEAD:
        assert [f"{item['describedObject']['name']} {item['value']}" for item in body["items"]] == (
            VALUES_INSTEAD[name]
        )
    else:
        assert response.status == expected["status"]
        assert response.headers["Content-Type"].split("; charset")[0] == expected["contentType"]
        if name not in OTHER_DOCUMENTS:
            recorded = recorded_body(expected["body"])
            assert in_order(without_empties(body)) == in_order(without_empties(recorded))


@pytest.mark.parametrize(
    "listed", sorted({*STATUS_INSTEAD, *NAMES_INSTEAD, *VALUES_INSTEAD, *OTHER_DOCUMENTS})
)
def test_listed_differences_exist(listed: str) -> None:
    """A difference without a case would be a typing error."""
    cases = [(name, case["name"]) for name, world in WORLDS.items() for case in world["requests"]]
    assert listed in {name for _, name in cases} | {f"{world}: {name}" for world, name in cases}


async def test_members_that_did_not_answer_are_named() -> None:
    """Karmada leaves them out silently."""
    async with adapter(WORLDS["resource"]) as client:
        response = await client.get(PODS)

    named = [warning.split('"')[1].split(" ")[0] for warning in response.headers.getall("Warning")]
    assert named == ["m3", "m4", "m5"]


def recorded_body(body: Any) -> Any:
    return yaml.safe_load(body) if isinstance(body, str) else body


def in_order(body: Any) -> Any:
    """Sorts items and rows. Karmada lists them by namespace and name, and this adapter by cluster."""
    for rows in ("items", "rows"):
        if isinstance(body, dict) and body.get(rows):
            body = {**body, rows: sorted(body[rows], key=lambda row: json.dumps(row, sort_keys=True))}
    return body


def without_empties(value: Any) -> Any:
    """Removes empty objects. Go's encoder omits them, this adapter passes them on, and they mean the same."""
    if isinstance(value, dict):
        return {key: without_empties(inner) for key, inner in value.items() if inner != {}}
    if isinstance(value, list):
        return [without_empties(inner) for inner in value]
    return value


def identity(item: Mapping[str, Any]) -> str:
    metadata = item["metadata"]
    cluster = metadata["annotations"]["resource.karmada.io/query-from-cluster"]
    return "/".join((cluster, metadata.get("namespace", ""), metadata["name"]))
