"""Breaks of a member: its registration, its API server, its rights, its metrics and its clock."""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from fedhpa.api.cluster_finalizers import replicas_finalizer
from fedhpa.api.taints import CORDON_TAINT, NO_SCHEDULE
from testbed.stage.registrations import CLUSTER_NAMESPACE, MEMBER_USER, NAMESPACE
from tests.real.breaks.aggregation import API_SERVICES
from tests.real.breaks.hub import ROLES
from tests.real.breaks.patient import Break, Patient, anew, foreign_bundle
from tests.real.breaks.servers import Twist, answering, hanging, passage, serving
from tests.real.settling import done

SECRET = f"/api/v1/namespaces/{CLUSTER_NAMESPACE}/secrets/member1"
CLUSTERS = "/apis/cluster.karmada.io/v1alpha1/clusters"
CLUSTER = f"{CLUSTERS}/member1"
USAGE = "/apis/metrics.k8s.io/"


@asynccontextmanager
async def lost_member(patient: Patient) -> AsyncIterator[None]:
    await patient.plane.lose("member1")
    try:
        yield
    finally:
        await patient.plane.bring_back("member1")


def secret(**data: str | None) -> Break:
    """Changes the Secret of member1."""

    def changed(found: Any) -> Any:
        merged = {**found["data"], **data}
        return {**found, "data": {key: value for key, value in merged.items() if value is not None}}

    return lambda patient: patient.replaced(SECRET, changed)


def labelled_secret(found: Any) -> Any:
    """Somebody copied the Secret of another member."""
    return {**found, "metadata": {**found["metadata"], "labels": {"fedhpa.io/cluster": "member2"}}}


@asynccontextmanager
async def short_token(patient: Patient) -> AsyncIterator[None]:
    """Somebody wrote a token of one hour, which nobody renews."""
    async with patient.plane.members["member1"].api() as api:
        token = await api.token(NAMESPACE, MEMBER_USER, expirationSeconds=3600)
    async with secret(token=base64.b64encode(token.encode()).decode())(patient):
        yield


@asynccontextmanager
async def reached_at(patient: Patient, port: int) -> AsyncIterator[None]:
    """The Cluster has the address of another server."""
    spec = {"apiEndpoint": f"https://127.0.0.1:{port}"}
    async with patient.replaced(CLUSTER, lambda found: {**found, "spec": {**found["spec"], **spec}}):
        yield


@asynccontextmanager
async def hung_member(patient: Patient) -> AsyncIterator[None]:
    async with hanging() as port, reached_at(patient, port):
        yield


@asynccontextmanager
async def expired_member(patient: Patient) -> AsyncIterator[None]:
    member = patient.plane.members["member1"]
    context = serving(member.folder, member.pki.ca, days=-1)
    async with answering(context, 200) as port, reached_at(patient, port):
        yield


def twisted(twist: Twist = lambda _, status, body: (status, body), ahead: float = 0.0) -> Break:
    """Some answers of the member are others."""

    @asynccontextmanager
    async def broken(patient: Patient) -> AsyncIterator[None]:
        member = patient.plane.members["member1"]
        context = serving(member.folder, member.pki.ca)
        client = member.pki.client_context(None)
        async with (
            passage(context, member.server, client, twist, ahead=ahead) as port,
            reached_at(patient, port),
        ):
            yield

    return broken


def fails(prefix: str) -> Break:
    return twisted(lambda path, status, body: (500, b"{}") if path.startswith(prefix) else (status, body))


def old_usage(path: str, status: int, body: bytes) -> tuple[int, bytes]:
    if not path.startswith(USAGE) or status != 200:
        return status, body
    found = json.loads(body)
    for item in found.get("items") or ():
        item["timestamp"] = f"{dt.datetime.now(dt.UTC) - dt.timedelta(minutes=10):%Y-%m-%dT%H:%M:%SZ}"
    return status, json.dumps(found).encode()


@asynccontextmanager
async def no_members(patient: Patient) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for name in patient.plane.members:
            await stack.enter_async_context(patient.deleted(f"{CLUSTERS}/{name}"))
        yield


@asynccontextmanager
async def member_without_rights(patient: Patient) -> AsyncIterator[None]:
    async with patient.plane.members["member1"].api() as api:
        inside = Patient(patient.plane, patient.processes, api)

        def fewer(found: Any) -> Any:
            rules = [rule for rule in found["rules"] if "pods" not in rule.get("resources", ())]
            return {**found, "rules": rules}

        async with inside.replaced(f"{ROLES}/fedhpa:member", fewer):
            yield


@asynccontextmanager
async def member_without_metrics(patient: Patient) -> AsyncIterator[None]:
    async with patient.plane.members["member1"].api() as api:
        inside = Patient(patient.plane, patient.processes, api)
        async with inside.deleted(f"{API_SERVICES}/v1beta1.metrics.k8s.io"):
            yield
        await patient.plane.members["member1"].metrics_work()


@asynccontextmanager
async def second_name(patient: Patient) -> AsyncIterator[None]:
    found = await patient.hub.get(CLUSTER)
    again = {**found, "metadata": {"name": "member1-again"}}
    async with patient.created(again):
        yield


def cordoned(found: Any) -> Any:
    """Somebody ran `fedhpa cordon`."""
    taint = {"key": CORDON_TAINT, "effect": NO_SCHEDULE}
    return {**found, "spec": {**found["spec"], "taints": [taint]}}


@asynccontextmanager
async def held_cluster(patient: Patient) -> AsyncIterator[None]:
    """Somebody deleted the Cluster, and the shard whose finalizer keeps it is led by nobody."""
    before = await patient.hub.get(CLUSTER)
    await patient.hub.patch(CLUSTER, {"metadata": {"finalizers": [replicas_finalizer(7, 9)]}})
    await patient.hub.delete(CLUSTER)
    try:
        yield
    finally:
        await patient.hub.patch(CLUSTER, {"metadata": {"finalizers": []}})
        await done(lambda: patient.hub.apply(anew(before)), f"{CLUSTER} exists again")


BREAKS: dict[str, Break] = {
    "no-members": no_members,
    "member-tainted": lambda patient: patient.replaced(CLUSTER, cordoned),
    "member-not-deleted": held_cluster,
    "member-duplicate": second_name,
    "member-secret-missing/unset": lambda patient: patient.replaced(
        CLUSTER, lambda found: {**found, "spec": {**found["spec"], "secretRef": None}}
    ),
    "member-secret-missing": lambda patient: patient.deleted(SECRET),
    "member-metrics-secret-missing": lambda patient: patient.deleted(f"{SECRET}-metrics"),
    "member-secret-foreign": lambda patient: patient.replaced(SECRET, labelled_secret),
    "member-access-invalid": secret(caBundle=None),
    "member-unreachable": lost_member,
    "member-unreachable/timeout": hung_member,
    "member-certificate/expired": expired_member,
    "member-certificate": secret(caBundle=foreign_bundle()),
    "member-token-refused": secret(token=base64.b64encode(b"a-token-of-nobody").decode()),
    "member-token-expires": short_token,
    "member-not-ready": fails("/readyz"),
    "member-rights-missing": member_without_rights,
    "member-metrics-not-served": member_without_metrics,
    "member-metrics-failing": fails(USAGE),
    "member-metrics-stale": twisted(old_usage),
    "member-clock-skew": twisted(ahead=-60.0),
}
