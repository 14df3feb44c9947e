"""Token and access reviews: the requests to the hub, the caching of answers, and the responses to callers."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest import mock

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict, CIMultiDictProxy
from structlog.testing import capture_logs

from fedhpa.api.errors import ApiError
from fedhpa.kube import SYSTEM
from fedhpa.kube.client import ApiClient
from fedhpa.kube.config import ApiConfig
from fedhpa.kube.responses import Response
from fedhpa.serving.authentication import Authenticator, PeerAuthenticator, TokenReviewer, Trust, User
from fedhpa.serving.authorization import Attributes, Authorizer, Guard

PODS = "/apis/metrics.k8s.io/v1beta1/namespaces/ns/pods"


class Hub(ApiClient):
    """A hub that answers reviews from a list of statuses and records the requests."""

    def __init__(self, *statuses: dict[str, Any] | ApiError) -> None:
        super().__init__(ApiConfig(server="http://hub"))
        self.statuses = list(statuses)
        self.asked: list[dict[str, Any]] = []

    async def post(self, path: str, body: Any, **_: Any) -> Response:
        self.asked.append({"path": path, **body})
        await asyncio.sleep(0)
        status = self.statuses.pop(0)
        if isinstance(status, ApiError):
            raise status
        headers: CIMultiDictProxy[str] = CIMultiDictProxy(CIMultiDict())
        return Response(201, headers, msgspec.json.encode({"status": status}))


def guard(hub: Hub) -> Guard:
    peers = PeerAuthenticator(Trust(), SYSTEM.wall)
    return Guard(
        Authenticator(lambda: peers, TokenReviewer(hub, clock=SYSTEM.monotonic)),
        Authorizer(hub, clock=SYSTEM.monotonic),
        ("/healthz", "/public/*"),
        clock=SYSTEM.monotonic,
    )


def requested(method: str, path: str, headers: dict[str, str]) -> web.Request:
    """A request over plain HTTP, without a peer certificate."""
    transport = mock.create_autospec(asyncio.Transport, instance=True)
    transport.get_extra_info.return_value = None
    return make_mocked_request(method, path, headers, transport=transport)


async def call(guard: Guard, path: str, token: str = "", method: str = "GET") -> tuple[int, Any]:
    """Returns status and body of a request behind the guard."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = requested(method, path, headers)

    async def served(_: web.Request) -> web.StreamResponse:
        return web.Response(body=b"{}")

    response = await guard.middleware(request, served)
    assert isinstance(response, web.Response)
    assert isinstance(response.body, bytes)
    return response.status, msgspec.json.decode(response.body)


JANE = {"authenticated": True, "user": {"username": "jane", "groups": ["dev"], "extra": {"scopes": ["a"]}}}


async def test_a_token_is_reviewed_and_its_user_checked() -> None:
    """Both reviews have the fields that the hub needs to decide."""
    hub = Hub(JANE, {"allowed": True})

    status, _ = await call(guard(hub), PODS, "secret")

    assert status == 200
    assert hub.asked[0]["spec"] == {"token": "secret"}
    assert hub.asked[1]["path"] == "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    assert hub.asked[1]["spec"] == {
        "user": "jane",
        "groups": ("dev", "system:authenticated"),
        "extra": {"scopes": ("a",)},
        "resourceAttributes": {
            "namespace": "ns",
            "verb": "list",
            "group": "metrics.k8s.io",
            "version": "v1beta1",
            "resource": "pods",
        },
    }


@pytest.mark.parametrize("statuses", [({"authenticated": False},), (ApiError("away", status=0),), ()])
async def test_an_unauthenticated_request_is_refused(statuses: tuple[Any, ...]) -> None:
    """An unknown token, a hub that fails and a request without credentials get Kubernetes' 401."""
    status, body = await call(guard(Hub(*statuses)), PODS, "secret" if statuses else "")

    assert status == 401
    assert body == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "Unauthorized",
        "reason": "Unauthorized",
        "code": 401,
    }


NODES = "/apis/metrics.k8s.io/v1beta1/nodes"
IN_NAMESPACE = 'in API group "metrics.k8s.io" in the namespace "ns"'
IN_CLUSTER = 'in API group "metrics.k8s.io" at the cluster scope'


