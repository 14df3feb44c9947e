"""`fedhpa doctor` as it is run: output, exit codes, time, hostile texts, missing rights, the bundle."""

from __future__ import annotations

import json
import stat
import tarfile
import time
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from fedhpa.api import rights
from fedhpa.doctor import examine
from fedhpa.kube import SYSTEM, ApiClient, load_config
from testbed.embedded.api.server import error_response
from testbed.embedded.api.types import StatusError
from testbed.stage.kubeconfig import write_kubeconfig
from testbed.stage.registrations import CLUSTER_NAMESPACE, NAMESPACE
from tests.support.commands import Ran, fedhpa, fedhpa_process, fedhpa_thread
from tests.support.installation import (
    CLUSTER_ROLES,
    CLUSTERS,
    CONTROLLER_LEASES,
    CRONS,
    FHPAS,
    LEASES,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    VALIDATING,
    Installation,
    encoded,
    installation,
)
from tests.support.nightly import NIGHTLY
from tests.support.plane_faults import Fault, faults_of

# For tests that share the installation of the file.
shared = pytest.mark.asyncio(loop_scope="module")

TEN = tuple(f"m{number}" for number in range(10))


async def doctor(made: Installation, *arguments: str, kubeconfig: Path | None = None) -> Ran:
    """Runs the command in a thread, while the servers run in this loop. A process would cost a second."""
    config = ("--kubeconfig", str(kubeconfig or made.hub.kubeconfig))
    return await fedhpa_thread("doctor", *config, *arguments)


async def found(made: Installation, kubeconfig: Path, *, seconds: float = 3.0) -> list[str]:
    """Returns the ids that the caller of a kubeconfig finds."""
    async with ApiClient(await load_config(str(kubeconfig), clock=SYSTEM)) as client:
        return [each.id for each in (await examine(client, seconds=seconds, clock=SYSTEM)).findings]


@shared
async def test_a_sound_installation_is_two_lines(made: Installation) -> None:
    """The first line is the context and the server. Exit code 0 without a finding, 1 with one."""
    config = ("--kubeconfig", str(made.hub.kubeconfig))
    # A new process costs a second, and only shows that the command can be installed.
    sound = await (fedhpa_process if NIGHTLY else fedhpa_thread)("doctor", *config)
    made.delete(SECRETS, "m1", CLUSTER_NAMESPACE)
    broken = await doctor(made)
    as_json = await doctor(made, "-o", "json")
    server = made.hub.server

    assert (sound.code, sound.out, sound.err) == (
        0,
        f"context hub, server {server}\nhealthy (members: 1, FederatedHPAs: 1, CronFederatedHPAs: 1)\n",
        "",
    )
    assert (broken.code, broken.err) == (1, "")
    assert broken.out.splitlines()[:4] == [
        f"context hub, server {server}",
        "1 finding",
        "member-secret-missing  m1",
        "  what  The Secret karmada-cluster/m1 does not exist.",
    ]
    report = json.loads(as_json.out)
    assert (as_json.code, report["healthy"], report["notChecked"]) == (1, False, [])
    assert [each["id"] for each in report["findings"]] == ["member-secret-missing"]
    assert set(report["findings"][0]) == {"id", "subject", "what", "why", "command", "advice"}
    assert (report["context"], report["server"]) == ("hub", server)


async def test_ten_members_take_less_than_five_seconds(tmp_path: Path) -> None:
    """The time includes the CPU of the eleven API servers, which share this process.

    Then one member hangs. It costs its deadline once, and the others are followed meanwhile.
    """
    async with installation(tmp_path, TEN) as made:
        began = time.process_time()
        report = await made.diagnosis()
        seconds = time.process_time() - began
        await faults_of(made.plane.members["m3"]).set(Fault.HANG)
        hung = await made.diagnosis(seconds=5.0)
        await faults_of(made.plane.members["m3"]).clear()

    assert (report.findings, report.not_checked) == ((), ())
    assert seconds < 5
    assert [(each.id, each.subject) for each in hung.findings] == [("member-unreachable", "m3")]
    assert set(hung.versions) == {"hub", *TEN} - {"m3"}


