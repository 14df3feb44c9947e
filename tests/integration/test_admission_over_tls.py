"""The webhook's process in this event loop: real sockets, real TLS, certificates that change."""

from __future__ import annotations

import asyncio
import io
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from certs import CertificateAuthority
from fedhpa.serving.flags import parse_flags
from fedhpa.serving.process import Signals
from webhook.intake import Intake
from webhook.process import Webhook, serve
from webhook.review import Review
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
    """Calls one running webhook."""

    def __init__(self, session: aiohttp.ClientSession, webhook: Webhook, signals: Signals) -> None:
        self.session = session
        self.webhook = webhook
        self.signals = signals
        self.url = f"https://localhost:{webhook.server.port}"

    async def post(self, path: str, **arguments: Any) -> dict[str, Any]:
        """POSTs a review; the HTTP status must be 200 whatever the verdict."""
        return await self.ask("POST", path, **arguments)

    async def ask(self, method: str, path: str, **arguments: Any) -> dict[str, Any]:
        """Sends a request of any method; returns the response within the AdmissionReview."""
        async with self.session.request(method, self.url + path, **arguments) as answer:
            assert answer.status == 200
            assert answer.content_type == "application/json"
            body = json.loads(await answer.read())
        response: dict[str, Any] = body["response"]
        return response

    async def get(self, path: str) -> tuple[int, str]:
        """Status and text of a GET."""
        async with self.session.get(self.url + path, allow_redirects=False) as answer:
            return answer.status, await answer.text()


@asynccontextmanager
async def running(folder: Path, authority: CertificateAuthority) -> AsyncIterator[Client]:
    authority.issue_server("localhost", dns=["localhost"]).save(folder)
    flags = [
        "--bind-address=127.0.0.1",
        "--secure-port=0",
        f"--cert-dir={folder}",
        "--metrics-bind-address=0",
        "--health-probe-bind-address=0",
        "--shutdown-grace-period=1s",
    ]
    values = parse_flags(FLAGS, flags, {})
    signals = Signals()
    ready: asyncio.Future[Webhook] = asyncio.get_running_loop().create_future()
    context = ssl.create_default_context(cadata=authority.bundle_pem.decode())
    async with asyncio.TaskGroup() as group:
        group.create_task(serve(values, signals, ready.set_result))
        async with asyncio.timeout(10):
            webhook = await ready
        connector = aiohttp.TCPConnector(ssl=context)
        async with aiohttp.ClientSession(connector=connector) as session:
            try:
                yield Client(session, webhook, signals)
            finally:
                signals.stop.set()


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    async with running(tmp_path, CertificateAuthority.create("admission tests")) as found:
        yield found


async def test_a_wrong_object_is_denied_over_tls(client: Client) -> None:
    """The message is Karmada's, the HTTP status 200."""
    response = await client.post("/validate-federatedhpa", json=REVIEW)

    assert response["status"]["message"] == (
        "spec.maxReplicas: Invalid value: 3: must be greater than or equal to `minReplicas`"
    )


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"])
async def test_any_method_gets_a_review(client: Client, method: str) -> None:
    """Without a body there is nothing to decode; no method is an HTTP error."""
    response = await client.ask(method, "/mutate-federatedhpa")

    assert response["status"]["message"] == "there is no content to decode"


@pytest.mark.parametrize(
    ("headers", "body", "expected"),
    [
        ({"Content-Type": "text/plain"}, b"{}", "contentType=text/plain, expected application/json"),
        ({"Content-Type": "application/json"}, b"{", "invalid JSON"),
        ({"Content-Type": "application/json", "Content-Encoding": "gzip"}, b"no gzip", "cannot be read"),
        ({"Content-Type": "application/json", "Expect": "the-unexpected"}, b"{}", "no content"),
        ({"Content-Type": "application/json"}, b" " * (7 * 1024 * 1024 + 1), "request entity is too large"),
        ({"Content-Type": "application/json"}, b"[" * 300_000, "nested too deeply"),
    ],
)
async def test_any_body_gets_a_review_and_the_process_lives_on(
    client: Client, headers: dict[str, str], body: bytes, expected: str
) -> None:
    """A refusal says what is wrong; the next request is served as if nothing had been."""
    response = await client.post("/validate-cronfederatedhpa", data=io.BytesIO(body), headers=headers)

    assert response["allowed"] is False
    assert expected in response["status"]["message"]
    assert (await client.post("/validate-federatedhpa", json=REVIEW))["status"]["code"] == 403