@pytest.mark.parametrize(
    ("method", "path", "subject", "action"),
    [
        ("GET", PODS, "pods.metrics.k8s.io is ", f'list resource "pods" {IN_NAMESPACE}'),
        ("GET", f"{PODS}/web", 'pods.metrics.k8s.io "web" is ', f'get resource "pods" {IN_NAMESPACE}'),
        ("GET", f"{PODS}?watch=true", "pods.metrics.k8s.io is ", f'watch resource "pods" {IN_NAMESPACE}'),
        ("DELETE", f"{PODS}/web", 'pods.metrics.k8s.io "web" is ', f'delete resource "pods" {IN_NAMESPACE}'),
        ("GET", NODES, "nodes.metrics.k8s.io is ", f'list resource "nodes" {IN_CLUSTER}'),
        ("GET", "/metrics", "", 'get path "/metrics"'),
    ],
)
async def test_a_forbidden_request_gets_the_reason(method: str, path: str, subject: str, action: str) -> None:
    """The 403 has the same words as Kubernetes' own."""
    status, body = await call(guard(Hub(JANE, {"allowed": False})), path, "secret", method)

    assert status == 403
    assert body["message"] == f'{subject}forbidden: User "jane" cannot {action}'
    assert body["reason"] == "Forbidden"


async def test_the_hubs_reason_is_passed_on() -> None:
    """The authorizer's reason is appended; denied overrides allowed."""
    hub = Hub(JANE, {"allowed": True, "denied": True, "reason": "not on Sundays"})

    _, body = await call(guard(hub), "/metrics", "secret")

    assert body["message"] == 'forbidden: User "jane" cannot get path "/metrics": not on Sundays'


async def test_a_failed_review_denies_access() -> None:
    """The error is not cached: the next request makes another review."""
    hub = Hub(JANE, ApiError("hub away", status=0), {"allowed": True})
    shared = guard(hub)

    assert (await call(shared, PODS, "secret"))[0] == 500
    assert (await call(shared, PODS, "secret"))[0] == 200


async def test_failed_access_reviews_are_logged_once() -> None:
    """The log has the hub's reason, and a line when reviews succeed again."""
    away = ApiError("no right to create subjectaccessreviews", status=403)
    shared = guard(Hub(JANE, away, away, {"allowed": True}))
    with capture_logs() as logs:
        for _ in range(3):
            await call(shared, PODS, "secret")

    assert [(line["event"], line.get("error")) for line in logs] == [
        ("access cannot be reviewed", "no right to create subjectaccessreviews"),
        ("access is reviewed again", None),
    ]


@pytest.mark.parametrize("path", ["/healthz", "/healthz/", "/public/anything"])
async def test_open_paths_need_no_credentials(path: str) -> None:
    """Probes carry no credentials."""
    hub = Hub()

    assert (await call(guard(hub), path))[0] == 200
    assert hub.asked == []


async def test_attributes_follow_kubernetes_rules_for_paths() -> None:
    """Subresources and encoded names are parsed; discovery has no resource."""
    scale = Attributes.of(make_mocked_request("PATCH", "/apis/apps/v1/namespaces/a/deployments/b%2Fc/scale"))

    assert (scale.verb, scale.group, scale.resource, scale.subresource) == (
        "patch",
        "apps",
        "deployments",
        "scale",
    )
    assert (scale.namespace, scale.name) == ("a", "b/c")
    assert Attributes.of(make_mocked_request("GET", "/apis/metrics.k8s.io/v1beta1")).resource == ""


@pytest.mark.looptime
async def test_verdicts_have_their_lifetimes() -> None:
    """A permission and a refusal have lifetimes of their own."""
    clock = asyncio.get_running_loop().time
    hub = Hub(*[{"allowed": True}, {"allowed": False}] * 2)
    authorizer = Authorizer(hub, allowed_seconds=10.0, denied_seconds=5.0, clock=clock)
    jane, joe, pods = User("jane"), User("joe"), Attributes("list", PODS)
    reviews = []
    for _ in range(3):
        await authorizer.verdict(jane, pods)
        await authorizer.verdict(joe, pods)
        reviews.append(len(hub.asked))
        await asyncio.sleep(4.0)

    assert reviews == [2, 2, 3]
    assert hub.asked[-1]["spec"]["user"] == "joe"


async def test_concurrent_requests_share_a_review() -> None:
    """Ten callers with the same token are one token review and one access review."""
    hub = Hub(JANE, {"allowed": True})
    shared = guard(hub)

    answers = await asyncio.gather(*(call(shared, PODS, "secret") for _ in range(10)))

    assert [status for status, _ in answers] == [200] * 10
    assert len(hub.asked) == 2


def test_a_user_is_in_the_authenticated_group_once() -> None:
    """The group is added only if it is missing."""
    assert User("a").authenticated().authenticated().groups == ("system:authenticated",)
