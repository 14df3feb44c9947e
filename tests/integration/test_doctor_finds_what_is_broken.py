"""The doctor on a whole installation: a test breaks one thing, and the report has exactly that finding.

The hub and the members are embedded planes on sockets, because reachability and TLS are the subject.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

from certs import CertificateAuthority
from controller.cluster_status import CLUSTERS_LEASE
from fedhpa.api.cluster_finalizers import replicas_finalizer
from fedhpa.api.member_hpas import FINALIZER
from fedhpa.api.taints import DRAIN_TAINT
from fedhpa.doctor import TABLE
from testbed.embedded.storage.store import Collection
from testbed.stage.registrations import CLUSTER_NAMESPACE, NAMESPACE
from tests.support.installation import (
    API_SERVICES,
    CLUSTER_ROLES,
    CLUSTERS,
    CONFIG_MAPS,
    CONTROLLER_LEASES,
    CRDS,
    CRONS,
    DEPLOYMENTS,
    FHPAS,
    HPAS,
    LEASES,
    MUTATING,
    SECRETS,
    SHARD_LEASES,
    VALIDATING,
    Installation,
    cron,
    deployment,
    encoded,
    federated_hpa,
    installation,
)
from tests.support.nightly import only_at_night
from tests.support.plane_faults import Fault, faults_of

Break = Callable[[Installation], Awaitable[None]]
NO_REQUEST = "the HPA was unable: missing request for cpu in container web of Pod web-1"


def edits(collection: Collection, name: str, space: str = "", **changes: Any) -> Break:
    async def edit(made: Installation) -> None:
        made.edit(collection, name, space, **changes)

    return edit


def deletes(collection: Collection, name: str, space: str = "") -> Break:
    async def delete(made: Installation) -> None:
        made.delete(collection, name, space)

    return delete


def creates(collection: Collection, obj: dict[str, Any]) -> Break:
    async def create(made: Installation) -> None:
        made.store.create(collection, obj)

    return create


def set_webhooks(made: Installation, change: Callable[[dict[str, Any]], None]) -> None:
    found = made.store.get(VALIDATING, "", "fedhpa-webhook")
    for hook in found["webhooks"]:
        change(hook)
    made.store.update(VALIDATING, found)


async def webhook_url(made: Installation, url: str) -> None:
    set_webhooks(made, lambda hook: hook["clientConfig"].update(url=url))


unregister = deletes(VALIDATING, "fedhpa-webhook")


async def karmadas_entries(made: Installation) -> None:
    made.store.create(
        VALIDATING,
        {
            **made.store.get(VALIDATING, "", "fedhpa-webhook"),
            "metadata": {"name": "validating-config"},
        },
    )


async def stop_webhook(made: Installation) -> None:
    await made.webhook.stop()


async def slow_webhook(made: Installation) -> None:
    set_webhooks(made, lambda hook: hook.update(timeoutSeconds=1))
    made.edit(MUTATING, "fedhpa-webhook", webhooks=[])
    await made.webhook_faults.set(Fault.HANG)


async def expired_webhook(made: Installation) -> None:
    await made.webhook.start(made.serving("fedhpa-webhook", ["localhost"], days=-1))


async def soon_expired_webhook(made: Installation) -> None:
    await made.webhook.start(made.serving("fedhpa-webhook", ["localhost"], days=3))


async def foreign_webhook_ca(made: Installation) -> None:
    other = CertificateAuthority.create("other")
    await made.webhook.start(made.serving("fedhpa-webhook", ["localhost"], authority=other))


async def skipped_webhook(made: Installation) -> None:
    condition = {"name": "never", "expression": "false"}

    def skip(hook: dict[str, Any]) -> None:
        hook["rules"][0]["operations"] = ["UPDATE"]
        hook["matchConditions"] = [condition]

    set_webhooks(made, skip)


async def narrow_webhook(made: Installation) -> None:
    found = made.store.get(VALIDATING, "", "fedhpa-webhook")
    found["webhooks"] = found["webhooks"][:1]
    made.store.update(VALIDATING, found)


async def no_rights(made: Installation) -> None:
    found = made.store.get(CLUSTER_ROLES, "", "fedhpa:controller")
    found["rules"] = found["rules"][1:]
    made.store.update(CLUSTER_ROLES, found)


def schema(made: Installation, change: Callable[[dict[str, Any]], object]) -> None:
    found = made.store.get(CRDS, "", "federatedhpas.autoscaling.karmada.io")
    change(found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"])
    made.store.update(CRDS, found)


async def karmadas_schema(made: Installation) -> None:
    schema(made, lambda parts: [parts["spec"]["properties"].pop(name) for name in ("dryRun", "mode")])


async def old_schema(made: Installation) -> None:
    schema(made, lambda parts: parts["status"]["properties"]["summary"]["properties"].pop("propagation"))


async def no_crd(made: Installation) -> None:
    for raw in made.store.list(CRONS):
        made.store.remove(CRONS, raw["metadata"]["namespace"], raw["metadata"]["name"])
    made.delete(CRDS, "cronfederatedhpas.autoscaling.karmada.io")


async def fast_hub(made: Installation) -> None:
    made.ahead |= {"hub": 90.0, "m1": 90.0}
    for name in CONTROLLER_LEASES:
        made.renew(name, age=-89.0)


async def no_api_services(made: Installation) -> None:
    for raw in made.store.list(API_SERVICES):
        if raw["spec"].get("service"):
            made.delete(API_SERVICES, raw["metadata"]["name"])


async def karmadas_adapter(made: Installation) -> None:
    for raw in made.store.list(API_SERVICES):
        if raw["spec"].get("service") and raw["spec"]["group"] != "metrics.k8s.io":
            made.delete(API_SERVICES, raw["metadata"]["name"])
    await broken_apis(
        made,
        spec={"service": {"namespace": "karmada-system", "name": "karmada-metrics-adapter", "port": 443}},
    )


async def broken_apis(made: Installation, **changes: Any) -> None:
    for raw in made.store.list(API_SERVICES):
        if raw["spec"].get("service"):
            made.edit(API_SERVICES, raw["metadata"]["name"], **changes)
    made.recheck()
    await made.apis_are(False)


async def no_service(made: Installation) -> None:
    made.delete(("", "services"), "fedhpa-metrics-adapter", NAMESPACE)
    await broken_apis(made)


async def stop_adapter(made: Installation) -> None:
    await made.adapter.stop()
    await broken_apis(made)


async def expired_adapter(made: Installation) -> None:
    await made.adapter.start(made.adapter_serving(days=-1))
    await broken_apis(made)


async def foreign_adapter_ca(made: Installation) -> None:
    await made.adapter.start(made.adapter_serving(authority=CertificateAuthority.create("other")))
    await broken_apis(made)


async def refusing_adapter(made: Installation) -> None:
    made.adapter_status = 401
    await broken_apis(made)


async def failing_adapter(made: Installation) -> None:
    made.adapter_status = 500
    await broken_apis(made)


async def no_request_header_ca(made: Installation) -> None:
    made.adapter_status = 401
    made.edit(
        CONFIG_MAPS,
        "extension-apiserver-authentication",
        "kube-system",
        data={"requestheader-client-ca-file": None},
    )
    await broken_apis(made)


async def second_name(made: Installation) -> None:
    cluster = made.store.get(CLUSTERS, "", "m1")
    made.store.create(CLUSTERS, {**cluster, "metadata": {"name": "m1-again"}})


def annotated(value: str, key: str = "fedhpa.io/secret") -> Break:
    return edits(CLUSTERS, "m1", metadata={"annotations": {key: value}})


def edited_secret(**changes: Any) -> Break:
    return edits(SECRETS, "m1", CLUSTER_NAMESPACE, **changes)


def token_that_ends(days: float) -> Break:
    """The annotations of `fedhpa join` say when a token of another form than a JSON Web Token ends."""

    async def write(made: Installation) -> None:
        now = dt.datetime.now(dt.UTC)
        times = {"issued": now - dt.timedelta(days=30 - days), "expires": now + dt.timedelta(days=days)}
        annotations = {f"fedhpa.io/token-{key}": f"{time:%Y-%m-%dT%H:%M:%SZ}" for key, time in times.items()}
        metadata = {"annotations": annotations, "labels": {"fedhpa.io/renew-token": "true"}}
        made.edit(SECRETS, "m1", CLUSTER_NAMESPACE, metadata=metadata)

    return write


def fault(kind: Fault, *paths: str) -> Break:
    async def set_fault(made: Installation) -> None:
        await faults_of(made.plane.members["m1"]).set(kind, paths or ("",))

    return set_fault


async def no_member_rights(made: Installation) -> None:
    store = made.plane.members["m1"].store
    role = store.get(CLUSTER_ROLES, "", "fedhpa:member")
    role["rules"] = [rule for rule in role["rules"] if "metrics.k8s.io" not in rule.get("apiGroups", ())]
    store.update(CLUSTER_ROLES, role)


async def no_metrics_server(made: Installation) -> None:
    member = made.plane.members["m1"]
    member.apiserver.route = lambda path: None if path.startswith("/apis/metrics") else member.route(path)


async def old_metrics(made: Installation) -> None:
    metrics = made.plane.members["m1"].metrics
    metrics._now = lambda: dt.datetime.now(dt.UTC) - dt.timedelta(minutes=10)


async def metrics_again(made: Installation) -> None:
    made.plane.members["m1"].metrics._now = lambda: dt.datetime.now(dt.UTC)


async def slow_member(made: Installation) -> None:
    made.ahead["m1"] = -60.0


def lease(name: str, **options: Any) -> Break:
    async def renew(made: Installation) -> None:
        made.renew(name, **options)

    return renew


def no_lease(*names: str) -> Break:
    async def delete(made: Installation) -> None:
        for name in names:
            made.delete(LEASES, name, NAMESPACE)

    return delete


async def one_of_two_shards(made: Installation) -> None:
    made.delete(LEASES, SHARD_LEASES[0], NAMESPACE)
    made.renew("fedhpa-controller-1-of-2")


async def stale_leases(made: Installation) -> None:
    for name in SHARD_LEASES:
        made.renew(name, age=600.0)


def tainted(*taints: tuple[str, str]) -> Break:
    return edits(CLUSTERS, "m1", spec={"taints": [{"key": key, "effect": effect} for key, effect in taints]})


drained = tainted((DRAIN_TAINT, "NoSchedule"), ("theirs", "NoExecute"))


async def deleted_cluster(made: Installation) -> None:
    # The finalizer of a shard that nobody leads.
    made.edit(CLUSTERS, "m1", metadata={"finalizers": [replicas_finalizer(7, 9)]})
    made.delete(CLUSTERS, "m1")


async def cluster_that_goes(made: Installation) -> None:
    made.edit(CLUSTERS, "m1", metadata={"finalizers": []})


async def waiting_for_room(made: Installation) -> None:
    raw = made.store.get(FHPAS, "shop", "web")
    entry = {"name": "m1", "currentReplicas": 2, "membership": "Leaving", "waitsFor": "no room\x1b[31m"}
    raw["status"] = {**raw.get("status", {}), "clusters": [entry]}
    made.store.update(FHPAS, raw)


async def written_by_karmada(made: Installation) -> None:
    raw = made.store.get(FHPAS, "shop", "web")
    now = f"{dt.datetime.now(dt.UTC):%Y-%m-%dT%H:%M:%SZ}"
    entry = {"manager": "karmada-controller-manager", "operation": "Update", "subresource": "status"}
    raw["metadata"]["managedFields"] = [{**entry, "apiVersion": raw["apiVersion"], "time": now}]
    made.store.update(FHPAS, raw)


async def deletion_that_waits(made: Installation) -> None:
    made.edit(FHPAS, "web", "shop", metadata={"finalizers": [FINALIZER]})
    began = dt.datetime.now(dt.UTC) - dt.timedelta(minutes=10)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(made.store, "_time", lambda: f"{began:%Y-%m-%dT%H:%M:%SZ}")
        made.delete(FHPAS, "web", "shop")


async def deletion_that_ends(made: Installation) -> None:
    made.edit(FHPAS, "web", "shop", metadata={"finalizers": []})


async def second_owner_in_member(made: Installation) -> None:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    made.plane.members["m1"].store.create(
        HPAS,
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"scaleTargetRef": target, "maxReplicas": 3},
        },
    )


async def rules_of_the_workload(made: Installation) -> None:
    made.delete(CRONS, "night", "shop")
    status = {"conditions": [{"type": "Ready", "status": "True"}]}
    made.store.create(CRONS, cron(apiVersion="apps/v1", kind="Deployment", name="web") | {"status": status})


async def no_target_of_rules(made: Installation) -> None:
    made.delete(CRONS, "night", "shop")
    absent = cron(apiVersion="autoscaling.karmada.io/v1alpha1", kind="FederatedHPA", name="absent")
    made.store.create(CRONS, absent)


def unready(reason: str, message: str, **spec: Any) -> Break:
    """The controller has written why it cannot scale the object, whose spec is changed."""

    conditions = [
        {"type": kind, "status": "False", "reason": reason, "message": message}
        for kind in ("Ready", "ScalingActive")
    ]
    return edits(FHPAS, "web", "shop", spec=spec, status={"conditions": conditions})


def metric(name: str) -> dict[str, Any]:
    target = {"type": "Utilization", "averageUtilization": 60}
    return {"metrics": [{"type": "Resource", "resource": {"name": name, "target": target}}]}


def target(**reference: str) -> Break:
    return edits(FHPAS, "web", "shop", spec={"scaleTargetRef": reference})


CASES: dict[str, list[tuple[str, Break]]] = {
    "hub": [
        ("hub-clock-skew", fast_hub),
        ("component-rights-missing", no_rights),
        ("crd-missing", no_crd),
        ("crd-fields-pruned", karmadas_schema),
        ("crd-outdated", old_schema),
    ],
    "admission": [
        ("karmada-webhook-registered", karmadas_entries),
        ("webhook-not-registered", unregister),
        ("webhook-not-registered", narrow_webhook),
        ("webhook-call-failed", stop_webhook),
        ("webhook-call-failed", slow_webhook),
        ("webhook-certificate", expired_webhook),
        ("webhook-certificate", foreign_webhook_ca),
        ("webhook-call-failed", lambda made: webhook_url(made, f"{made.webhook.server}/nothing")),
        ("webhook-not-asked", skipped_webhook),
        ("certificate-expires", soon_expired_webhook),
    ],
    "aggregation": [
        ("request-header-ca-missing", no_request_header_ca),
        ("apiservice-missing", no_api_services),
        ("apiservice-foreign", karmadas_adapter),
        ("apiservice-missing", no_service),
        ("apiservice-unavailable", stop_adapter),
        ("apiservice-certificate", expired_adapter),
        ("apiservice-certificate", foreign_adapter_ca),
        ("apiservice-refuses-hub", refusing_adapter),
        ("apiservice-unavailable", failing_adapter),
    ],
    "members": [
        ("no-members", deletes(CLUSTERS, "m1")),
        ("member-duplicate", second_name),
        ("member-secret-missing", edits(CLUSTERS, "m1", spec={"secretRef": None})),
        ("member-secret-missing", deletes(SECRETS, "m1", CLUSTER_NAMESPACE)),
        ("member-secret-missing", annotated("no-namespace")),
        ("member-secret-missing", annotated(f"{CLUSTER_NAMESPACE}/absent")),
        ("member-metrics-secret-missing", deletes(SECRETS, "m1-metrics", CLUSTER_NAMESPACE)),
        ("member-metrics-secret-missing", annotated("no-namespace", "fedhpa.io/metrics-secret")),
        ("member-secret-foreign", annotated(f"{CLUSTER_NAMESPACE}/m1")),
        ("member-secret-foreign", edited_secret(metadata={"labels": {"fedhpa.io/cluster": "m2"}})),
        ("member-access-invalid", edited_secret(data={"caBundle": None})),
        ("member-unreachable", fault(Fault.REFUSE)),
        ("member-certificate", fault(Fault.EXPIRED)),
        ("member-certificate", fault(Fault.WRONG_CA)),
        ("member-token-refused", edited_secret(data={"token": encoded("no-token-of-this-member")})),
        ("member-token-expires", token_that_ends(days=4.0)),
        ("member-not-ready", fault(Fault.SERVER_ERROR, "/readyz")),
        ("member-rights-missing", no_member_rights),
        ("member-metrics-not-served", no_metrics_server),
        ("member-metrics-failing", fault(Fault.SERVER_ERROR, "/apis/metrics.k8s.io")),
        ("member-metrics-stale", old_metrics),
        ("member-clock-skew", slow_member),
        ("member-tainted", drained),
        ("member-not-deleted", deleted_cluster),
        ("member-tainted", tainted(("theirs", "NoExecute"))),
    ],
    "leadership": [
        ("controller-not-running", stale_leases),
        ("controller-not-running", no_lease(*SHARD_LEASES)),
        ("controller-shards-differ", lease("fedhpa-controller-0-of-2")),
        ("lease-not-held", one_of_two_shards),
        ("lease-not-held", no_lease(SHARD_LEASES[0])),
        ("lease-not-held", lease(SHARD_LEASES[1], age=600.0)),
        ("lease-not-held", lease(CLUSTERS_LEASE, holder="")),
        ("lease-not-held", no_lease(CLUSTERS_LEASE)),
        ("lease-not-held", lease("fedhpa-controller-certificates", age=600.0)),
    ],
    "objects": [
        ("karmada-controller-active", written_by_karmada),
        ("target-missing", target(name="absent")),
        ("target-missing", no_target_of_rules),
        ("target-on-hub", creates(DEPLOYMENTS, deployment())),
        ("object-not-deleted", deletion_that_waits),
        ("second-owner", creates(FHPAS, federated_hpa("other"))),
        ("second-owner", second_owner_in_member),
        ("second-owner", rules_of_the_workload),
        ("replicas-wait", waiting_for_room),
        ("target-kind-unknown", target(kind="Deploymnt")),
        ("target-kind-unknown", target(apiVersion="example.com/v1", kind="Robot")),
        ("target-kind-unscalable", target(apiVersion="v1", kind="ConfigMap")),
        ("requests-missing", unready("FailedGetResourceMetric", NO_REQUEST, **metric("cpu"))),
        ("metric-unknown", unready("FailedGetResourceMetric", "no metrics", **metric("cpus"))),
        ("object-not-ready", unready("FailedGetResourceMetric", "no metrics", **metric("cpu"))),
    ],
}
# `restore` undoes neither the clock of a member nor objects that wait for a finalizer.
UNDOING: dict[Break, Break] = {
    old_metrics: metrics_again,
    deletion_that_waits: deletion_that_ends,
    deleted_cluster: cluster_that_goes,
}
# Tested with the command (test_doctor_command.py), or on several objects (test_doctor_of_objects.py).
ELSEWHERE = {
    "kubeconfig-unusable",
    "hub-unreachable",
    "hub-certificate",
    "hub-login-refused",
    "hub-failing",
    "not-installed",
    "webhook-refuses-valid-objects",
    "external-counted-often",
    "placement-not-followed",
    "placement-not-published",
    # test_doctor_of_fleets.py
    "member-source-unusable",
    "member-control-plane-unhealthy",
    "provider-any-server",
}


# Chains that no break of another one changes, so that one look shows a break of each.
TOGETHER = [("hub",), ("admission", "members"), ("aggregation", "leadership", "objects")]
Case = tuple[str, Break]


async def found_by(made: Installation, cases: Sequence[Case]) -> list[str]:
    """Returns the ids of the findings while all these checks fail, and makes them pass again."""
    for _, cut in cases:
        await cut(made)
    report = await made.diagnosis()
    for _, cut in cases:
        if cut in UNDOING:
            await UNDOING[cut](made)
    await made.restore()
    return sorted(each.id for each in report.findings)


async def assert_found(folder: Path, rounds: Sequence[Sequence[Case]]) -> None:
    """Asserts that each round of breaks has its findings only, and that nothing is found before and after."""
    async with installation(folder) as made:
        before = await made.diagnosis()
        found = [await found_by(made, cases) for cases in rounds]
        after = await made.diagnosis()

    assert (before.findings, before.not_checked) == ((), ())
    assert found == [sorted(kind for kind, _ in cases) for cases in rounds]
    assert (after.findings, after.not_checked) == ((), ())


@pytest.mark.parametrize("chains", TOGETHER)
async def test_each_break_is_exactly_its_finding(tmp_path: Path, chains: tuple[str, ...]) -> None:
    """One check of each chain fails at a time, then passes again."""
    columns = zip_longest(*(CASES[chain] for chain in chains))

    await assert_found(tmp_path, [[case for case in cases if case is not None] for cases in columns])


@only_at_night
@pytest.mark.parametrize("chain", CASES)
async def test_each_break_alone_is_exactly_its_finding(tmp_path: Path, chain: str) -> None:
    """One check of all fails at a time, then passes again."""
    await assert_found(tmp_path, [[case] for case in CASES[chain]])


def test_each_chain_is_broken_once() -> None:
    assert sorted(chain for chains in TOGETHER for chain in chains) == sorted(CASES)


def test_each_finding_is_broken_somewhere() -> None:
    assert {kind for cases in CASES.values() for kind, _ in cases} | ELSEWHERE == set(TABLE)
