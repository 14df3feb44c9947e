"""The doctor with rights in one namespace, without an installation, on what Helm owns, on metrics, and on
member HPAs of mode Distributed.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from fedhpa.api import rights
from fedhpa.api.member_hpas import MANAGED_BY, MANAGER
from fedhpa.api.rights import Switches
from fedhpa.doctor import Commands, Report, examine
from fedhpa.kube import SYSTEM
from testbed.embedded.plane import Plane
from testbed.stage.registrations import CLUSTER_NAMESPACE, NAMESPACE
from tests.support.commands import fedhpa_thread
from tests.support.installation import (
    API_SERVICES,
    CLUSTER_ROLES,
    CLUSTERS,
    CRDS,
    DEPLOYMENTS,
    FHPAS,
    HPAS,
    LEASES,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SHARD_LEASES,
    VALIDATING,
    Installation,
    deployment,
    federated_hpa,
    installation,
    merge,
)

# One installation serves the tests of this file.
pytestmark = pytest.mark.asyncio(loop_scope="module")

HELM = {
    "annotations": {"meta.helm.sh/release-name": "auto", "meta.helm.sh/release-namespace": NAMESPACE},
    "labels": {"app.kubernetes.io/managed-by": "Helm"},
}
UPGRADE = "helm upgrade auto charts/fedhpa -n fedhpa-system --reset-then-reuse-values"


def commands(report: Report) -> dict[str, str]:
    return {each.id: each.command for each in report.findings}


def tenant(made: Installation) -> Path:
    """Returns the kubeconfig of a person who may read namespace shop and nothing else."""
    rules = [
        {"apiGroups": ["autoscaling.karmada.io"], "resources": ["*"], "verbs": ["get", "list"]},
        {"apiGroups": ["apps", "autoscaling"], "resources": ["*"], "verbs": ["get", "list"]},
    ]
    metadata = {"name": "tenant", "namespace": "shop"}
    group = "rbac.authorization.k8s.io"
    head = {"apiVersion": f"{group}/v1", "metadata": metadata}
    made.store.create(ROLES, {**head, "kind": "Role", "rules": rules})
    reference = {"apiGroup": group, "kind": "Role", "name": "tenant"}
    subjects = [{"apiGroup": group, "kind": "User", "name": "tenant"}]
    made.store.create(
        ROLE_BINDINGS, {**head, "kind": "RoleBinding", "roleRef": reference, "subjects": subjects}
    )
    return made.hub.user_kubeconfig("tenant")


async def test_a_tenant_checks_his_namespace(made: Installation) -> None:
    """With -n the objects of one namespace are checked with rights in it alone, and each must be Ready."""
    given = ("doctor", "--kubeconfig", str(tenant(made)), "-n", "shop")
    sound = await fedhpa_thread(*given)
    made.edit(FHPAS, "web", "shop", status={"conditions": [{"type": "Ready", "status": "False"}]})
    broken = await fedhpa_thread(*given, "-o", "json")

    assert (sound.code, sound.err) == (0, "")
    assert sound.out.splitlines()[1:] == ["healthy (FederatedHPAs: 1, CronFederatedHPAs: 1)"]
    assert broken.code == 1
    assert [(one["id"], one["subject"]) for one in json.loads(broken.out)["findings"]] == [
        ("object-not-ready", "fhpa shop/web")
    ]


async def test_an_object_that_nobody_looked_at_is_not_healthy(made: Installation) -> None:
    """Nothing else is broken, but an object without a status does nothing."""
    made.store.create(FHPAS, federated_hpa("new", scaleTargetRef={**REFERENCE, "name": "new"}))
    workloads = made.plane.members["m1"].store
    workloads.create(DEPLOYMENTS, {**deployment(), "metadata": {"namespace": "shop", "name": "new"}})
    report = await made.diagnosis()
    workloads.remove(DEPLOYMENTS, "shop", "new")

    assert [(each.id, each.subject) for each in report.findings] == [("object-not-ready", "fhpa shop/new")]
    assert report.findings[0].what == "It has no status yet: no controller has looked at it."


async def test_an_object_whose_controller_does_not_run_is_no_finding_of_its_own(made: Installation) -> None:
    """Its status is as old as the controller, which has a finding."""
    for name in SHARD_LEASES:
        made.delete(LEASES, name, NAMESPACE)
    made.edit(FHPAS, "web", "shop", status={"conditions": [{"type": "Ready", "status": "False"}]})
    report = await made.diagnosis()

    assert [each.id for each in report.findings] == ["controller-not-running"]


async def test_a_placement_that_is_not_followed_is_told(made: Installation) -> None:
    """The clusters of the object stay as they were, so nothing else shows it."""
    unread = {"type": "PlacementUnreadable", "status": "True", "message": "no cluster in it is a member"}
    ready = {"type": "Ready", "status": "True"}
    made.edit(FHPAS, "web", "shop", status={"conditions": [ready, unread]})
    report = await made.diagnosis()

    assert [one.id for one in report.findings] == ["placement-not-followed"]
    assert "no cluster in it is a member" in report.findings[0].what


async def test_what_keeps_a_placement_from_being_published_is_told(made: Installation) -> None:
    """The condition says which members lack a ClusterProfile, and the printed rights have what is missing."""
    published = {
        "type": "Published",
        "status": "False",
        "reason": "NoClusterProfile",
        "message": "m1 has none",
    }
    ready = {"type": "Ready", "status": "True"}
    spec = {"placement": {"publish": True}, "clusterAffinity": {"clusterNames": ["m1"]}}
    made.edit(FHPAS, "web", "shop", spec=spec, status={"conditions": [ready, published]})
    report = await made.diagnosis()

    found = {each.id: each for each in report.findings}
    assert found.keys() == {"component-rights-missing", "placement-not-published"}
    assert "m1 has none" in found["placement-not-published"].what
    assert "placementdecisions" in found["component-rights-missing"].what
    assert "--placements" in found["component-rights-missing"].command


REFERENCE = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}


async def test_a_hub_without_an_installation_is_one_finding(tmp_path: Path) -> None:
    """The command installs by Helm: CRDs that somebody applied by hand would stop `helm install`."""
    plane = Plane(())
    await plane.start()
    try:
        for raw in plane.hub.store.list(CRDS):
            plane.hub.store.delete(CRDS, "", raw["metadata"]["name"])
        ran = await fedhpa_thread("doctor", "--kubeconfig", str(plane.hub.kubeconfig), "-o", "json")
    finally:
        await plane.end()
    findings = json.loads(ran.out)["findings"]

    assert ran.code == 1
    assert [(each["id"], each["command"].split()[:3]) for each in findings] == [
        ("not-installed", ["helm", "install", "fedhpa"])
    ]


async def test_what_helm_owns_is_mended_by_helm(made: Installation) -> None:
    """Helm's owner is read from the object, or from others where the object is gone."""
    for collection, name in (
        (CRDS, "federatedhpas.autoscaling.karmada.io"),
        (("rbac.authorization.k8s.io", "clusterrolebindings"), "fedhpa:controller"),
    ):
        made.edit(collection, name, metadata=HELM)
    role = made.store.get(CLUSTER_ROLES, "", "fedhpa:controller")
    made.store.update(CLUSTER_ROLES, {**role, "rules": role["rules"][1:]})
    made.delete(VALIDATING, "fedhpa-webhook")
    report = await made.diagnosis()
    applied = {"manager": "helm", "operation": "Apply"}
    made.edit(CRDS, "federatedhpas.autoscaling.karmada.io", metadata={"managedFields": [applied]})
    of_helm_4 = await made.diagnosis()

    assert commands(report) == {"component-rights-missing": UPGRADE, "webhook-not-registered": UPGRADE}
    assert set(commands(of_helm_4).values()) == {f"{UPGRADE} --force-conflicts"}


