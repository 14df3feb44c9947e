"""Each rule of the printed rights is needed: without it a feature fails, and its complaint says so."""

from __future__ import annotations

from asyncio import sleep
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from benchmarks.world.network import Cable
from certs.certificate_store import CertificateStore
from controller.certificates import CertificateManager, CertificateMetrics
from controller.decision_series import DecisionLog
from controller.decisions import decisions_route
from controller.flags import HUB, MEMBERS
from fedhpa.api.decode import decode
from fedhpa.api.federatedhpa import FederatedHPA
from fedhpa.api.member_sources import METRICS_ENDING
from fedhpa.api.rights import (
    MEMBER,
    MEMBER_METRICS,
    Manifest,
    MetricsVia,
    Propagation,
    Switches,
    hub_rights,
    member_rights,
    member_secret_rights,
    rights_of,
    user,
)
from fedhpa.kube import SYSTEM, EventRecorder, StaticCredentials
from fedhpa.kube.config import ApiConfig
from metrics_adapter.registration import Registration, api_services
from testbed.embedded.api.types import User
from testbed.embedded.objects.kinds import CRDS
from tests.support.controller import federated_hpa
from tests.support.federation import Federation, federation
from tests.support.federation.planes import DEPLOYMENTS, EVENTS, NAME, NAMESPACE, deployment
from tests.support.fewer_rights import (
    LEAST,
    client_of_least,
    first_of,
    grant,
    names_of,
    serve_reviews,
    without,
)
from tests.support.installation import API_SERVICES
from tests.support.memory_network import MemoryListener
from tests.support.nightly import only_at_night
from tests.support.timing import background
from tests.virtual.test_tokens_of_members_are_renewed import SPACE, join
from webhook.hub_reader import HubReader

pytestmark = pytest.mark.looptime(noop_cycles=0)

Logs = list[dict[str, Any]]

# Seconds. The tokens are renewed after two thirds of it.
LIFE = 600
# Seconds. The metrics of the hub are read at every reconcile.
SOON = 45
BY_CAPACITY = {"federatedHPAAssignment": {"federatedHPAAssignmentType": "Aggregated"}}
# The words of a complaint about a right.
REFUSAL = ("forbidden", "HTTP 403")
_TARGET = {"type": "AverageValue", "averageValue": "10"}
_CPU = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
METRICS = [
    {"type": "Resource", "resource": _CPU},
    {"type": "Pods", "pods": {"metric": {"name": "hits"}, "target": _TARGET}},
    {"type": "External", "external": {"metric": {"name": "depth"}, "target": _TARGET}},
]


def grant_all(
    f: Federation,
    removed: str,
    propagation: Propagation,
    via: MetricsVia,
    refused: list[str],
    *,
    distributed: bool = False,
) -> None:
    """Gives the hub's controller and the members' tokens the printed rights without one rule."""
    hub = rights_on_hub(propagation, via)
    for name in f.members:
        hub += member_secret_rights(name, secrets_of(name), SPACE, user(LEAST), user("nobody"))
    member = member_rights(SPACE, switches=Switches(propagation, distributed=distributed))
    here = removed.partition(": ")[0] in {one["metadata"]["name"] for one in hub}
    f.hub.authenticator.tokens[LEAST] = User(LEAST, ("system:authenticated",))
    grant(f.hub, without(hub, removed if here else ""), refused)
    for name, plane in f.members.items():
        join(f, name, LIFE)
        grant(plane, without(member, "" if here else removed), refused)


