"""`fedhpa certs show`, `rotate` and `publish` on the Secrets and registrations of a hub."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from certs import CertificateAuthority
from certs.hub import CertificateStore
from certs.secrets import ROTATE
from certs.stages import Observed
from certs.state import Settings
from controller.certificates.manager import COMPONENT, CertificateManager
from controller.certificates.telemetry import CertificateMetrics
from fedhpa.cli.main import run
from fedhpa.kube import SYSTEM, ApiClient, EventRecorder
from metrics_adapter.registration import Registration, api_services
from tests.support.fakeapi import FakeApi, fake_api
from webhook.registration import Endpoint, configurations

NAMESPACE = "fedhpa-system"
SECRETS = ("v1", "secrets")
ADMISSION = "admissionregistration.k8s.io/v1"
VALIDATING = (ADMISSION, "validatingwebhookconfigurations")
SERVICES = ("apiregistration.k8s.io/v1", "apiservices")


@pytest.fixture
async def hub() -> AsyncIterator[FakeApi]:
    """A hub over plain HTTP with our registrations."""
    async with fake_api(tls=False) as found:
        endpoint = Endpoint(namespace=NAMESPACE, service="fedhpa-webhook")
        for each in [
            *configurations(endpoint, b""),
            *api_services(Registration(), b"", ["custom.metrics.k8s.io"]),
        ]:
            found.put((each["apiVersion"], f"{each['kind'].lower()}s"), each)
        yield found


@pytest.fixture
def kubeconfig(hub: FakeApi, tmp_path: Path) -> str:
    """The path of a kubeconfig of the hub."""
    path = tmp_path / "kubeconfig"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "hub",
        "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "me"}}],
        "clusters": [{"name": "hub", "cluster": {"server": hub.url}}],
        "users": [{"name": "me", "user": {}}],
    }
    path.write_text(yaml.safe_dump(config))
    return str(path)


async def keep(hub: FakeApi, settle: float = 300.0) -> None:
    """Makes all writes that are due, as a leader does."""
    async with ApiClient(hub.config()) as client:
        manager = CertificateManager(
            CertificateStore(client, client, NAMESPACE),
            Settings(settle=settle),
            EventRecorder(client, COMPONENT, wall=SYSTEM.wall),
            CertificateMetrics(CollectorRegistry()),
            clock=SYSTEM,
        )
        manager._memory = Observed()
        await manager.reconcile()


async def command(*arguments: str) -> int:
    """Runs the command in a thread, because it has an event loop of its own."""
    return await asyncio.to_thread(run, ["certs", *arguments])


async def test_a_rotation_can_be_seen_and_asked_for(
    hub: FakeApi, kubeconfig: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first request sets the annotation, later ones say that a rotation goes on."""
    where = f"--kubeconfig={kubeconfig}"
    before = await command("show", where, "-o", "json")
    missing = json.loads(capsys.readouterr().out)
    refused = await command("rotate", where)
    no_ca = capsys.readouterr().err
    await keep(hub)
    shown = await command("show", where, "-o", "json")
    stable = json.loads(capsys.readouterr().out)
    asked = await command("rotate", where)
    capsys.readouterr()
    requested = hub.find(SECRETS, "fedhpa-ca", NAMESPACE)
    await keep(hub)
    again = await command("rotate", where)
    said = capsys.readouterr().err
    text = await command("show", where)
    lines = capsys.readouterr().out

    assert (before, refused, shown, asked, again, text) == (1, 2, 0, 0, 0, 0)
    assert missing["problems"][0]["reason"] == "Missing"
    assert "--manage-certificates" in no_ca
    assert stable["stage"] == "stable"
    assert [root["role"] for root in stable["roots"]] == ["signs"]
    assert {each["signedBy"] for each in stable["certificates"]} == {stable["roots"][0]["fingerprint"]}
    assert all(each["current"] for each in stable["registrations"] if each["status"] == "ours")
    assert requested is not None
    assert ROTATE in requested["metadata"]["annotations"]
    assert "in stage publish" in said
    assert "stage publish" in lines.splitlines()[0]
    assert " next, until " in lines
    assert "mutatingwebhookconfigurations/fedhpa-webhook: has these roots" in lines


async def test_problems_are_shown_with_exit_code_1(
    hub: FakeApi, kubeconfig: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A foreign Secret is one, and text and JSON name it."""
    await keep(hub)
    foreign: Any = copy.deepcopy(hub.find(SECRETS, "fedhpa-webhook-tls", NAMESPACE))
    del foreign["metadata"]["labels"]
    hub.put(SECRETS, foreign)

    code = await command("show", f"--kubeconfig={kubeconfig}")

    assert code == 1
    assert "problem: secrets/fedhpa-webhook-tls: it has no label" in capsys.readouterr().out


async def test_a_ca_is_published(hub: FakeApi, kubeconfig: str, tmp_path: Path) -> None:
    """From a file while no Secret exists, else from the Secret; a foreign APIService keeps its CA."""
    theirs = api_services(Registration("kube-system", "metrics-server"), b"x", ["metrics.k8s.io"])[0]
    hub.put(SERVICES, theirs)
    CertificateAuthority.create("ca").save(tmp_path)
    file, where = f"--ca-file={tmp_path / 'ca.crt'}", f"--kubeconfig={kubeconfig}"

    def bundle() -> str:
        found: Any = hub.find(VALIDATING, "fedhpa-webhook")
        return str(found["webhooks"][0]["clientConfig"].get("caBundle", ""))

    first = await command("publish", file, where)
    of_file = bundle()
    await keep(hub)
    of_secret = bundle()
    refused = await command("publish", file, where)
    spoiled: Any = copy.deepcopy(hub.find(VALIDATING, "fedhpa-webhook"))
    spoiled["webhooks"][0]["clientConfig"]["caBundle"] = ""
    hub.put(VALIDATING, spoiled)
    second = await command("publish", where)

    assert (first, refused, second) == (0, 2, 0)
    assert of_file != ""
    assert bundle() == of_secret
    found: Any = hub.find(SERVICES, "v1beta1.metrics.k8s.io")
    assert found["spec"]["caBundle"] == theirs["spec"]["caBundle"]


async def test_a_ca_in_files_has_the_same_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`rotate --ca-dir` takes one step a call, and `show --ca-dir` has the stage."""
    CertificateAuthority.create("ca").save(tmp_path)
    folder, stages = f"--ca-dir={tmp_path}", []
    for step in ("publish", "sign", "drop"):
        assert await command("rotate", folder, f"--stage={step}") == 0
        capsys.readouterr()
        assert await command("show", folder, "-o", "json") == 0
        report = json.loads(capsys.readouterr().out)
        stages.append((report["stage"], [root["role"] for root in report["roots"]]))

    assert stages == [
        ("publish", ["signs", "next"]),
        ("sign", ["signs", "trusted"]),
        ("stable", ["signs"]),
    ]


async def test_another_namespace_has_one_problem(
    hub: FakeApi, kubeconfig: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The missing CA is named, and the registrations belong to another installation."""
    await keep(hub)

    code = await command("show", "-n", "nowhere", f"--kubeconfig={kubeconfig}")
    lines = capsys.readouterr().out.splitlines()

    assert code == 1
    problems = [line for line in lines if "problem" in line]
    assert len(problems) == 1
    assert problems[0].startswith(
        "  problem: secrets/fedhpa-ca: it does not exist in nowhere: start a controller"
    )
    assert "  mutatingwebhookconfigurations/fedhpa-webhook: of another server" in lines
