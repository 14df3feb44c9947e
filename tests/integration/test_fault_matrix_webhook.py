"""Every fault of the hub and of its calls to the webhook: verdicts stay, and the log or the refusal names the
fault. The webhook reads the hub only for warnings, so no fault of the hub changes or delays a verdict (in
memory and virtual time). While a fault lasts between hub and webhook, the hub refuses new objects and names
the fault (an embedded hub and the webhook's process, on real sockets).
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import json
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from benchmarks.world.network import Cable
from certs import CertificateAuthority
from fedhpa.admission import crd
from fedhpa.api.errors import ApiError
from fedhpa.kube.client import ApiClient
from fedhpa.kube.config import ApiConfig
from fedhpa.kube.credentials import StaticCredentials
from fedhpa.serving.health import Health
from testbed.embedded.controlplane import ControlPlane
from testbed.stage.api import PlaneApi
from tests.support.adapter.process import until as eventually
from tests.support.admission import FHPA, Client, running
from tests.support.embedded_plane import WEBHOOK_SECONDS, have_patience, with_timeout
from tests.support.federation import ADMIN, Federation, background, federation, until
from tests.support.memory_network import MemoryListener
from tests.support.plane_faults import Fault
from webhook.application import build_application
from webhook.hub_reader import HubReader
from webhook.registration import Endpoint, configurations
from webhook.review_series import Telemetry
from webhook.warnings import AdmissionWarnings

Object = dict[str, Any]
WRONG = FHPA
GOOD: Object = {**FHPA, "spec": {**FHPA["spec"], "minReplicas": 1}}
REFUSAL = "spec.maxReplicas: Invalid value: 3: must be greater than or equal to `minReplicas`"

# Only these need TLS, whose handshakes are a quarter of the cost.
OF_TLS = (Fault.WRONG_CA, Fault.EXPIRED, Fault.CUT)
HUB_ROWS = [
    # fault of the hub, what the log says
    (Fault.REFUSE, "cannot connect: Connection refused"),
    (Fault.WRONG_CA, "certificate not accepted: "),
    (Fault.EXPIRED, "certificate not accepted: certificate has expired"),
    (Fault.HANG, "no answer within"),
    (Fault.DRIP, "no answer"),  # the copies arrive slowly, and no verdict waits for a target
    (Fault.TOO_MANY_REQUESTS, "too many requests"),
    (Fault.SERVER_ERROR, "etcdserver: request timed out"),
    (Fault.TRUNCATED, "cannot be read"),
    (Fault.CUT, "answer cut off|Connection reset"),
]
TOLD = (
    "API server does not answer",
    "API server fails for another reason",
    "list or watch failed",
    "list or watch fails for another reason",
    "targets are not waited for",
)


class Reviewer:
    """Asks the webhook's application in a federation's network."""

    def __init__(self, f: Federation, session: aiohttp.ClientSession, server: str, reader: HubReader) -> None:
        self.reader = reader
        self._f = f
        self._session = session
        self._server = server

    async def ask(self, obj: Object) -> tuple[bool, str, float]:
        """Returns (allowed, message, seconds)."""
        began = self._f.now()
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
        body = {**review, "request": {"uid": "1", "operation": "CREATE", "object": obj}}
        async with self._session.post(self._server + "/validate-federatedhpa", json=body) as answer:
            assert answer.status == 200
            response = json.loads(await answer.read())["response"]
        message = (response.get("status") or {}).get("message", "")
        return response["allowed"], message, self._f.now() - began


@asynccontextmanager
async def reviewing(f: Federation) -> AsyncIterator[Reviewer]:
    """Runs a webhook whose copies of the hub are current."""
    cable = Cable(f.network)
    f.hub.authenticator.tokens["webhook"] = ADMIN
    config = f.hub.config(StaticCredentials("Bearer webhook"), cable)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(ApiClient(config))
        reader = HubReader(client, checks_targets=True, clock=f.clock)
        await stack.enter_async_context(background(reader.run()))
        warnings = AdmissionWarnings(f.date)
        warnings.hub = reader
        application = build_application(Health(), Telemetry(), warnings, f.clock)
        listener = await stack.enter_async_context(MemoryListener(f.network, application))
        connector = cable.connector(ApiConfig(server=listener.server))
        session = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
        await until(lambda: all(map(reader.knows, reader.reflectors)))
        yield Reviewer(f, session, listener.server, reader)


@pytest.mark.looptime(noop_cycles=0)
@pytest.mark.parametrize(("fault", "reason"), HUB_ROWS)
async def test_no_fault_of_the_hub_touches_a_verdict(
    fault: Fault, reason: str, tmp_path: Path, logs: list[Any]
) -> None:
    """Verdicts are the same and immediate during the fault and after it. The log names the fault."""
    async with federation(tmp_path, tls=fault in OF_TLS) as f, reviewing(f) as webhook:
        await f.hub.faults.set(fault)
        # Lists are needed, too.
        f.hub.server.store.compact()
        f.hub.server.watches.end()
        answers = []
        for _ in range(20):
            answers += [await webhook.ask(GOOD), await webhook.ask(WRONG)]
            await asyncio.sleep(10)
        told = [str(line) for line in logs if line["event"] in TOLD]
        await f.hub.faults.clear()
        await until(lambda: all(one.problem is None for one in webhook.reader.reflectors.values()))

    assert {answer[:2] for answer in answers} == {(True, ""), (False, REFUSAL)}
    assert max(seconds for *_, seconds in answers) < 0.5
    assert any(re.search(reason, line) for line in told)


# -- between the hub and the webhook ----------------------------------------------------------------------
FHPAS = "/apis/autoscaling.karmada.io/v1alpha1/namespaces/default/federatedhpas"


def stored(name: str) -> Object:
    return {**GOOD, "metadata": {"name": name, "namespace": "default"}}


@pytest.fixture
async def plane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ControlPlane]:
    have_patience(monkeypatch)
    made = ControlPlane(tmp_path / "hub", "hub")
    await made.start()
    try:
        async with made.api() as api:
            kinds = (crd.FEDERATED_HPA, crd.CRON_FEDERATED_HPA)
            await api.apply_all([crd.custom_resource_definition(one) for one in kinds])
        yield made
    finally:
        await made.end()


@pytest.fixture
async def hub(plane: ControlPlane) -> AsyncIterator[PlaneApi]:
    async with plane.api() as api:
        yield api


async def register(
    hub: PlaneApi, url: str, authority: CertificateAuthority, seconds: int = WEBHOOK_SECONDS
) -> None:
    await hub.apply_all(with_timeout(configurations(Endpoint(url=url), authority.bundle_pem), seconds))


async def refusal(hub: PlaneApi, name: str = "new") -> str:
    """Returns the refusal of a new object; "" if it is admitted."""
    try:
        await hub.send("POST", FHPAS, body=stored(name), params={"dryRun": "All"})
    except ApiError as error:
        return f"{error.status} {error}"
    return ""


async def admits(hub: PlaneApi) -> None:
    """Wait until an object is admitted."""

    async def admitted() -> bool:
        return await refusal(hub) == ""

    await eventually(admitted)


class Between:
    """Faults between a hub and the webhook. A test sets one before a request and ends it afterwards."""

    def __init__(self, hub: PlaneApi, folder: Path) -> None:
        self.hub = hub
        self.folder = folder
        self.authority = CertificateAuthority.create("admission tests")

    async def wrong_ca(self, client: Client) -> None:
        """The registration has the bundle of another authority of the same name."""
        await register(self.hub, client.url, CertificateAuthority.create("admission tests"))

    async def expired(self, client: Client) -> None:
        """The webhook's certificate has expired."""
        long_ago = dt.datetime.now(dt.UTC) - dt.timedelta(hours=2)
        leaf = self.authority.issue_server(
            "localhost", dns=["localhost"], validity=dt.timedelta(hours=1), now=long_ago
        )
        leaf.save(self.folder)
        client.signals.reload()
        await register(self.hub, client.url, self.authority)

    async def refuse(self, client: Client) -> None:
        """No server listens at the registered address."""
        await register(self.hub, "https://localhost:1", self.authority)

    async def fix(self, client: Client) -> None:
        """Renews and registers again; neither needs a restart."""
        self.authority.issue_server("localhost", dns=["localhost"]).save(self.folder)
        client.signals.reload()
        await register(self.hub, client.url, self.authority)


