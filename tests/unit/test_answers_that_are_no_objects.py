"""An answer that is not the object that was asked for is an error: it never becomes a number or a yes."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from controller.hub_check import CRD_PATH
from fedhpa.api.autoscalers import Target
from fedhpa.api.errors import ApiError
from fedhpa.api.json import check_object
from fedhpa.api.wire import ObjectMeta, Scale, ScaleSpec, WithMetadata
from fedhpa.kube import SYSTEM
from fedhpa.kube.client import ApiClient
from fedhpa.kube.config import ApiConfig
from fedhpa.kube.leases import LeaderElector
from fedhpa.kube.resources import ResourceMapper, get_scale, patch_status, put_scale, update_with_retry
from fedhpa.kube.responses import Response
from fedhpa.members.cluster import Secret
from fedhpa.serving.authentication import TokenReviewer, User
from fedhpa.serving.authorization import Attributes, Authorizer, review_problem
from webhook.targets import Targets, _NotLookedUpError

WEB = "/apis/apps/v1/namespaces/shop/deployments/web"
SCALE = Scale(ObjectMeta(name="web", namespace="shop", resourceVersion="1"), ScaleSpec(3))
# Answers with status 200 of a proxy, of an emptied store and of a hostile member.
EMPTIED: list[Any] = [{}, {"status": "ok"}, {"kind": "Status", "apiVersion": "v1", "status": "Success"}, []]


class Answering(ApiClient):
    """A server that gives the same answer to every request."""

    def __init__(self, answer: Any) -> None:
        super().__init__(ApiConfig(server="http://memory"))
        self.answer = answer

    async def request(self, method: str, path: str, **_: object) -> Response:
        del method, path
        return Response(200, CIMultiDictProxy(CIMultiDict()), json.dumps(self.answer).encode())


async def write_lease(client: ApiClient) -> object:
    elector = LeaderElector(
        client,
        "kube-system",
        "fedhpa",
        "one",
        on_change=lambda _: None,
        clock=SYSTEM.monotonic,
        wall=SYSTEM.wall,
    )
    return await elector._write({"metadata": {"resourceVersion": "1"}, "spec": {}}, 0.0)


READS: dict[str, Callable[[ApiClient], Awaitable[object]]] = {
    "scale of a member or template": lambda client: get_scale(client, WEB),
    "scale that was written": lambda client: put_scale(client, WEB, SCALE, 5),
    "labels of a template": lambda client: client.get(WEB, WithMetadata, kind="Deployment"),
    "object before a write": lambda client: update_with_retry(client, WEB, lambda current: current),
    "status that was written": lambda client: patch_status(client, WEB, {"replicas": 3}),
    "secret of a member": lambda client: client.get("/api/v1/namespaces/karmada-cluster/secrets/a", Secret),
    "CRD": lambda client: client.get_json(CRD_PATH),
    "APIService": lambda client: client.get_json(
        "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.metrics.k8s.io"
    ),
    "lease": lambda client: client.get_json("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/a"),
    "lease that was written": write_lease,
    "discovery": lambda client: ResourceMapper(client, clock=SYSTEM.monotonic).resolve(
        "apps/v1", "Deployment"
    ),
    "token review": lambda client: TokenReviewer(client, clock=SYSTEM.monotonic).user("token"),
    "access review": lambda client: Authorizer(client, clock=SYSTEM.monotonic).verdict(
        User("jane"), Attributes("get", "/metrics")
    ),
}


@pytest.mark.parametrize("read", READS.values(), ids=list(READS))
@pytest.mark.parametrize("answer", EMPTIED, ids=json.dumps)
async def test_an_emptied_answer_is_an_error(
    read: Callable[[ApiClient], Awaitable[object]], answer: Any
) -> None:
    """No replicas, no holder, no user and no permission are read from it."""
    with pytest.raises(ApiError, match="answer cannot be read"):
        await read(Answering(answer))


@pytest.mark.parametrize("answer", EMPTIED, ids=json.dumps)
async def test_emptied_reviews_clear_readiness(answer: Any) -> None:
    """A hub that reviews nothing would have every caller refused."""
    client = Answering(answer)

    assert "answer cannot be read" in (await review_problem(client, client) or "")


async def test_an_allowed_review_of_another_kind_allows_nothing() -> None:
    """Only a SubjectAccessReview says yes."""
    answer = {"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1"}
    client = Answering({**answer, "status": {"allowed": True}})
    with pytest.raises(ApiError):
        await Authorizer(client, clock=SYSTEM.monotonic).verdict(User("jane"), Attributes("get", "/metrics"))


async def test_an_emptied_target_is_not_found_fit() -> None:
    """The webhook says nothing of a target whose scale it could not read."""
    targets = Targets(Answering({}), clock=SYSTEM.monotonic)
    with pytest.raises(_NotLookedUpError):
        await targets._call(Target("shop", "apps", "Deployment", "web"), "apps/v1")


@pytest.mark.parametrize(
    ("path", "kind", "version"),
    [
        ("/api/v1/namespaces/shop/secrets/a", "Secret", "v1"),
        ("/api/v1/namespaces/shop", "Namespace", "v1"),
        ("/api/v1/namespaces/shop/status", "Namespace", "v1"),
        ("/api/v1/nodes/a", "Node", "v1"),
        ("/apis/apps/v1/namespaces/shop/deployments/web/status", "Deployment", "apps/v1"),
        ("/apis/apps/v1/namespaces/shop/deployments/web/scale", "Scale", "autoscaling/v1"),
        ("/apis/cluster.karmada.io/v1alpha1/clusters/m1/status", "Cluster", "cluster.karmada.io/v1alpha1"),
        ("/apis/policy.karmada.io/v1alpha1/policies/a", "Policy", "policy.karmada.io/v1alpha1"),
        ("/apis/apps/v1", "APIResourceList", "v1"),
        ("/api/v1", "APIResourceList", ""),
        ("/apis/apps", "APIGroup", "v1"),
        ("/version", "", ""),
    ],
)
def test_objects_of_paths(path: str, kind: str, version: str) -> None:
    """The kind and apiVersion that belong to each path."""
    check_object(path, json.dumps({"kind": kind, "apiVersion": version}).encode())


def test_a_kind_with_an_irregular_plural_is_named() -> None:
    """A CustomResourceDefinition may have any plural."""
    path = "/apis/example.com/v1/namespaces/shop/mice/a"
    body = json.dumps({"kind": "Mouse", "apiVersion": "example.com/v1"}).encode()

    check_object(path, body, kind="Mouse")
    for kind in ("", "Rat"):
        with pytest.raises(Exception, match="the answer is Mouse"):
            check_object(path, body, kind=kind)