async def test_a_defect_refuses_and_is_counted(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even what we did not foresee is answered with a review that names no more than its kind."""

    async def broken(*_: object) -> Review:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(Intake, "review", broken)

    response = await client.post("/validate-federatedhpa", json=REVIEW)

    assert response["status"] == {
        "metadata": {},
        "message": "the webhook met a defect: ZeroDivisionError",
        "code": 500,
    }
    sample = client.webhook.telemetry.registry.get_sample_value
    assert sample("controller_runtime_webhook_panics_total") == 1


async def test_health_is_on_the_secure_port(client: Client) -> None:
    """Ready once the certificate is loaded, by name and verbosely; nothing redirects."""
    assert await client.get("/readyz") == (200, "ok")
    assert await client.get("/readyz/") == (200, "ok")
    assert await client.get("/livez") == (200, "ok")
    assert "[+]certificate ok" in (await client.get("/readyz?verbose"))[1]
    assert (await client.get("/readyz/ping"))[0] == 200
    assert (await client.get("/readyz/nothing"))[0] == 404
    assert (await client.get("/validate-pods"))[0] == 404


async def test_requests_are_counted_under_karmadas_names(client: Client) -> None:
    """Both codes exist from the start; a refusal is a 200 of HTTP."""
    sample = client.webhook.telemetry.registry.get_sample_value
    labels = {"webhook": "/validate-federatedhpa", "code": "200"}
    before = sample("controller_runtime_webhook_requests_total", labels)

    await client.post("/validate-federatedhpa", json=REVIEW)

    assert before == 0
    assert sample("controller_runtime_webhook_requests_total", labels) == 1
    assert sample("controller_runtime_webhook_requests_total", labels | {"code": "500"}) == 0
    path = {"webhook": "/validate-federatedhpa"}
    assert sample("controller_runtime_webhook_latency_seconds_count", path) == 1
    assert sample("controller_runtime_webhook_requests_in_flight", path) == 0


async def test_a_new_certificate_is_served_without_dropping_a_connection(tmp_path: Path) -> None:
    """SIGHUP loads it; the connection that is open goes on, a new one sees the new certificate."""
    authority = CertificateAuthority.create("admission tests")
    async with running(tmp_path, authority) as client:
        await client.post("/validate-federatedhpa", json=REVIEW)
        before = await _served_certificate(client, authority)
        authority.issue_server("localhost", dns=["localhost"]).save(tmp_path)

        client.signals.reload()

        assert await _served_certificate(client, authority) != before
        assert (await client.post("/validate-federatedhpa", json=REVIEW))["status"]["code"] == 403


async def _served_certificate(client: Client, authority: CertificateAuthority) -> bytes:
    context = ssl.create_default_context(cadata=authority.bundle_pem.decode())
    async with asyncio.timeout(5):
        _, writer = await asyncio.open_connection(
            "127.0.0.1", client.webhook.server.port, ssl=context, server_hostname="localhost"
        )
        certificate: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        await writer.wait_closed()
    return certificate


async def test_stopping_drains(tmp_path: Path) -> None:
    """After the signal the process ends by itself, and its port is closed."""
    async with running(tmp_path, CertificateAuthority.create("admission tests")) as client:
        port = client.webhook.server.port
        assert (await client.get("/readyz"))[0] == 200

    assert not client.webhook.health.ready
    with pytest.raises(OSError, match=r"Connect call failed|refused"):
        await asyncio.open_connection("127.0.0.1", port)
