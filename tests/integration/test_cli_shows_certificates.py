"""`fedhpa certs show`, `rotate-ca` and `publish` on the Secrets and registrations of a hub."""

from __future__ import annotations

import asyncio
import copy
import json
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from certs import CertificateAuthority
from certs.certificate_store import CertificateStore
from controller.certificates import COMPONENT, CertificateManager, CertificateMetrics
from fedhpa.cli.main import run
from fedhpa.kube import SYSTEM, ApiClient, EventRecorder
from metrics_adapter.registration import Registration, api_services
from tests.support.fakeapi import FakeApi, fake_api
from tests.support.timing import PATIENCE
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


async def keep(hub: FakeApi, passes: int = 4) -> None:
    """Makes all writes that are due, as a leader does."""
    async with ApiClient(hub.config()) as client:
        store = CertificateStore(client, client, NAMESPACE)
        events = EventRecorder(client, COMPONENT, wall=SYSTEM.wall)
        metrics = CertificateMetrics(CollectorRegistry())
        manager = CertificateManager(store, events, metrics, clock=SYSTEM)
        for _ in range(passes):
            await manager.reconcile()
            await asyncio.sleep(0.05)


async def command(*arguments: str) -> int:
    """Runs the command in a thread, because it has an event loop of its own."""
    return await asyncio.to_thread(run, ["certs", *arguments])


async def test_the_ca_is_replaced_and_shown(
    hub: FakeApi, kubeconfig: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a CA the command names the remedy. Then it tells each step, and another CA signs."""
    where = f"--kubeconfig={kubeconfig}"
    before = await command("show", where, "-o", "json")
    missing = json.loads(capsys.readouterr().out)
    refused = await command("rotate-ca", where)
    no_ca = capsys.readouterr().err
    await keep(hub)
    shown = await command("show", where, "-o", "json")
    first = json.loads(capsys.readouterr().out)
    keeping = asyncio.create_task(keep(hub, 10_000))
    rotated = await command("rotate-ca", "--settle-time=0", where)
    said = capsys.readouterr().err.splitlines()
    keeping.cancel()
    again = await command("show", where, "-o", "json")
    second = json.loads(capsys.readouterr().out)

    assert (before, refused, shown, rotated, again) == (1, 2, 0, 0, 0)
    assert missing["problems"][0]["reason"] == "Missing"
    assert "--manage-certificates" in no_ca
    assert no_ca.count("\n") == 1
    assert first["step"] == second["step"] == "none"
    assert [each["role"] for each in first["cas"]] == ["signs"]
    assert {each["signedBy"] for each in second["certificates"]} == {second["cas"][0]["fingerprint"]}
    assert first["cas"] != second["cas"]
    assert all(each["current"] for each in second["registrations"] if each["status"] == "ours")
    assert [line[:3] for line in said] == ["1/3", "2/3", "3/3", "don"]


async def test_a_change_that_was_begun_is_shown_with_the_command(
    hub: FakeApi, kubeconfig: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a controller the command ends with exit code 1, and says what is missing and what to do."""
    await keep(hub)
    code = await command("rotate-ca", "--timeout=200ms", f"--kubeconfig={kubeconfig}")
    said = capsys.readouterr().err
    shown = await command("show", f"--kubeconfig={kubeconfig}")
    lines = capsys.readouterr().out

    assert (code, shown) == (1, 0)
    assert "stopped: mutatingwebhookconfigurations/fedhpa-webhook has another CA bundle" in said
    assert "Continue with the same command" in said
    assert "step publish of a change of the CA, continue with: fedhpa certs rotate-ca" in lines
    assert " next, until " in lines
    assert "mutatingwebhookconfigurations/fedhpa-webhook: has other CAs" in lines


@pytest.mark.parametrize("time", ["--settle-time=5", "--settle-time=-3s", "--timeout=soon", "--timeout="])
async def test_times_are_durations(time: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The error is one line with the option."""
    assert await command("rotate-ca", time) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert error.startswith(f"fedhpa: {time.partition('=')[0]}")


async def test_an_interrupted_command_says_how_to_continue(hub: FakeApi, kubeconfig: str) -> None:
    """Ctrl-C during a wait ends it with exit code 130, and a line names the way on."""
    await keep(hub)
    program = str(Path(sys.executable).with_name("fedhpa"))
    process = await asyncio.create_subprocess_exec(
        program, "certs", "rotate-ca", f"--kubeconfig={kubeconfig}", stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    async with asyncio.timeout(PATIENCE):
        first = await process.stderr.readline()
        process.send_signal(signal.SIGINT)
        rest = await process.stderr.read()
        code = await process.wait()

    assert first.startswith(b"1/3 the new CA ")
    assert code == 130
    assert b"No request is refused meanwhile. Continue with the same command" in rest
    assert b"Traceback" not in rest


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


async def test_a_ca_in_a_file_is_published(hub: FakeApi, kubeconfig: str, tmp_path: Path) -> None:
    """Only while no Secret exists. A foreign APIService keeps its CA."""
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
    refused = await command("publish", file, where)

    assert (first, refused) == (0, 2)
    assert of_file != bundle() != ""
    found: Any = hub.find(SERVICES, "v1beta1.metrics.k8s.io")
    assert found["spec"]["caBundle"] == theirs["spec"]["caBundle"]


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
    assert "  mutatingwebhookconfigurations/fedhpa-webhook: of another owner, left alone" in lines