@shared
async def test_a_controller_that_stopped_keeps_its_rights(made: Installation) -> None:
    """Outside a pod the Leases are in kube-system, where a stopped controller leaves them."""
    granted = rights.hub_rights(NAMESPACE, lease_namespace="kube-system", components=["controller"])
    for manifest in granted:
        collection = {"Role": ROLES, "RoleBinding": ROLE_BINDINGS}.get(manifest["kind"])
        if collection is not None:
            made.store.create(collection, manifest)
    made.store.remove(ROLES, NAMESPACE, "fedhpa:controller:leases")
    for name in CONTROLLER_LEASES:
        lease = made.store.get(LEASES, NAMESPACE, name)
        made.delete(LEASES, name, NAMESPACE)
        metadata = {"namespace": "kube-system", "name": name}
        spec = {**lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
        made.store.create(LEASES, {**lease, "metadata": metadata, "spec": spec})
    report = await made.diagnosis()

    assert [each.id for each in report.findings] == ["controller-not-running"]


ODD: list[dict[str, Any]] = [
    {"spec": {"scaleTargetRef": "x"}, "status": [1]},
    {"spec": None, "status": {"summary": "x", "decision": [], "conditions": 7}},
    {"spec": {"scaleTargetRef": {"name": ["x"], "kind": {}}}, "status": {"decision": {"time": {}}}},
    {
        "spec": {
            "scaleTargetRef": {"name": "..", "kind": "Deployment", "apiVersion": "apps/v1/x"},
            "rules": 1,
        }
    },
    {"metadata": {"managedFields": [{"manager": "karmada-controller-manager", "time": "x"}, {}]}},
]


@shared
async def test_odd_objects_spoil_nothing(made: Installation) -> None:
    """A hub without our schema stores anything. The other checks are made all the same."""
    for number, odd in enumerate(ODD):
        for collection, kind in ((FHPAS, "FederatedHPA"), (CRONS, "CronFederatedHPA")):
            metadata = {"name": f"odd-{number}", "namespace": "shop", **odd.get("metadata", {})}
            head = {"apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": kind}
            made.store.create(collection, {**head, **odd, "metadata": metadata})
    made.delete(SECRETS, "m1", CLUSTER_NAMESPACE)
    report = await made.diagnosis()

    unreadable = ["object-not-ready"] * 2 * len(ODD)
    assert [each.id for each in report.findings] == ["member-secret-missing", *unreadable]


@shared
async def test_an_installation_for_some_namespaces_and_workloads_is_silent(made: Installation) -> None:
    """The chart limits the webhook to the namespaces of --watch-namespaces. Elsewhere it is not asked.

    It can also limit the rights to Deployments, the only kind that an object scales here.
    """
    found = made.store.get(VALIDATING, "", "fedhpa-webhook")
    for hook in found["webhooks"]:
        expression = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["shop"]}
        hook["namespaceSelector"] = {"matchExpressions": [expression]}
    made.store.update(VALIDATING, found)
    member = made.plane.members["m1"].store
    for store, name in ((made.store, "fedhpa:controller"), (member, "fedhpa:member")):
        role = store.get(CLUSTER_ROLES, "", name)
        others = ("replicasets", "statefulsets")
        for rule in role["rules"]:
            rule["resources"] = [one for one in rule.get("resources", ()) if not one.startswith(others)]
        store.update(CLUSTER_ROLES, role)
    report = await made.diagnosis()

    assert (report.findings, report.not_checked) == ((), ())


@shared
async def test_each_break_before_the_hub_is_its_finding(made: Installation, tmp_path: Path) -> None:
    """The kubeconfig, TLS, the login and the hub itself are broken in turn; nothing behind is reported."""
    hub, own = made.hub, made.hub.kubeconfig
    stranger = write_kubeconfig(
        tmp_path / "stranger", hub.server, hub.pki.ca.bundle_pem, {"token": "unknown-token-of-nobody"}
    )
    results = {"hub-login-refused": await found(made, stranger)}
    for kind, fault in (
        ("hub-certificate", Fault.WRONG_CA),
        ("hub-certificate", Fault.EXPIRED),
        ("hub-failing", Fault.SERVER_ERROR),
        ("hub-unreachable", Fault.REFUSE),
    ):
        await faults_of(hub).set(fault)
        results[kind] = await found(made, own)
        await faults_of(hub).clear()

    assert results == {kind: [kind] for kind in results}
    assert len(results) == 4