def put_template(f: Federation) -> None:
    """Puts the workload's template on the hub, with Karmada's ResourceBinding of both clusters."""
    names = {"plural": "resourcebindings", "kind": "ResourceBinding", "listKind": "ResourceBindingList"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1alpha2", "served": True, "storage": True, "schema": schema}
    spec = {"group": "work.karmada.io", "scope": "Namespaced", "names": names, "versions": [version]}
    store = f.hub.server.store
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    store.create(CRDS, {**head, "metadata": {"name": "resourcebindings.work.karmada.io"}, "spec": spec})
    labels = {"propagationpolicy.karmada.io/permanent-id": "policy"}
    template = deployment(2)
    template["metadata"]["labels"] = labels
    store.create(DEPLOYMENTS, template)
    resource = {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": NAMESPACE, "name": NAME}
    binding = {"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding"}
    metadata = {"namespace": NAMESPACE, "name": "web-deployment", "labels": labels}
    clusters = [{"name": name, "replicas": 1} for name in f.members]
    store.create(
        ("work.karmada.io", "resourcebindings"),
        {**binding, "metadata": metadata, "spec": {"resource": resource, "clusters": clusters}},
    )


async def worked(
    tmp_path: Path,
    logs: Logs,
    removed: str = "",
    propagation: Propagation = "direct",
    via: MetricsVia = MEMBERS,
) -> tuple[list[str], str]:
    """Runs the controller until it has scaled and renewed tokens. Returns refusals and all complaints."""
    refused: list[str] = []
    async with federation(tmp_path, m1=2, m2=2) as f:
        grant_all(f, removed, propagation, via, refused)
        if via == HUB:
            f.hub.server.route = f.members["m1"].metrics.handler
        if propagation == "karmada":
            put_template(f)
        f.demand(600)
        # The members have no such values, which would hide other failures of the object.
        metrics = METRICS if "metrics.k8s.io/* " in removed or not removed else METRICS[:1]
        spec: dict[str, Any] = BY_CAPACITY if propagation == "direct" else {}
        f.scale(syncPeriodSeconds=30, metrics=metrics, **spec)
        credentials = StaticCredentials(f"Bearer {LEAST}")
        settings: dict[str, Any] = {"propagation": propagation, "metrics_via": via}
        async with f.controller(calm=True, credentials=credentials, **settings) as controller:
            await sleep(LIFE if via == MEMBERS else SOON)
            texts = [str(entry) for entry in logs]
            texts += [str(event["message"]) for event in f.hub.all(EVENTS)]
            texts.append(str(f.status().get("conditions")))
            texts.append(f"readyz: {controller.members.problem}")
            return refused, "\n".join(texts)


# Complaints that do not name the refused resource, by the name of the rule.
OTHER_COMPLAINTS = {
    "autoscaling.karmada.io/federatedhpas/status update/patch": "FailedUpdateStatus",
    "external.metrics.k8s.io/* list": "external metric",
    "/nodes list": "nodes",
}
# A member that refuses its /readyz has answered, so it counts as ready, and nobody complains.
SILENT = ("//readyz get",)


def rights_on_hub(propagation: Propagation, via: MetricsVia = MEMBERS) -> list[Manifest]:
    """Returns the rights of the controller on the hub."""
    return hub_rights(
        user_name=LEAST,
        lease_namespace=SPACE,
        switches=Switches(propagation, via),
        components=["controller"],
    )


def rules_of(propagation: Propagation, via: MetricsVia = MEMBERS) -> list[str]:
    """Returns the names of all rules, as `ROLE: RULE`."""
    manifests = [
        *rights_on_hub(propagation, via),
        *member_secret_rights("m1", secrets_of("m1"), SPACE, user(LEAST), user("nobody")),
        *member_rights(SPACE, switches=Switches(propagation)),
    ]
    return [name for name in names_of(manifests) if not name.startswith(OF_THE_ADAPTER)]


def secrets_of(cluster: str) -> dict[str, str]:
    """Returns the names of a member's Secrets on the hub, by account."""
    return {MEMBER: cluster, MEMBER_METRICS: cluster + METRICS_ENDING}


# Rights of the adapter's token and on its Secret, which the controller only renews.
OF_THE_ADAPTER = ("fedhpa:member-metrics: ", "fedhpa:member-metrics-secret:")
DIRECT = [(rule, "direct") for rule in rules_of("direct")]
# On a Karmada hub only what the controller does with templates is different.
KARMADA = [(rule, "karmada") for rule in rules_of("karmada") if rule not in dict(DIRECT)]
# With --metrics-via=hub the controller reads the metrics APIs of the hub.
OF_HUB = [rule for rule in rules_of("direct", HUB) if rule not in dict(DIRECT)]
SAMPLE = [
    ("fedhpa:controller:leases: coordination.k8s.io/leases get/list/create/update", "direct"),
    ("fedhpa:member: custom.metrics.k8s.io/* get", "direct"),
    ("fedhpa:controller: work.karmada.io/resourcebindings list", "karmada"),
]


@pytest.mark.parametrize("propagation", ["direct", "karmada"])
async def test_nothing_is_refused(tmp_path: Path, logs: Logs, propagation: Propagation) -> None:
    """With all rules no API server refuses a request."""
    refused, text = await worked(tmp_path, logs, "", propagation)

    assert refused == []
    assert "token renewed" in text
    assert "forbidden" not in text


@pytest.mark.parametrize("rule", ["", *OF_HUB])
async def test_each_rule_of_the_hubs_metrics_is_missed(tmp_path: Path, logs: Logs, rule: str) -> None:
    """A condition of the object names the metrics API that the hub refuses."""
    refused, text = await worked(tmp_path, logs, rule, via=HUB)
    api = rule.partition(": ")[2].partition("/")[0]

    assert bool(refused) == bool(rule)
    assert [one for one in refused if api not in one] == []
    assert ("forbidden" in text) == bool(rule)
    assert api in text


@only_at_night
@pytest.mark.parametrize(("rule", "propagation"), [one for one in (*DIRECT, *KARMADA) if one not in SAMPLE])
async def test_each_rule_is_missed(tmp_path: Path, logs: Logs, rule: str, propagation: Propagation) -> None:
    """Without the rule a request is refused, and a log line, a condition or an event says which."""
    await is_missed(tmp_path, logs, rule, propagation)


@pytest.mark.parametrize(("rule", "propagation"), SAMPLE)
async def test_some_rules_are_missed(tmp_path: Path, logs: Logs, rule: str, propagation: Propagation) -> None:
    """A sample of the test above."""
    await is_missed(tmp_path, logs, rule, propagation)


async def is_missed(tmp_path: Path, logs: Logs, rule: str, propagation: Propagation) -> None:
    """Asserts that a request is refused without the rule, and that a log line, condition or event says so."""
    refused, text = await worked(tmp_path, logs, rule, propagation)
    resource = rule.partition(": ")[2].partition(" ")[0].partition("/")[2]
    name = resource.partition("/")[0] if resource != "*" else "metrics.k8s.io"
    wanted = OTHER_COMPLAINTS.get(rule.partition(": ")[2], name)
    complaints = [line for line in text.splitlines() if any(word in line for word in REFUSAL)]

    assert refused
    if rule.partition(": ")[2] not in SILENT:
        assert [line for line in complaints if wanted in line], sorted(set(refused))


async def test_a_missing_right_to_leases_is_logged(tmp_path: Path, logs: Logs) -> None:
    """Without it the controller never leads, so a person must see the reason in an ordinary log."""
    await worked(tmp_path, logs, SAMPLE[0][0])

    lines = [entry for entry in logs if entry["event"] == "leases not listed"]
    assert [entry["log_level"] for entry in lines][:2] == ["warning", "debug"]
    assert "forbidden" in lines[0]["error"]


@pytest.mark.parametrize("binding", ["", "fedhpa:controller:auth-delegator"])
async def test_the_binding_for_reviews_is_missed(tmp_path: Path, logs: Logs, binding: str) -> None:
    """Without it nobody can read /decisions, and a log line says which right is missing."""
    refused: list[str] = []
    manifests = without(rights_on_hub("direct"), binding)
    async with federation(tmp_path) as f, client_of_least(f, f.hub, manifests, refused) as client:
        serve_reviews(f)
        f.hub.authenticator.tokens["operator"] = User("operator", ("system:masters",))
        application = web.Application()
        application.add_routes([decisions_route(DecisionLog(), client, SYSTEM)])
        async with MemoryListener(f.network, application) as listener:
            connector = Cable(f.network).connector(ApiConfig(server=listener.server))
            headers = {"Authorization": "Bearer operator"}
            async with (
                aiohttp.ClientSession(connector=connector, headers=headers) as session,
                session.get(f"{listener.server}/decisions") as response,
            ):
                status = response.status

    assert status == (401 if binding else 200)
    assert bool(refused) == bool(binding)
    assert any("tokenreviews" in str(entry) and "forbidden" in str(entry) for entry in logs) == bool(binding)


WEBHOOK = rights_of("webhook", user(LEAST), Switches("karmada"))
CERTIFICATES = [
    one
    for one in hub_rights(SPACE, switches=Switches(certificates=True), components=["controller"])
    if one["metadata"]["name"] in ("fedhpa:controller", "fedhpa:controller:certificates")
]
# Of the controller's ClusterRole only the rules that the certificates add.
OF_CERTIFICATES = [
    f"{one['metadata']['name']}: {first_of(rule)}"
    for one in CERTIFICATES
    for rule in one.get("rules", ())
    if one["kind"] == "Role" or "fedhpa-webhook" in str(rule) or "apiservices" in rule["resources"]
]


@pytest.mark.parametrize(
    "rule", ["", *(f"fedhpa:webhook: {first_of(rule)}" for one in WEBHOOK for rule in one.get("rules", ()))]
)
async def test_each_rule_of_the_webhook_is_missed(tmp_path: Path, logs: Logs, rule: str) -> None:
    """It reads the hub for warnings only, so a missing right is logged and refuses no object."""
    refused: list[str] = []
    subject = decode(FederatedHPA, federated_hpa())
    async with (
        federation(tmp_path) as f,
        client_of_least(f, f.hub, without(WEBHOOK, rule), refused) as client,
    ):
        reader = HubReader(client, checks_targets=True, clock=SYSTEM)
        async with background(reader.run()):
            await sleep(5)
            await reader.warnings(subject)
            await sleep(5)

    assert bool(refused) == bool(rule)
    assert any("forbidden" in str(entry) for entry in logs) == bool(rule)


@pytest.mark.parametrize("rule", ["", *OF_CERTIFICATES])
async def test_each_rule_of_the_certificates_is_missed(tmp_path: Path, logs: Logs, rule: str) -> None:
    """The controller reads and writes three Secrets, and the registrations that exist."""
    refused: list[str] = []
    async with (
        federation(tmp_path) as f,
        client_of_least(f, f.hub, without(CERTIFICATES, rule), refused) as client,
    ):
        for one in api_services(Registration(namespace=SPACE), b""):
            f.hub.server.store.create(API_SERVICES, one)
        store = CertificateStore(client, client, SPACE)
        metrics = CertificateMetrics(CollectorRegistry())
        events = EventRecorder(client, "test", wall=SYSTEM.wall)
        manager = CertificateManager(store, events, metrics, clock=f.clock)
        for _ in range(3):
            await manager.reconcile()

    assert bool(refused) == bool(rule)
    assert any("forbidden" in str(entry) for entry in logs) == bool(rule)


# The role of the controller in the cluster with its pods, where that is another one than the hub.
ON_HOST = [
    one
    for one in hub_rights(
        SPACE,
        switches=Switches(certificates=True, external_hub=True),
        planes=["host"],
        components=["controller"],
    )
    if one["metadata"]["name"] == "fedhpa:controller:certificates"
]
EVENTS_ON_HOST = "fedhpa:controller:certificates: /events create/patch"


@pytest.mark.parametrize("rule", ["", EVENTS_ON_HOST])
async def test_the_events_of_an_external_hub_need_a_right(tmp_path: Path, logs: Logs, rule: str) -> None:
    """The events about the Secrets of certificates are written where the Secrets are."""
    refused: list[str] = []
    async with (
        federation(tmp_path, m1=1) as f,
        client_of_least(f, f.members["m1"], without(ON_HOST, rule), refused) as host,
        client_of_least(f, f.hub, CERTIFICATES, refused) as hub,
    ):
        store, metrics = CertificateStore(host, hub, SPACE), CertificateMetrics(CollectorRegistry())
        manager = CertificateManager(
            store, EventRecorder(host, "test", wall=SYSTEM.wall), metrics, clock=f.clock
        )
        async with background(manager.run()):
            await sleep(SOON)
        reasons = {event["reason"] for event in f.members["m1"].all(EVENTS) if "reason" in event}

    assert ("CACreated" in reasons) == (not rule)
    assert {one.rpartition("/")[2] for one in refused} == ({"events"} if rule else set())
    assert any("event" in str(entry) and "forbidden" in str(entry) for entry in logs) == bool(rule)
