"""The printed permissions of the adapter suffice, and they allow nothing more."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from certs import CertificateAuthority
from fedhpa.api.rights import ADAPTER_ROLE, MEMBER_METRICS, READER_ROLE, member_rights
from fedhpa.kube import SYSTEM
from fedhpa.serving.flags.parsing import parse_flags
from fedhpa.serving.process import Signals
from metrics_adapter.process import Adapter, serve
from metrics_adapter.registration import NAME, Registration, hub_rights
from metrics_adapter.settings import FLAGS
from testbed.real.plane import Plane
from testbed.stage.api import PlaneApi
from testbed.stage.registrations import Credentials, cluster_objects
from testbed.stage.waiting import eventually
from tests.real.settling import settled
from tests.real.workloads import namespace

NAMESPACE = "least-rights"
CLUSTER, SECRET = "least", ("karmada-cluster", "least")
PLACEMENT = Registration(namespace=NAMESPACE, secrets=frozenset({SECRET}))
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:{NAME}"
MEMBER_ACCOUNT = f"system:serviceaccount:{NAMESPACE}:{MEMBER_METRICS}"
READER = "people"
PODS = "/apis/metrics.k8s.io/v1beta1/pods"
FROM_CLUSTER = f'"resource.karmada.io/query-from-cluster":"{CLUSTER}"'.encode()
UNREAD = "its secret cannot be read"

# Verb, API group, resource, name, namespace.
Question = tuple[str, str, str, str, str]
CREDENTIALS = "karmada-cluster"
AUTHENTICATION = "extension-apiserver-authentication"
ON_THE_HUB: dict[Question, bool] = {
    ("list", "cluster.karmada.io", "clusters", "", ""): True,
    ("watch", "cluster.karmada.io", "clusters", "", ""): True,
    ("update", "cluster.karmada.io", "clusters", "least", ""): False,
    ("update", "cluster.karmada.io", "clusters/status", "least", ""): False,
    ("get", "", "secrets", "least", CREDENTIALS): True,
    ("watch", "", "secrets", "least", CREDENTIALS): True,
    ("get", "", "secrets", "member1", CREDENTIALS): False,
    ("get", "", "secrets", "least", "default"): False,
    ("list", "", "secrets", "", CREDENTIALS): False,
    ("watch", "", "secrets", "", ""): False,
    ("update", "", "secrets", "least", CREDENTIALS): False,
    ("create", "authentication.k8s.io", "tokenreviews", "", ""): True,
    ("create", "authorization.k8s.io", "subjectaccessreviews", "", ""): True,
    ("get", "", "configmaps", AUTHENTICATION, "kube-system"): True,
    ("get", "", "configmaps", "other", "kube-system"): False,
    ("list", "apps", "deployments", "", ""): False,
    ("list", "autoscaling.karmada.io", "federatedhpas", "", ""): False,
    ("create", "", "serviceaccounts/token", "default", CREDENTIALS): False,
    ("impersonate", "", "users", "admin", ""): False,
}
ON_A_MEMBER: dict[Question, bool] = {
    ("list", "metrics.k8s.io", "pods", "", ""): True,
    ("get", "metrics.k8s.io", "nodes", "node", ""): True,
    ("get", "custom.metrics.k8s.io", "services/hits", "web", "default"): True,
    ("list", "external.metrics.k8s.io", "depth", "", "default"): True,
    ("create", "metrics.k8s.io", "pods", "", "default"): False,
    ("get", "", "pods/log", "web", "default"): False,
    ("create", "", "pods/exec", "web", "default"): False,
    ("delete", "", "pods", "web", "default"): False,
    ("list", "", "secrets", "", ""): False,
    ("list", "", "configmaps", "", "default"): False,
    ("list", "apps", "deployments", "", ""): False,
    ("update", "apps", "deployments/scale", "web", "default"): False,
}


def account(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": NAMESPACE},
    }


def binding(role: str, name: str) -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"{NAMESPACE}:{name}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}],
    }


def printed() -> list[dict[str, Any]]:
    """Applies the printed hub permissions under names of their own, so the running processes keep theirs."""
    documents = hub_rights(PLACEMENT)
    for document in documents:
        for named in (document["metadata"], document.get("roleRef", {})):
            if named.get("name", "").startswith(ADAPTER_ROLE):
                named["name"] = f"{NAMESPACE}:{named['name']}"
    return documents


@asynccontextmanager
async def granted(api: PlaneApi) -> AsyncIterator[None]:
    """The printed rights in a member, for an account that goes again: other tests count what is left."""
    manifests = member_rights(NAMESPACE, (MEMBER_METRICS,))
    await api.apply_all([namespace(NAMESPACE), *manifests])
    try:
        yield
    finally:
        await api.delete(await api.path_of(manifests[0]))


@asynccontextmanager
async def registered(plane: Plane) -> AsyncIterator[None]:
    """Registers the first member again, as a Cluster whose credentials have the printed permissions."""
    member = plane.members["member1"]
    async with member.api() as there, granted(there), plane.hub.api() as api:
        await rights(there, MEMBER_ACCOUNT, ON_A_MEMBER)
        token = await there.token(NAMESPACE, MEMBER_METRICS)
        credentials = Credentials(token, member.pki.ca.bundle_pem)
        await api.apply_all([namespace(NAMESPACE), *printed(), account(READER)])
        await api.apply_all([binding(READER_ROLE, READER)])
        await rights(api, ACCOUNT, ON_THE_HUB)
        await api.apply_all(cluster_objects(CLUSTER, member.server, credentials))
        try:
            yield
        finally:
            await api.delete(f"/apis/cluster.karmada.io/v1alpha1/clusters/{CLUSTER}")
            await api.delete(f"/api/v1/namespaces/{SECRET[0]}/secrets/{SECRET[1]}")


def write_kubeconfig(plane: Plane, token: str, path: Path) -> None:
    """Writes the administrator's kubeconfig with a token in place of the certificate."""
    content = yaml.safe_load(plane.hub.kubeconfig.read_text(encoding="utf-8"))
    content["users"] = [{"name": user["name"], "user": {"token": token}} for user in content["users"]]
    path.write_text(yaml.safe_dump(content))


