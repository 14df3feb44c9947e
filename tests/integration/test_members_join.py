"""`fedhpa join` and `fedhpa unjoin` against an embedded hub and member, over TLS."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import yaml

from fedhpa.admission import crd
from fedhpa.api.member_hpas import MANAGED_BY, MANAGER, OWNER
from fedhpa.api.rights import hub_rights
from testbed.embedded.cluster.load import Load
from testbed.embedded.cluster.member import Member
from testbed.embedded.controlplane import ControlPlane
from testbed.stage import PlaneApi
from tests.support.commands import fedhpa

NAMESPACE = "fedhpa-system"
CLUSTER = "/apis/cluster.karmada.io/v1alpha1/clusters/east"
SECRET = f"/api/v1/namespaces/{NAMESPACE}/secrets/fedhpa-member-east"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
KINDS = (
    "/api/v1/secrets",
    "/api/v1/serviceaccounts",
    f"{RBAC}/roles",
    f"{RBAC}/rolebindings",
    f"{RBAC}/clusterroles",
    f"{RBAC}/clusterrolebindings",
)
OURS = "app.kubernetes.io/part-of=fedhpa"


@dataclasses.dataclass
class World:
    """A hub and a member that does not know it."""

    hub: ControlPlane
    member: Member
    folder: Path

    async def run(
        self, command: str, *options: str, member: Path | None = None, name: str = "east"
    ) -> CompletedProcess[str]:
        """Runs the command for the Cluster in a thread, as administrator of both sides."""
        arguments = [command, name, f"--kubeconfig={self.hub.kubeconfig}", *options]
        if not any(option.startswith("--cluster-kubeconfig") for option in options):
            arguments.append(f"--cluster-kubeconfig={member or self.member.kubeconfig}")
        return await asyncio.to_thread(fedhpa, *arguments)

    def changed(self, **cluster: Any) -> Path:
        """Writes the member's kubeconfig with other fields of its cluster; None removes a field."""
        content = yaml.safe_load(self.member.kubeconfig.read_text(encoding="utf-8"))
        fields = content["clusters"][0]["cluster"]
        for name, value in cluster.items():
            fields[name.replace("_", "-")] = value
        content["clusters"][0]["cluster"] = {key: value for key, value in fields.items() if value is not None}
        path = self.folder / "changed.kubeconfig"
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
        return path


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A hub with CRDs and rights, and a member."""
    hub, member = ControlPlane(tmp_path / "hub", "hub"), Member(tmp_path / "east", "east", Load())
    try:
        await hub.start()
        await member.start()
        async with hub.api() as api:
            spaces = [named("kube-system"), named(NAMESPACE)]
            definition = crd.custom_resource_definition(crd.CLUSTER)
            await api.apply_all([*spaces, definition, *hub_rights()])
        async with member.api() as api:
            await api.apply_all([named("kube-system")])
        yield World(hub, member, tmp_path)
    finally:
        await member.end()
        await hub.end()


def named(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


async def ours(plane: ControlPlane) -> set[str]:
    """The kinds and names of all objects with our label."""
    found = set()
    async with plane.api() as api:
        for path in KINDS:
            listed = await api.get(path, labelSelector=OURS)
            kind = path.rpartition("/")[2]
            found |= {f"{kind}/{item['metadata']['name']}" for item in listed["items"]}
    return found


async def token_of(hub: ControlPlane) -> str:
    async with hub.api() as api:
        return base64.b64decode((await api.get(SECRET))["data"]["token"]).decode()


async def status_of(api: PlaneApi, path: str) -> int:
    return (await api.request("GET", path))[0]


async def test_a_member_joins(world: World) -> None:
    """The controller's token may write scales, and the adapter's only reads metrics. One renews both."""
    ran = await world.run("join")
    async with world.hub.api() as hub:
        cluster, secret = await hub.get(CLUSTER), await hub.get(SECRET)
        for_metrics = await hub.get(f"{SECRET}-metrics")
    token = base64.b64decode(secret["data"]["token"]).decode()

    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("east has joined.")
    assert token not in ran.stdout
    assert cluster["spec"] == {
        "syncMode": "Push",
        "apiEndpoint": world.member.server,
        "secretRef": {"namespace": NAMESPACE, "name": "fedhpa-member-east"},
        "id": cluster["spec"]["id"],
    }
    assert base64.b64decode(secret["data"]["caBundle"]) == world.member.pki.ca.bundle_pem
    assert secret["metadata"]["labels"]["fedhpa.io/renew-token"] == "true"
    async with world.member.api(token=token) as api:
        assert await status_of(api, "/api/v1/pods") == 200
        assert await status_of(api, "/api/v1/secrets") == 403
    reading = base64.b64decode(for_metrics["data"]["token"]).decode()
    async with world.member.api(token=reading) as api:
        assert await status_of(api, "/apis/metrics.k8s.io/v1beta1/pods") == 200
        assert await status_of(api, "/api/v1/pods") == 403
        renewal = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/fedhpa-hub-metrics/token"
        assert (await api.request("POST", renewal, body={}))[0] == 403
    for account, reads, reads_metrics in (
        ("fedhpa-controller", 200, 200),
        ("fedhpa-metrics-adapter", 403, 200),
        ("fedhpa-webhook", 403, 403),
    ):
        mine, _ = world.hub.authenticator.issue(NAMESPACE, account)
        async with world.hub.api(token=mine) as api:
            assert await status_of(api, SECRET) == reads
            assert await status_of(api, f"{SECRET}-metrics") == reads_metrics
            assert await status_of(api, SECRET.rpartition("/")[0]) == 403
            for each in (secret, for_metrics):
                path = f"{SECRET.rpartition('/')[0]}/{each['metadata']['name']}"
                written, _, _ = await api.request("PUT", path, body=each)
                assert written == (200 if account == "fedhpa-controller" else 403)


async def test_joining_twice_gives_a_new_token(world: World) -> None:
    """The command can be repeated, for example after an error or to change the rights. The kubeconfig may
    name the CA as a file.
    """
    await world.run("join")
    before = await token_of(world.hub)
    file = world.folder / "member-ca.crt"
    file.write_bytes(world.member.pki.ca.bundle_pem)
    with_file = world.changed(certificate_authority_data=None, certificate_authority=str(file))
    again = await world.run("join", "--propagation=karmada", member=with_file)

    assert (again.returncode, again.stderr) == (0, "")
    assert await token_of(world.hub) != before
    async with world.member.api() as api:
        role = await api.get(f"{RBAC}/clusterroles/fedhpa:member")
        assert not [rule for rule in role["rules"] if "update" in rule["verbs"]]


async def test_nothing_dangles_after_unjoin(world: World) -> None:
    """All labelled objects but those of the processes are gone. With --force a second time is no error."""
    processes = await ours(world.hub)
    await world.run("join")
    ran = await world.run("unjoin")
    again = await world.run("unjoin", "--force")

    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == (
        "The hub has forgotten east.\neast has forgotten the hub. Its namespace fedhpa-system stays.\n"
    )
    assert await ours(world.hub) == processes
    assert await ours(world.member) == set()
    async with world.hub.api() as hub:
        assert await hub.find(CLUSTER) is None
    assert again.returncode == 0
    assert again.stdout.splitlines() == [
        "The hub has nothing of east in namespace fedhpa-system.",
        "east has nothing of the hub in namespace fedhpa-system.",
    ]


def member_hpa(name: str, owner: str | None, **labels: str) -> dict[str, Any]:
    """An HPA in the member with our label, and with the annotation unless `owner` is None."""
    metadata = {"namespace": "default", "name": name, "labels": {MANAGED_BY: MANAGER, **labels}}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": metadata | ({} if owner is None else {"annotations": {OWNER: owner}}),
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "maxReplicas": 3,
        },
    }


async def put_hpas(world: World) -> None:
    """Puts HPAs of this hub, of another one, of nobody and of Karmada into the member."""
    async with world.hub.api() as hub, world.member.api() as member:
        uid = (await hub.get("/api/v1/namespaces/kube-system"))["metadata"]["uid"]
        hpas = [
            member_hpa("ours", f"{uid}/default/ours/1"),
            member_hpa("older", None),
            member_hpa("theirs", "another-hub/default/theirs/1"),
            member_hpa("carried", f"{uid}/default/carried/1", **{"karmada.io/managed": "true"}),
            {**member_hpa("plain", None), "metadata": {"namespace": "default", "name": "plain"}},
        ]
        await member.apply_all(hpas)


async def hpas_of(world: World) -> set[str]:
    async with world.member.api() as member:
        listed = await member.get("/apis/autoscaling/v2/horizontalpodautoscalers")
    return {item["metadata"]["name"] for item in listed["items"]}


async def test_unjoin_removes_the_hpas_that_this_hub_made(world: World) -> None:
    """They would go on scaling without a hub. HPAs of others stay, and those of another hub are named."""
    await world.run("join")
    await put_hpas(world)
    ran = await world.run("unjoin")
    left = await hpas_of(world)
    rebuilt = await world.run("unjoin", "--hub-id=another-hub", "--force")

    assert (ran.returncode, ran.stderr) == (0, "")
    assert "Removed 2 HorizontalPodAutoscalers of mode Distributed. Replicas stay as they are." in ran.stdout
    assert "HorizontalPodAutoscalers of other hubs stay" in ran.stdout
    assert "default/theirs" in ran.stdout
    assert left == {"theirs", "carried", "plain"}
    assert rebuilt.returncode == 0
    assert await hpas_of(world) == {"carried", "plain"}


async def test_without_the_members_kubeconfig_the_command_is_named(world: World) -> None:
    """The hub forgets the member, which may not exist any more."""
    await world.run("join")
    hub = f"--kubeconfig={world.hub.kubeconfig}"
    typo = await asyncio.to_thread(fedhpa, "unjoin", "esat", hub)
    ran = await asyncio.to_thread(fedhpa, "unjoin", "east", hub)

    assert "kubectl get clusters\nThe account and the rights in the member may remain." in typo.stdout
    assert "The account and the rights in the member remain." in ran.stdout
    assert ran.returncode == 0
    assert "fedhpa unjoin east --namespace=fedhpa-system --cluster-kubeconfig=FILE" in ran.stdout
    assert (
        "kubectl --kubeconfig=FILE delete horizontalpodautoscalers --all-namespaces "
        "--selector=autoscaling.karmada.io/managed-by=fedhpa"
    ) in ran.stdout
    assert await ours(world.member) != set()


async def test_a_cluster_of_another_owner_stays_his(world: World) -> None:
    """On Karmada's hub only an annotation names our Secret, and Karmada's Secret is not touched."""
    spec = {
        "syncMode": "Push",
        "apiEndpoint": world.member.server,
        "secretRef": {"namespace": "karmada-cluster", "name": "east"},
    }
    theirs = {"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "east"}}
    async with world.hub.api() as hub:
        await hub.apply({**theirs, "spec": spec})
        joined = await world.run("join")
        cluster = await hub.get(CLUSTER)
        left = await world.run("unjoin")
        after = await hub.get(CLUSTER)

    assert (joined.returncode, left.returncode) == (0, 0)
    assert "belongs to another owner" in joined.stderr
    assert cluster["spec"] == after["spec"] == spec
    assert cluster["metadata"]["annotations"] == {"fedhpa.io/secret": "fedhpa-system/fedhpa-member-east"}
    assert not after["metadata"].get("annotations")


ERRORS = [
    ("no such file", ["--cluster-kubeconfig=/nowhere"], "--cluster-kubeconfig"),
    ("no such context", ["--cluster-context=west"], "has no context 'west'"),
    ("short life", ["--token-lifetime=5m"], "--token-lifetime=5m: expected a duration from 10m"),
    ("no duration", ["--token-lifetime=soon"], "--token-lifetime: 'soon' is not a duration"),
    ("no scale target", ["--scale-target=x"], "--scale-target='x': expected GROUP/RESOURCE"),
    ("no https", ["--api-endpoint=http://10.0.0.1"], "--api-endpoint: http://10.0.0.1: expected https://"),
    ("no namespace", ["--namespace=Not_One"], "--namespace='Not_One': a lowercase RFC 1123 label"),
]


@pytest.fixture
async def untouched(world: World) -> AsyncIterator[World]:
    """The world; afterwards the hub has no Cluster and no Secret."""
    yield world
    async with world.hub.api() as hub:
        assert await hub.find(CLUSTER) is None
        assert await hub.find(SECRET) is None


def refusal(ran: CompletedProcess[str]) -> str:
    """The one line on standard error."""
    assert ran.returncode == 2, ran.stdout
    assert ran.stderr.count("\n") == 1
    return ran.stderr


async def test_each_wrong_argument_is_named(untouched: World) -> None:
    """One line has the option and the remedy, and nothing is written."""
    for case, options, text in ERRORS:
        assert text in refusal(await untouched.run("join", *options)), case
    for name in ("East", "a.b", "x" * 64, "-x"):
        ran = await asyncio.to_thread(fedhpa, "join", "--cluster-kubeconfig=/nowhere", "--", name)
        assert f"NAME={name!r}" in refusal(ran)
    missing = await asyncio.to_thread(fedhpa, "join", "east")
    assert "--cluster-kubeconfig is missing" in refusal(missing)


async def test_a_member_that_cannot_be_used_is_named(untouched: World) -> None:
    """The hub itself, known by the UID of kube-system, one that does not answer, one without a CA, because
    the system's CAs of this machine are not those of the processes, and one or a hub that lacks rights.
    """
    itself = await untouched.run("join", member=untouched.hub.kubeconfig)
    away = await untouched.run("join", member=untouched.changed(server="https://127.0.0.1:1"))
    without_ca = await untouched.run("join", member=untouched.changed(certificate_authority_data=None))
    no_rights = await untouched.run("join", member=untouched.member.user_kubeconfig("nobody"))
    arguments = ("join", "east", f"--kubeconfig={untouched.hub.user_kubeconfig('nobody')}")
    hub = await asyncio.to_thread(fedhpa, *arguments, f"--cluster-kubeconfig={untouched.member.kubeconfig}")

    assert "the hub and the member are the same cluster" in refusal(itself)
    assert refusal(away).startswith("fedhpa: the member: ")
    assert (
        "check --cluster-kubeconfig and --cluster-context, and the member with: kubectl cluster-info"
        in away.stderr
    )
    assert "certificate" in refusal(without_ca)
    ask = "ask an administrator of the {} for this right, or choose another --{}context"
    assert ask.format("member", "cluster-") in refusal(no_rights)
    assert ask.format("hub", "") in refusal(hub)


async def test_an_unverified_member_needs_a_flag(world: World) -> None:
    """With the flag the Cluster says that nobody verifies the certificate, and a warning says why not to."""
    careless = world.changed(insecure_skip_tls_verify=True, certificate_authority_data=None)
    refused = await world.run("join", member=careless)
    accepted = await world.run("join", "--insecure-skip-tls-verify", member=careless)
    async with world.hub.api() as hub:
        insecure = (await hub.get(CLUSTER))["spec"]
        careful = await world.run("join")
        secure = (await hub.get(CLUSTER))["spec"]

    assert "add --insecure-skip-tls-verify" in refusal(refused)
    assert accepted.returncode == careful.returncode == 0
    assert accepted.stderr.startswith("warning: ")
    assert insecure["insecureSkipTLSVerification"] is True
    assert "insecureSkipTLSVerification" not in secure


async def test_a_taken_name_is_refused(world: World) -> None:
    """A Cluster of another endpoint, or a Secret of another owner, is never replaced."""
    cluster = {"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "east"}}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "fedhpa-member-east", "namespace": NAMESPACE},
    }
    async with world.hub.api() as hub:
        await hub.apply({**cluster, "spec": {"syncMode": "Push", "apiEndpoint": "https://10.9.9.9"}})
        other = await world.run("join")
        await hub.send("DELETE", CLUSTER)
        await hub.apply(secret)
        foreign = await world.run("join")
        stored = await hub.get(SECRET)

    assert (
        "another endpoint (https://10.9.9.9): choose another name, or remove it first with: fedhpa unjoin"
        in (refusal(other))
    )
    assert "exists without the label fedhpa.io/cluster=east" in refusal(foreign)
    assert "data" not in stored


async def test_a_hub_that_cannot_take_a_member_is_left_alone(
    untouched: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hub is written only after the member has accepted the new token. The CRD of Cluster is not among
    those of a plain cluster.
    """
    monkeypatch.setattr("fedhpa.cli.join.registration.SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(untouched.member.authenticator, "bearer", lambda _: None)
    no_token = await untouched.run("join")
    async with untouched.hub.api() as hub:
        name = "clusters.cluster.karmada.io"
        await hub.send("DELETE", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")
    no_kind = await untouched.run("join")

    assert "the member does not accept the new token of fedhpa-system/fedhpa-hub" in refusal(no_token)
    assert "the hub was left as it was" in no_token.stderr
    assert "see how to install it with: fedhpa doctor" in refusal(no_kind)


def documents(text: str) -> Iterator[dict[str, Any]]:
    yield from (one for one in yaml.safe_load_all(text) if one)


async def test_print_contacts_nobody(untouched: World) -> None:
    """It prints one part for each side, without a token, and says how the token comes to the hub."""
    ran = await untouched.run("join", "--print", member=untouched.changed(server="https://203.0.113.1:6443"))
    member, hub = ran.stdout.split("# Part of the hub")
    kinds = [one["kind"] for one in documents(hub.partition("\n---\n")[2])]

    assert (ran.returncode, ran.stderr) == (0, "")
    assert [one["kind"] for one in documents(member)][-1] == "Secret"
    assert "type: kubernetes.io/service-account-token" in member
    assert kinds == ["Namespace", *["Secret"] * 2, *["Role", "RoleBinding"] * 3, "Cluster"]
    secret = next(one for one in documents(hub.partition("\n---\n")[2]) if one["kind"] == "Secret")
    assert set(secret["data"]) == {"caBundle"}
    assert "fedhpa.io/renew-token" not in secret["metadata"]["labels"]
    assert "kubectl -n fedhpa-system patch secret fedhpa-member-east " in hub
    assert "kubectl -n fedhpa-system patch secret fedhpa-member-east-metrics " in hub


async def test_the_wrong_member_is_not_emptied(world: World, tmp_path: Path) -> None:
    """unjoin compares the identity of the cluster with the registered one."""
    other = Member(tmp_path / "west", "west", Load())
    try:
        await other.start()
        async with other.api() as api:
            await api.apply(named("kube-system"))
        before = await ours(other)
        await world.run("join")
        ran = await world.run("unjoin", member=other.kubeconfig)
        after = await ours(other)
    finally:
        await other.end()

    assert "is another cluster than the one that is registered as east" in refusal(ran)
    assert after == before != set()
    async with world.hub.api() as hub:
        assert await hub.find(CLUSTER) is not None


async def remove_id(world: World, name: str) -> None:
    """Removes spec.id from a Cluster, as older manifests and `join --print` write it."""
    async with world.hub.api() as hub:
        cluster = await hub.get(CLUSTER.replace("east", name))
        del cluster["spec"]["id"]
        await hub.send("PUT", CLUSTER.replace("east", name), body=cluster)


async def test_a_cluster_joins_under_one_name(world: World) -> None:
    """Two names of one cluster would fight over its replicas. The other name is in the message."""
    await world.run("join")
    for with_id in (True, False):
        if not with_id:
            await remove_id(world, "east")
        before, token = await ours(world.member), await token_of(world.hub)
        ran = await world.run("join", name="east2")
        again = await world.run("join")

        assert "NAME=east2: the hub knows this cluster as east" in refusal(ran), with_id
        assert "fedhpa unjoin east" in ran.stderr
        async with world.hub.api() as hub:
            assert await hub.find(CLUSTER.replace("east", "east2")) is None
        assert again.returncode == 0
        assert await ours(world.member) == before
        assert await token_of(world.hub) != token


async def test_unjoin_of_an_unknown_name_disconnects_nobody(world: World) -> None:
    """A slip in the name must not remove the account that another name uses. A member that no name uses may
    be left from an unjoin that ended half-way, so --force removes its account.
    """
    await world.run("join")
    before = await ours(world.member)
    for option in ((), ("--force",)):
        ran = await world.run("unjoin", *option, name="esat")
        assert "is registered as east" in refusal(ran)
        assert "correct NAME" in ran.stderr
    assert await ours(world.member) == before

    async with world.hub.api() as hub:
        await hub.send("DELETE", CLUSTER)
    ran = await world.run("unjoin")
    kept = await ours(world.member)
    forced = await world.run("unjoin", "--force")

    assert "NAME=east: the hub has no Cluster of that name" in refusal(ran)
    assert "--force" in ran.stderr
    assert kept == before != set()
    assert forced.returncode == 0
    assert await ours(world.member) == set()


async def test_unjoin_of_a_second_name_keeps_the_account_of_the_first(world: World) -> None:
    """A cluster with two names has one account, which the name that stays needs."""
    await world.run("join")
    before = await ours(world.member)
    async with world.hub.api() as hub:
        cluster = await hub.get(CLUSTER)
        metadata = {"name": "east2", "labels": {"fedhpa.io/cluster": "east2"}}
        await hub.apply({**cluster, "metadata": metadata, "status": {}})
    ran = await world.run("unjoin", name="east2")
    left = await asyncio.to_thread(fedhpa, "unjoin", "east2", f"--kubeconfig={world.hub.kubeconfig}")

    assert "is registered as east, too" in refusal(ran)
    assert "leave --cluster-kubeconfig out" in ran.stderr
    assert left.returncode == 0
    assert await ours(world.member) == before
    async with world.hub.api() as hub:
        assert await hub.find(CLUSTER) is not None
        assert await hub.find(CLUSTER.replace("east", "east2")) is None