def test_an_unreadable_kubeconfig_is_a_finding(tmp_path: Path) -> None:
    """The finding names the file. A wrong --timeout is wrong usage."""
    ran = fedhpa("doctor", "--kubeconfig", str(tmp_path / "absent"))
    wrong = fedhpa("doctor", "--timeout", "0")

    assert (ran.returncode, ran.stderr) == (1, "")
    assert f"kubeconfig-unusable  kubeconfig\n  what  kubeconfig {tmp_path}/absent: " in ran.stdout
    assert (wrong.returncode, wrong.stdout) == (2, "")


@shared
async def test_a_caller_without_rights_is_told_what_was_not_checked(made: Installation) -> None:
    """One line names each check with the right that it lacks. None is a finding, and the code is 3."""
    ran = await doctor(made, kubeconfig=made.hub.user_kubeconfig("tenant"))

    lines = ran.out.splitlines()
    assert ran.code == 3
    assert lines[1] == "nothing was found, but 14 checks were not made (members: 0)"
    assert lines[3:] == ["with rights in one namespace, check that alone: fedhpa doctor -n NAMESPACE"]
    begins, _, rights = lines[2].partition(": ")
    assert begins == "not checked, because you lack the right in brackets"
    accounts = ", ".join(
        f"the rights of fedhpa-{one}" for one in ("controller", "metrics-adapter", "webhook")
    )
    assert {
        f"{accounts} (get clusterrolebindings)",
        "the registration of the webhook (list validatingwebhookconfigurations)",
        "the members (list clusters)",
        "the Leases of the controller (list leases)",
        "the FederatedHPAs (list federatedhpas)",
    } <= set(rights.replace("), ", ")|").split("|"))


@shared
async def test_a_hostile_member_is_quoted_on_one_short_line(made: Installation) -> None:
    """Control characters, the hub's own token and megabytes in a member's error never reach the terminal."""
    member = made.plane.members["m1"]
    token = member.credentials().token
    made.edit(SECRETS, "m1", CLUSTER_NAMESPACE, data={"token": encoded(token)})

    async def lie(_: web.Request, __: Any) -> web.StreamResponse:
        text = f"\x1b[31mred\x07\u202e Bearer {token} " + "x" * 1_000_000
        return error_response(StatusError(500, "InternalError", text))

    member.apiserver.route = lambda path: lie if path.startswith("/apis/metrics") else member.route(path)
    ran = await doctor(made)

    assert ran.code == 1
    assert "member-metrics-failing  m1" in ran.out
    assert ran.out.replace("\n", "").isprintable()
    assert token[:20] not in ran.out
    assert max(map(len, ran.out.splitlines())) < 500


# Each secret is recognisable in any place of the bundle.
JWT = "eyJhbGciOiJSUzI1NiJ9.SECRETSECRET.signature"
SEEDS = {
    "in last-applied": f'{{"token":"SEEDED-last-applied","x":"{JWT}"}}',
    "in a proxy": "http://user:SEEDED-proxy@proxy.example.com:3128",
    "in a message": "Authorization: Bearer SEEDED-message-token",
    "in a URL": "cannot reach https://admin:SEEDED-url@10.0.0.1:6443",
    "a key": "-----BEGIN EC PRIVATE KEY-----\nSEEDEDKEY\n-----END EC PRIVATE KEY-----",
    "a password": "password=SEEDED-password rest",
}