async def test_the_printed_role_has_what_was_observed(made: Installation) -> None:
    """The flags, the subject and the kinds that may be scaled stay as they are."""
    group = "rbac.authorization.k8s.io"
    binding = made.store.get((group, "clusterrolebindings"), "", "fedhpa:controller")
    user = {"apiGroup": group, "kind": "User", "name": "hub-user"}
    made.store.update((group, "clusterrolebindings"), {**binding, "subjects": [user]})
    container = {
        "name": "controller",
        "image": "x",
        "args": ["--manage-certificates", "--metrics-via=hub"],
    }
    manifest = {**deployment(), "metadata": {"namespace": NAMESPACE, "name": "fedhpa-controller"}}
    manifest["spec"]["template"]["spec"]["containers"] = [container]
    made.store.create(DEPLOYMENTS, manifest)
    report = await made.diagnosis()

    command = commands(report)["component-rights-missing"]
    assert set(shlex.split(command.partition(" | ")[0])) >= {
        "--user=hub-user",
        "--metrics-via=hub",
        "--manage-certificates",
        "--propagation=direct",
    }


async def test_only_the_rights_that_are_needed_are_asked_for(made: Installation) -> None:
    """A hub with a metrics-server of its own keeps that API, and the adapter reads its own Secrets only."""
    api = made.store.get(API_SERVICES, "", "v1beta1.metrics.k8s.io")
    server = {"namespace": "kube-system", "name": "metrics-server", "port": 443}
    own = {**api["metadata"], "labels": {}}
    made.store.update(API_SERVICES, {**api, "metadata": own, "spec": {**api["spec"], "service": server}})
    manifest = {**deployment(), "metadata": {"namespace": NAMESPACE, "name": rights.CONTROLLER}}
    manifest["spec"]["template"]["spec"]["containers"] = [{"args": ["--manage-certificates"]}]
    made.store.create(DEPLOYMENTS, manifest)
    made.renew("fedhpa-controller-certificates")
    for role in made.store.list(ROLES):
        if role["metadata"]["name"].startswith("fedhpa:metrics-adapter"):
            made.store.remove(ROLES, role["metadata"]["namespace"], role["metadata"]["name"])
    account = rights.service_account(NAMESPACE, rights.ADAPTER)
    switches = Switches(certificates=True, apis=frozenset({"custom", "external"}))
    async with made.hub.api() as hub:
        for secret in ("m1", "m1-metrics"):
            named = {CLUSTER_NAMESPACE: [secret]}
            await hub.apply_all(rights.rights_of("metrics-adapter", account, secrets=named))
            controller = rights.hub_rights(
                NAMESPACE,
                secrets={CLUSTER_NAMESPACE: ()},
                switches=switches,
                components=["controller"],
            )
            await hub.apply_all(controller)
            report = await made.diagnosis()
            if secret == "m1":
                before = report

    assert [(each.id, each.subject) for each in before.findings] == [
        ("component-rights-missing", rights.ADAPTER)
    ]
    assert "secrets/m1-metrics" in before.findings[0].what
    assert "--secret=karmada-cluster/m1-metrics" in before.findings[0].command
    assert (report.findings, report.not_checked) == ((), ())