BETWEEN_ROWS = [
    ("wrong_ca", "x509: certificate signed by unknown authority"),
    ("expired", "x509: certificate has expired or is not yet valid"),
    ("refuse", "connect: connection refused"),
]


@pytest.mark.parametrize(("fault", "text"), BETWEEN_ROWS)
async def test_a_webhook_that_cannot_be_asked_refuses_what_is_new(
    hub: PlaneApi, tmp_path: Path, fault: str, text: str
) -> None:
    """The hub refuses new objects and names the fault. It still accepts statuses of stored objects."""
    folder = tmp_path / "webhook"
    folder.mkdir()
    between = Between(hub, folder)
    async with running(folder, between.authority) as client:
        # Set before the registration, because a connection that the hub keeps would not meet the fault.
        await hub.send("POST", FHPAS, body=stored("old"))
        await getattr(between, fault)(client)
        refused = await refusal(hub)
        old = await hub.get(f"{FHPAS}/old")
        written = await hub.send(
            "PUT", f"{FHPAS}/old/status", body={**old, "status": {"currentReplicas": 3, "desiredReplicas": 3}}
        )
        await between.fix(client)
        await admits(hub)

    assert refused.startswith("500 ")
    assert 'failed calling webhook "' in refused
    assert text in refused
    assert written["status"]["currentReplicas"] == 3


async def test_a_webhook_that_hangs_costs_the_hub_its_timeout(hub: PlaneApi, tmp_path: Path) -> None:
    """The webhook accepts the connection and never answers. The hub stops at its timeout, says so, and serves
    others meanwhile.
    """
    folder = tmp_path / "webhook"
    folder.mkdir()
    between = Between(hub, folder)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(running(folder, between.authority))
        port = await stack.enter_async_context(silent_port())
        await register(hub, f"https://localhost:{port}", between.authority, seconds=1)
        began = asyncio.get_running_loop().time()
        refused = await refusal(hub)
        took = asyncio.get_running_loop().time() - began
        await between.fix(client)
        await admits(hub)

    assert 'failed calling webhook "' in refused
    assert re.search("context deadline exceeded|timeout", refused)
    # Mutation fails open and validation fails closed. Each costs the registered
    # timeout of one second, and not the hub's default of 10 s.
    assert took < 20


@asynccontextmanager
async def silent_port() -> AsyncIterator[int]:
    """A port that accepts connections and sends nothing."""
    writers: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, writer: writers.append(writer), "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in writers:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        await server.wait_closed()
