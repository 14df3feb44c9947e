"""Runs the webhook process in this event loop on real sockets, with a client."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from certs import CertificateAuthority
from fedhpa.kube import SYSTEM
from fedhpa.serving.flags.parsing import parse_flags
from fedhpa.serving.process import Signals
from tests.support.fakeapi import PATIENCE
from webhook.process import Webhook, serve
from webhook.settings import FLAGS

FHPA: dict[str, Any] = {
    "apiVersion": "autoscaling.karmada.io/v1alpha1",
    "kind": "FederatedHPA",
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": 5,
        "maxReplicas": 3,
    },
}
REVIEW = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {"uid": "1", "operation": "CREATE", "object": FHPA},
}


class Client:
    """A client of one running webhook."""

    def __init__(self, session: aiohttp.ClientSession, webhook: Webhook, signals: Signals) -> None:
        self.session = session
        self.webhook = webhook
        self.signals = signals
        self.url = f"https://localhost:{webhook.server.port}"

    async def post(self, path: str, **arguments: Any) -> dict[str, Any]:
        """Posts a review and returns the response in its answer. The HTTP status must be 200."""
        return await self.ask("POST", path, **arguments)

    async def ask(self, method: str, path: str, **arguments: Any) -> dict[str, Any]:
        """Sends a request of any method and returns the response in its AdmissionReview."""
        async with self.session.request(method, self.url + path, **arguments) as answer:
            assert answer.status == 200
            assert answer.content_type == "application/json"
            body = json.loads(await answer.read())
        assert body["kind"] == "AdmissionReview"
        response: dict[str, Any] = body["response"]
        return response

    async def get(self, path: str) -> tuple[int, str]:
        """Returns the status and the text of a GET."""
        async with self.session.get(self.url + path, allow_redirects=False) as answer:
            return answer.status, await answer.text()

    def sample(self, name: str, **labels: str) -> float | None:
        """Returns the value of a Prometheus series."""
        return self.webhook.telemetry.registry.get_sample_value(name, labels)


@asynccontextmanager
async def running(folder: Path, authority: CertificateAuthority, *flags: str) -> AsyncIterator[Client]:
    """Runs a webhook with more flags, and yields a client."""
    authority.issue_server("localhost", dns=["localhost"]).save(folder)
    given = [
        "--bind-address=127.0.0.1",
        "--secure-port=0",
        f"--cert-dir={folder}",
        "--metrics-bind-address=0",
        "--health-probe-bind-address=0",
        "--shutdown-grace-period=1s",
        *flags,
    ]
    values = parse_flags(FLAGS, given, {})
    signals = Signals()
    ready: asyncio.Future[Webhook] = asyncio.get_running_loop().create_future()
    context = ssl.create_default_context(cadata=authority.bundle_pem.decode())
    async with asyncio.TaskGroup() as group:
        group.create_task(serve(values, signals, ready.set_result, clock=SYSTEM))
        async with asyncio.timeout(PATIENCE):
            webhook = await ready
        connector = aiohttp.TCPConnector(ssl=context)
        async with aiohttp.ClientSession(connector=connector) as session:
            try:
                yield Client(session, webhook, signals)
            finally:
                signals.stop.set()