async def seed(made: Installation) -> list[str]:
    """Writes secrets wherever people and programs put them. Returns texts that no bundle may contain."""
    data = {
        "token": encoded(made.plane.members["m1"].credentials().token),
        "kubeconfig": encoded("SEEDED-kubeconfig"),
    }
    made.edit(SECRETS, "m1", CLUSTER_NAMESPACE, data=data)
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": SEEDS["in last-applied"], "note": JWT}
    conditions = [
        {"type": "Ready", "status": "True", "reason": "R", "message": text}
        for text in (SEEDS["in a message"], SEEDS["in a URL"], SEEDS["a key"], SEEDS["a password"], JWT)
    ]
    for collection, name, space in ((FHPAS, "web", "shop"), (CRONS, "night", "shop"), (CLUSTERS, "m1", "")):
        status = {"conditions": conditions, "summary": {"reason": SEEDS["in a URL"]}}
        made.edit(collection, name, space, metadata={"annotations": annotations}, status=status)
    made.edit(
        CLUSTERS,
        "m1",
        spec={
            "insecureSkipTLSVerification": None,
            "proxyHeader": {"Proxy-Authorization": "Basic SEEDED-header"},
            "token": "SEEDED-unknown-field",
        },
    )
    made.store.create(
        ("", "events"),
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "e1", "namespace": "shop", "annotations": annotations},
            "involvedObject": {"kind": "FederatedHPA", "namespace": "shop", "name": "web"},
            "reason": "SuccessfulRescale",
            "message": SEEDS["in a message"],
            "type": "Normal",
        },
    )
    token = made.plane.members["m1"].credentials().token
    return ["SEEDED", "SECRETSECRET", token, encoded(token), "BEGIN", b64encode(b"-----BEGIN").decode()[:12]]


@shared
async def test_the_bundle_has_what_a_report_needs_and_no_secret(made: Installation, tmp_path: Path) -> None:
    """Secrets are seeded in annotations, Secrets, fields, messages and URLs, and none is in the bundle."""
    file = tmp_path / "bundle.tar.gz"
    forbidden = await seed(made)
    ran = await doctor(made, "--bundle", str(file))
    # No hub is asked.
    again = await doctor(made, "--bundle", str(file), kubeconfig=tmp_path / "absent")

    assert (ran.code, ran.err) == (0, "")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with tarfile.open(file) as archive:
        texts = {
            member.name.removeprefix("fedhpa-doctor/"): archive.extractfile(member).read().decode()  # type: ignore[union-attr]
            for member in archive
        }
    assert sorted(texts) == [
        "clusters.json",
        "cronfederatedhpas.json",
        "events.json",
        "federatedhpas.json",
        "leases.json",
        "report.json",
        "versions.json",
    ]
    together = "\n".join(texts.values())
    assert [text for text in forbidden if text in together] == []
    assert json.loads(texts["federatedhpas.json"])[0]["spec"]["maxReplicas"] == 4
    assert [each["metadata"]["name"] for each in json.loads(texts["clusters.json"])] == ["m1"]
    assert len(json.loads(texts["leases.json"])) == 3
    assert json.loads(texts["events.json"])[0]["reason"] == "SuccessfulRescale"
    assert json.loads(texts["versions.json"])["m1"] == "v1.36.3+embedded"
    assert (again.code, again.err) == (2, f"fedhpa: --bundle={file}: exists already: name a new file\n")


def test_a_bundle_without_a_hub_has_the_report(tmp_path: Path) -> None:
    file = tmp_path / "bundle.tar.gz"
    ran = fedhpa("doctor", "--kubeconfig", str(tmp_path / "absent"), "--bundle", str(file))
    with tarfile.open(file) as archive:
        names = sorted(member.name for member in archive)

    assert ran.returncode == 1
    assert names == [f"fedhpa-doctor/{name}.json" for name in ("report", "versions")]


@pytest.mark.parametrize("text", [*SEEDS.values(), JWT])
def test_texts_that_look_like_credentials_are_removed(text: str) -> None:
    """The rest of the text stays."""
    from fedhpa.doctor.bundle import scrubbed

    cleaned = scrubbed({"message": f"before {text} after", "token": "SEEDED"})

    assert "SEEDED" not in str(cleaned)
    assert "SECRETSECRET" not in str(cleaned)
    assert cleaned["message"].startswith("before ")