async def test_a_process_that_runs_as_a_deployment_is_restarted(made: Installation) -> None:
    """A Deployment with 0 replicas is scaled, another one is restarted, and without one nobody knows how."""
    for name in SHARD_LEASES:
        made.delete(LEASES, name, NAMESPACE)
    alone = await made.diagnosis()
    manifest = {**deployment(), "metadata": {"namespace": NAMESPACE, "name": "fedhpa-controller"}}
    made.store.create(DEPLOYMENTS, manifest)
    running = await made.diagnosis()
    made.edit(DEPLOYMENTS, "fedhpa-controller", NAMESPACE, spec={"replicas": 0})
    stopped = await made.diagnosis()

    deployed = "deployment fedhpa-controller"
    assert alone.findings[0].advice.startswith("Start fedhpa-controller, ")
    assert commands(running)["controller-not-running"] == f"kubectl -n {NAMESPACE} rollout restart {deployed}"
    assert (
        commands(stopped)["controller-not-running"] == f"kubectl -n {NAMESPACE} scale {deployed} --replicas=2"
    )


async def test_a_metric_that_all_members_read_from_one_store(tmp_path: Path) -> None:
    """Two members with the same value are summed up. Different values, and none, are no sign of one store."""
    external = {
        "metric": {"name": "queue", "selector": {"matchLabels": {"queue": "orders"}}},
        "target": {"type": "AverageValue", "averageValue": "5"},
    }
    asked: list[str] = []
    found = {}
    async with installation(tmp_path, ("m1", "m2")) as made:
        made.edit(FHPAS, "web", "shop", spec={"metrics": [{"type": "External", "external": external}]})
        for values in (("7", "8"), ("0", "0"), ("7", "7")):
            for member, value in zip(made.plane.members.values(), values, strict=True):
                serve_external(member, value, asked)
            report = await made.diagnosis()
            found[values] = [each.id for each in report.findings]

    assert found == {("7", "8"): [], ("0", "0"): [], ("7", "7"): ["external-counted-often"]}
    assert set(asked) == {"queue=orders"}
    patch = shlex.split(report.findings[0].command)[-1]
    path = "/spec/metrics/0/external/aggregation"
    assert json.loads(patch) == [{"op": "add", "path": path, "value": "Max"}]


