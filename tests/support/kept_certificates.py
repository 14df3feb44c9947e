"""Webhook, adapter and controller on a plane, with certificates that the controller keeps, under load.

A stand-in for kubelet brings the Secrets into the folders of webhook and adapter, late on purpose.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import ssl
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Collection, Sequence
from pathlib import Path
from typing import Final

from cryptography import x509

from certs.stored import Status, decode_ca
from fedhpa.api import rights
from fedhpa.api.rights import Switches
from metrics_adapter.registration import Registration, api_services, service
from testbed.stage.api import PlaneApi
from testbed.stage.ports import free_port
from testbed.stage.processes import CONTROLLER, READY_SECONDS, WEBHOOK, Plane
from testbed.stage.registrations import ADAPTER, LEASE_NAMESPACE, NAMESPACE, SECRETS, namespace
from testbed.stage.waiting import eventually
from webhook.registration import Endpoint, configurations

PODS: Final = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods"
CRONS: Final = "/apis/autoscaling.karmada.io/v1alpha1/namespaces/default/cronfederatedhpas"
VALID: Final = {
    "apiVersion": "autoscaling.karmada.io/v1alpha1",
    "kind": "CronFederatedHPA",
    "metadata": {"generateName": "load-", "namespace": "default"},
    "spec": {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "rules": [{"name": "morning", "schedule": "0 8 * * *", "targetReplicas": 2}],
    },
}
SECRET_PATHS: Final = {
    name: f"/api/v1/namespaces/{NAMESPACE}/secrets/{name}-tls" for name in (WEBHOOK, ADAPTER)
}
CA_PATH: Final = f"/api/v1/namespaces/{NAMESPACE}/secrets/fedhpa-ca"
BUNDLES: Final = {
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/fedhpa-webhook": WEBHOOK,
    "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.metrics.k8s.io": ADAPTER,
}


def mount(folder: Path, version: int, files: dict[str, bytes]) -> None:
    """Writes files as kubelet mounts a Secret: into a new folder, to which the link `..data` then points."""
    target = folder / f"..{version}"
    target.mkdir(parents=True)
    for name, content in files.items():
        (target / name).write_bytes(content)
    fresh = folder / "..data_tmp"
    fresh.symlink_to(target.name)
    fresh.replace(folder / "..data")
    for name in files:
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(Path("..data") / name)


class KeptCertificates:
    """The three processes, and observations of their certificates. `lag` is kubelet's delay in seconds.

    `settle` is the time that the command waits in each step.
    """

    def __init__(self, plane: Plane, admin: Path, *flags: str, lag: float, settle: float) -> None:
        self._run, self._hub = plane.run, plane.hub
        self.lag, self.settle = lag, settle
        self._admin = admin
        self.folder = plane.run.folder / "kept"
        self.ports = {name: free_port() for name in (WEBHOOK, ADAPTER, CONTROLLER)}
        for name in SECRET_PATHS:
            (self.folder / name).mkdir(parents=True)
        kubeconfigs = {name: plane.hub.user_kubeconfig(name) for name in (ADAPTER, CONTROLLER)}
        self._commands = {
            WEBHOOK: self._server(WEBHOOK),
            ADAPTER: [*self._server(ADAPTER), f"--kubeconfig={kubeconfigs[ADAPTER]}"],
            CONTROLLER: [
                f"--kubeconfig={kubeconfigs[CONTROLLER]}",
                "--propagation=direct",
                "--manage-certificates",
                f"--certificates-namespace={NAMESPACE}",
                "--certificates-hosts=127.0.0.1,localhost",
                f"--leader-elect-resource-namespace={LEASE_NAMESPACE}",
                "--leader-elect-lease-duration=3s",
                "--leader-elect-renew-deadline=2s",
                "--leader-elect-retry-period=500ms",
                "--metrics-bind-address=0",
                f"--health-probe-bind-address=127.0.0.1:{self.ports[CONTROLLER]}",
                *flags,
            ],
        }
        self.outcomes: Counter[str] = Counter()
        self.handshakes: Counter[str] = Counter()
        self.slowest = 0.0

    def _server(self, name: str) -> list[str]:
        return [
            "--bind-address=127.0.0.1",
            f"--secure-port={self.ports[name]}",
            f"--cert-dir={self.folder / name}",
            "--metrics-bind-address=0",
            "--health-probe-bind-address=0",
        ]

    def log(self, name: str) -> str:
        """The log of a process."""
        return (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def start_one(self, name: str) -> None:
        """Starts a process and does not wait."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith("FEDHPA_")}
        command = [str(Path(sys.executable).with_name(name)), *self._commands[name]]
        self._run.spawn(name, command, self.folder / f"{name}.log", environment=environment)

    async def kill(self, name: str) -> None:
        """Sends SIGKILL and waits for the end."""
        await asyncio.to_thread(self._run.kill, name)

    async def register(self, api: PlaneApi) -> None:
        """Creates rights and registrations without a caBundle. The processes are users with these rights."""
        printed = rights.hub_rights(
            NAMESPACE,
            lease_namespace=LEASE_NAMESPACE,
            secrets=SECRETS,
            switches=Switches("direct", certificates=True),
        )
        for each in printed:
            each["subjects"] = [
                rights.user(subject["name"]) if subject["kind"] == "ServiceAccount" else subject
                for subject in each.get("subjects", [])
            ]
        place = Registration(NAMESPACE, ADAPTER, self.ports[ADAPTER], "localhost")
        registrations = [service(place), *api_services(place, b"", ["metrics.k8s.io"])]
        for each in registrations:
            each["spec"].pop("caBundle", None)
        registrations += configurations(Endpoint(url=f"https://127.0.0.1:{self.ports[WEBHOOK]}"), b"")
        spaces = [namespace(NAMESPACE), *map(namespace, SECRETS)]
        bound = [each for each in printed if each["kind"] != "ServiceAccount"]
        for each in bound:
            if not each["subjects"]:
                del each["subjects"]
        await api.apply_all([*spaces, *bound, *registrations])

    async def works(self, api: PlaneApi) -> None:
        """Waits until the hub calls both servers."""

        async def poll() -> bool:
            return await self._admit(api) == 201 and await self._measure(api) == 200

        await eventually(poll, what="the hub calls webhook and adapter", seconds=READY_SECONDS, every=0.2)

    # ---- what goes on beside the test

    async def mount_secrets(self, api: PlaneApi) -> None:
        """Brings each version of the Secrets into the folders, the first at once and later ones late."""
        seen: dict[str, tuple[str, float]] = {}
        mounted: dict[str, int] = dict.fromkeys(SECRET_PATHS, 0)
        waiting: dict[str, dict[str, bytes]] = {}
        while True:
            for name, path in SECRET_PATHS.items():
                found = await api.find(path)
                data = (found or {}).get("data") or {}
                files = {key: base64.b64decode(text) for key, text in data.items()}
                text = json.dumps(data)
                if files and text != seen.get(name, ("", 0.0))[0]:
                    seen[name] = (text, time.monotonic())
                    waiting[name] = files
                due = not mounted[name] or time.monotonic() - seen[name][1] >= self.lag
                if name in waiting and due:
                    mounted[name] += 1
                    mount(self.folder / name, mounted[name], waiting.pop(name))
            await asyncio.sleep(0.2)

    async def load(self, api: PlaneApi, rate: float) -> None:
        """Sends requests at a fixed rate, half of them to each server, and counts their outcomes."""
        began, sent = time.monotonic(), 0
        async with asyncio.TaskGroup() as group:
            while True:
                due = int((time.monotonic() - began) * rate)
                for _ in range(due - sent):
                    sent += 1
                    kind, call = (
                        ("admission", self._admit(api, True)) if sent % 2 else ("metrics", self._measure(api))
                    )
                    group.create_task(self._counted(kind, call))
                await asyncio.sleep(0.01)

    async def _counted(self, kind: str, call: Awaitable[int]) -> None:
        began = time.monotonic()
        try:
            outcome = f"{kind} {await call}"
        except Exception as error:  # each failure counts
            outcome = f"{kind} {type(error).__name__}: {error}"
        self.outcomes[outcome] += 1
        self.slowest = max(self.slowest, time.monotonic() - began)

    async def _admit(self, api: PlaneApi, explain: bool = False) -> int:
        status, _, body = await api.request("POST", CRONS, body=VALID, params={"dryRun": "All"})
        if explain and status != 201:
            raise ValueError(f"{status} {body[:300]!r}")
        return status

    async def _measure(self, api: PlaneApi) -> int:
        status, _, _ = await api.request("GET", PODS)
        return status

    async def shake_hands(self, api: PlaneApi) -> None:
        """Connects to each server with each bundle that an API server may still use."""
        kept: dict[str, list[tuple[float, str]]] = {}
        while True:
            for path, server in BUNDLES.items():
                found = await api.get(path)
                client = found["webhooks"][0]["clientConfig"] if "webhooks" in found else found["spec"]
                bundle = client.get("caBundle", "")
                history = kept.setdefault(path, [])
                if bundle and (not history or history[-1][1] != bundle):
                    history.append((time.monotonic(), bundle))
                now = time.monotonic()
                # A bundle is in use until the lag after the next one was stored.
                ends = [*(at for at, _ in history[1:]), now]
                for (_, text), end in zip(history, ends, strict=True):
                    if now - end < self.lag:
                        self.handshakes[await self._handshake(server, text)] += 1
            await asyncio.sleep(0.3)

    async def _handshake(self, server: str, bundle: str) -> str:
        context = ssl.create_default_context(cadata=base64.b64decode(bundle).decode())
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self.ports[server], ssl=context)
        except ssl.SSLError as error:
            return f"{server}: {error}"
        writer.close()
        return "trusted"

    def check(self) -> None:
        """Fails if a request or a handshake failed, a right was missing, or a server did not wait."""
        print(f"{self.outcomes} {self.handshakes} slowest {self.slowest:.2f} s")
        assert "waiting for the serving certificate" in self.log(WEBHOOK)
        assert "waiting for the serving certificate" in self.log(ADAPTER)
        assert [line for line in self.log(CONTROLLER).splitlines() if "forbidden" in line] == []
        assert set(self.outcomes) == {"admission 201", "metrics 200"}
        assert set(self.handshakes) == {"trusted"}

    # ---- what is stored

    async def step(self, api: PlaneApi) -> str:
        """The step by the content of the CA Secret."""
        return decode_ca(Status.OURS, await api.get(CA_PATH)).step.value

    async def cas(self, api: PlaneApi) -> list[x509.Certificate]:
        """The trusted CAs of the CA Secret."""
        data = (await api.get(CA_PATH))["data"]
        return x509.load_pem_x509_certificates(base64.b64decode(data["ca.crt"]))

    async def serials(self, api: PlaneApi) -> list[int]:
        """The serial numbers of the stored certificates."""
        found = [(await api.get(path))["data"]["tls.crt"] for path in SECRET_PATHS.values()]
        return [x509.load_pem_x509_certificate(base64.b64decode(text)).serial_number for text in found]

    async def certs(self, *arguments: str) -> tuple[int, str]:
        """Runs `fedhpa certs` as the hub's administrator; returns the exit code and stdout."""
        command: Sequence[str] = (str(Path(sys.executable).with_name("fedhpa")), "certs", *arguments)
        process = await asyncio.create_subprocess_exec(
            *command, f"--kubeconfig={self._admin}", stdout=asyncio.subprocess.PIPE
        )
        try:
            async with asyncio.timeout(SECONDS):
                out, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
        return process.returncode or 0, out.decode()