@asynccontextmanager
async def adapter(plane: Plane, folder: Path) -> AsyncIterator[Adapter]:
    """Runs the adapter in this process, as its ServiceAccount on the hub."""
    async with plane.hub.api() as api:
        token = await api.token(NAMESPACE, NAME)
    write_kubeconfig(plane, token, folder / "kubeconfig")
    flags = [
        f"--kubeconfig={folder / 'kubeconfig'}",
        f"--cert-dir={folder}",
        "--bind-address=127.0.0.1",
        "--secure-port=0",
        "--metrics-bind-address=0",
        "--shutdown-grace-period=1s",
    ]
    signals = Signals()
    started: asyncio.Queue[Adapter] = asyncio.Queue()
    async with asyncio.TaskGroup() as group:
        group.create_task(serve(parse_flags(FLAGS, flags, {}), signals, started.put_nowait, clock=SYSTEM))
        try:
            async with asyncio.timeout(60):
                running = await started.get()
            yield running
        finally:
            signals.stop.set()


async def test_the_printed_rights_are_enough(plane: Plane, tmp_path: Path) -> None:
    """The hub reviews tokens and access, the named Cluster answers, and another Cluster is reported as
    missing.
    """
    authority = CertificateAuthority.create("adapter-ca")
    authority.issue_server("adapter", ips=["127.0.0.1"]).save(tmp_path)
    context = ssl.create_default_context(cadata=authority.bundle_pem.decode())
    async with registered(plane), plane.hub.api() as hub, adapter(plane, tmp_path) as running:

        async def ready() -> bool:
            return running.health.ready

        await eventually(ready, what="the adapter is ready", seconds=120)
        server = f"https://127.0.0.1:{running.server.port}"
        async with (
            PlaneApi(server, context, token=await hub.token(NAMESPACE, READER)) as reader,
            PlaneApi(server, context, token=await hub.token(NAMESPACE, NAME)) as itself,
            PlaneApi(server, context, token="made-up") as nobody,
        ):
            # The hub's authorizer learns of the roles by a watch, and the adapter caches its verdicts.
            status, headers, body = await settled(
                lambda: reader.request("GET", PODS),
                lambda found: found[0] == 200 and FROM_CLUSTER in found[2] and UNREAD in str(found[1]),
            )
            forbidden, _, _ = await settled(
                lambda: itself.request("GET", PODS), lambda found: found[0] == 403
            )
            unknown, _, _ = await settled(lambda: nobody.request("GET", PODS), lambda found: found[0] == 401)

    assert status == 200
    assert FROM_CLUSTER in body
    assert UNREAD in str(headers)
    assert (forbidden, unknown) == (403, 401)


async def answers(api: PlaneApi, user: str, questions: Iterable[Question]) -> dict[Question, bool]:
    """Returns the API server's verdict on each right of a ServiceAccount."""
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}", "system:authenticated"]
    found = {}
    for question in questions:
        verb, group, resource, name, space = question
        plural, _, sub = resource.partition("/")
        wanted = {"verb": verb, "group": group, "resource": plural, "subresource": sub, "name": name}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user, "groups": groups, "resourceAttributes": {**wanted, "namespace": space}},
        }
        made = await api.send("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body=review)
        found[question] = made["status"]["allowed"]
    return found


async def rights(api: PlaneApi, user: str, wanted: dict[Question, bool]) -> dict[Question, bool]:
    """Returns the verdicts once all the wanted rights are allowed, because the API server learns of roles by
    a watch.
    """
    return await settled(
        lambda: answers(api, user, wanted),
        lambda found: all(found[question] for question, allowed in wanted.items() if allowed),
    )


async def test_on_the_hub_nothing_else_is_allowed(plane: Plane) -> None:
    """On the hub the adapter may read neither other Secrets nor workloads, and may change nothing."""
    async with plane.hub.api() as api:
        await api.apply_all([namespace(NAMESPACE), *printed()])

        assert await rights(api, ACCOUNT, ON_THE_HUB) == ON_THE_HUB


async def test_on_a_member_nothing_else_is_allowed(plane: Plane) -> None:
    """The printed role allows reading metrics, but no logs, Secrets or workloads."""
    async with plane.members["member2"].api() as api, granted(api):
        assert await rights(api, MEMBER_ACCOUNT, ON_A_MEMBER) == ON_A_MEMBER