def serve_external(member: Any, value: str, asked: list[str]) -> None:
    """Lets a member answer one value for all external metrics."""
    route = member.route

    async def answer(request: web.Request, *_: Any) -> web.StreamResponse:
        asked.append(request.query.get("labelSelector", ""))
        return web.json_response({"kind": "ExternalMetricValueList", "items": [{"value": value}]})

    member.apiserver.route = lambda path: answer if "/queue" in path else route(path)


async def test_a_member_with_a_context_is_registered_again_by_one_command(made: Installation) -> None:
    """The context that leads to the member's server is named, with its file. Without one there is advice."""
    made.delete(SECRETS, "m1", CLUSTER_NAMESPACE)
    contexts = {"my member": (made.plane.members["m1"].server, "/my files/config")}
    known = Commands("hub.yaml", "the hub", contexts)
    report = await examine(made.administrator, clock=SYSTEM, commands=known)
    unknown = await made.diagnosis()

    words = shlex.split(commands(report)["member-secret-missing"])
    assert words[:3] == ["fedhpa", "join", "m1"]
    assert set(words[3:]) == {
        "--cluster-kubeconfig=/my files/config",
        "--cluster-context=my member",
        "--kubeconfig=hub.yaml",
        "--context=the hub",
    }
    assert unknown.findings[0].command == ""
    assert "fedhpa join m1 --cluster-kubeconfig FILE" in unknown.findings[0].advice


HOSTILE = "x; rm -rf $HOME `id` {0} '"


async def test_a_command_is_safe_to_paste(made: Installation) -> None:
    """A name of others is one word of the command, whatever it contains."""
    taints = [{"key": HOSTILE, "effect": "NoSchedule"}]
    made.edit(CLUSTERS, "m1", spec={"taints": taints})
    theirs = {**made.store.get(VALIDATING, "", "fedhpa-webhook"), "metadata": {"name": HOSTILE}}
    made.store.create(VALIDATING, theirs)
    found = commands(await made.diagnosis())

    assert json.loads(shlex.split(found["member-tainted"])[-1])[0]["value"] == HOSTILE
    assert HOSTILE in shlex.split(found["karmada-webhook-registered"])


async def test_a_policy_that_refuses_valid_objects_is_quoted(made: Installation) -> None:
    """Another webhook, or a policy, refuses what ours admits."""
    found = made.store.get(VALIDATING, "", "fedhpa-webhook")
    strict = {
        **found["webhooks"][1],
        "name": "strict.example.com",
        "rules": found["webhooks"][0]["rules"],
    }
    made.store.create(VALIDATING, {**found, "metadata": {"name": "strict"}, "webhooks": [strict]})
    report = await made.diagnosis()

    assert [each.id for each in report.findings] == ["webhook-refuses-valid-objects"]


def grant(made: Installation, *, distributed: bool) -> None:
    """Gives the hub's token its printed rights in both members."""
    switches = Switches("direct", distributed=distributed)
    (role,) = [
        each
        for each in rights.member_rights(NAMESPACE, switches=switches)
        if (each["kind"], each["metadata"]["name"]) == ("ClusterRole", "fedhpa:member")
    ]
    for member in made.plane.members.values():
        merge(member.store, CLUSTER_ROLES, "fedhpa:member", rules=role["rules"])


def distribute(made: Installation, labels: dict[str, str]) -> None:
    """Changes the mode of the FederatedHPA, and makes an HPA of its target in one member."""
    made.edit(FHPAS, "web", "shop", spec={"mode": "Distributed"})
    hpa: dict[str, Any] = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "shop", "labels": labels},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "maxReplicas": 3,
        },
    }
    made.plane.members["m1"].store.create(HPAS, hpa)


@pytest.mark.parametrize(
    ("labels", "expected"), [({MANAGED_BY: MANAGER}, []), ({}, ["second-owner"])], ids=["ours", "foreign"]
)
async def test_a_member_hpa_of_ours_is_no_second_owner(
    made: Installation, labels: dict[str, str], expected: list[str]
) -> None:
    grant(made, distributed=True)
    distribute(made, labels)
    report = await made.diagnosis()

    assert [each.id for each in report.findings] == expected


async def test_a_token_that_may_not_write_hpas_is_found(made: Installation) -> None:
    """The command grants what mode Distributed needs."""
    grant(made, distributed=False)
    distribute(made, {MANAGED_BY: MANAGER})
    report = await made.diagnosis()

    assert {each.id for each in report.findings} == {"member-rights-missing"}
    assert "create horizontalpodautoscalers.autoscaling" in report.findings[0].what
    command = "fedhpa rbac member -n fedhpa-system --propagation=direct --distributed | kubectl apply -f -"
    assert command in report.findings[0].advice