SECONDS: Final = 180.0


async def rotate_under_load(
    kept: KeptCertificates, api: PlaneApi, *, rate: float, kills: Collection[str], renews: bool
) -> None:
    """Starts the processes, renews the certificates, and replaces the CA.

    Command and controller are killed when each of the steps in `kills` begins. With `renews` certificates are
    renewed by their age, else because their Secrets are deleted.
    """
    await kept.register(api)
    for name in (WEBHOOK, ADAPTER, CONTROLLER):
        kept.start_one(name)
    async with asyncio.TaskGroup() as group:
        beside = [group.create_task(kept.mount_secrets(api))]
        await kept.works(api)
        beside += [group.create_task(kept.load(api, rate)), group.create_task(kept.shake_hands(api))]
        began = time.monotonic()
        await _renew(kept, api, by_age=renews)
        await _rotate(kept, api, kills)
        await asyncio.sleep(kept.lag + 1)
        seconds = time.monotonic() - began
        for task in beside:
            task.cancel()
    assert kept.outcomes.total() > 0.8 * rate * seconds


async def _renew(kept: KeptCertificates, api: PlaneApi, *, by_age: bool) -> None:
    """Waits for the renewal of both certificates, or forces it by deleting their Secrets."""
    before = await kept.serials(api)
    if not by_age:
        for path in SECRET_PATHS.values():
            await api.delete(path)

    async def renewed() -> bool:
        return not set(before) & set(await kept.serials(api))

    await eventually(renewed, what="both certificates are new", seconds=SECONDS, every=0.1)


async def _rotate(kept: KeptCertificates, api: PlaneApi, kills: Collection[str]) -> None:
    """Replaces the CA. The command and the leader are killed at the begin of steps, and started again."""
    old = set(await kept.cas(api))
    rotate = ("rotate-ca", f"--settle-time={kept.settle:g}s")
    for step in kills:
        command = asyncio.create_task(kept.certs(*rotate))

        async def begins(step: str = step) -> bool:
            return await kept.step(api) == step

        await eventually(begins, what=f"step {step} begins", seconds=SECONDS, every=0.1)
        command.cancel()
        await asyncio.wait([command])
        await kept.kill(CONTROLLER)
        kept.start_one(CONTROLLER)
    assert (await kept.certs(*rotate))[0] == 0
    code, out = await kept.certs("show", "-o", "json")

    assert not old & set(await kept.cas(api))
    assert (code, json.loads(out)["step"]) == (0, "none")
