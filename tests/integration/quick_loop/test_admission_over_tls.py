"""The webhook process over real sockets and TLS, with changing certificates."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from certs import CertificateAuthority
from tests.support.admission import FHPA, REVIEW, Client, running
from tests.support.fakeapi import PATIENCE, eventually
from webhook import intake
from webhook.admission_review import MAX_BODY
from webhook.handlers import PATHS, Review, judge
from webhook.intake import Intake


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    async with running(tmp_path, CertificateAuthority.create("admission tests")) as found:
        yield found


async def test_a_wrong_object_is_denied_over_tls(client: Client) -> None:
    """The message is that of Karmada, and the HTTP status is 200."""
    response = await client.post("/validate-federatedhpa", json=REVIEW)

    assert response["status"]["message"] == (
        "spec.maxReplicas: Invalid value: 3: must be greater than or equal to `minReplicas`"
    )


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"])
async def test_any_method_gets_a_review(client: Client, method: str) -> None:
    """A request without a body is refused with a review. No method is an HTTP error."""
    response = await client.ask(method, "/mutate-federatedhpa")

    assert response["status"]["message"] == "there is no content to decode"


@pytest.mark.parametrize(
    ("headers", "body", "expected"),
    [
        ({"Content-Type": "text/plain"}, b"{}", "contentType=text/plain, expected application/json"),
        ({"Content-Type": "application/json"}, b"{", "invalid JSON"),
        (
            {"Content-Type": "application/json", "Content-Encoding": "gzip"},
            b"no gzip at all, but words",
            "cannot be read",
        ),
        ({"Content-Type": "application/json", "Content-Encoding": "Identity "}, b"{}", "no content"),
        ({"Content-Type": "application/json", "Expect": "the-unexpected"}, b"{}", "no content"),
        ({"Content-Type": "application/json"}, b" " * (7 * 1024 * 1024 + 1), "request entity is too large"),
        ({"Content-Type": "application/json"}, b"[" * 100_000, "nested too deeply"),
        ({"Content-Type": "application/json"}, b"[" + b"1," * 2_000_000 + b"1]", "more than 120000 values"),
        ({"Content-Type": "application/json"}, b'"' + b"x" * (MAX_BODY - 2) + b'"', "unmarshal string"),
        (
            {"Content-Type": "application/json", "Content-Encoding": "gzip"},
            gzip.compress(b" " * (MAX_BODY + 1), 1),
            "request entity is too large",
        ),
        ({"Content-Type": "application/json", "Upgrade": "websocket", "Connection": "Upgrade"}, b"{}", "no"),
    ],
    ids=[
        "other type",
        "broken JSON",
        "no gzip",
        "not encoded",
        "other expectation",
        "too large",
        "deep",
        "too many values",
        "just fits",
        "grows when unpacked",
        "upgrade",
    ],
)
async def test_any_body_gets_a_review_and_the_process_goes_on(
    client: Client, headers: dict[str, str], body: bytes, expected: str
) -> None:
    """The refusal has the reason, and the next request is served."""
    response = await client.post("/validate-cronfederatedhpa", data=io.BytesIO(body), headers=headers)

    assert response["allowed"] is False
    assert expected in response["status"]["message"]
    assert (await client.post("/validate-federatedhpa", json=REVIEW))["status"]["code"] == 403


async def test_an_answer_announces_the_end_of_its_connection(client: Client) -> None:
    """A body that is not read ends the connection, and any other body keeps it open."""
    headers = {"Content-Type": "application/json"}
    url = f"{client.url}/validate-federatedhpa"
    async with client.session.post(url, data=b"{", headers=headers) as read:
        pass
    async with client.session.post(url, data=io.BytesIO(b" " * (MAX_BODY + 1)), headers=headers) as unread:
        pass

    assert read.headers.get("Connection") is None
    assert unread.headers["Connection"] == "close"


async def test_an_internal_error_refuses_the_request_and_is_counted(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer names only the type of the exception."""

    async def broken(*_: object) -> Review:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(Intake, "review", broken)

    response = await client.post("/validate-federatedhpa", json=REVIEW)

    assert response["status"] == {
        "metadata": {},
        "message": "internal error of the webhook: ZeroDivisionError",
        "code": 500,
    }
    assert client.sample("controller_runtime_webhook_panics_total") == 1
    assert client.sample("fedhpa_admission_requests_total", **labelled("none", "defect")) == 1


async def test_health_is_on_the_secure_port(client: Client) -> None:
    """It is ready once the certificate is loaded, also by check and verbosely. Nothing redirects."""
    assert await client.get("/readyz") == (200, "ok")
    assert await client.get("/readyz/") == (200, "ok")
    assert await client.get("/livez") == (200, "ok")
    assert "[+]certificate ok" in (await client.get("/readyz?verbose"))[1]
    assert (await client.get("/readyz/ping"))[0] == 200
    assert (await client.get("/readyz/nothing"))[0] == 404
    assert (await client.get("/validate-pods"))[0] == 404


def labelled(kind: str, verdict: str, path: str = "/validate-federatedhpa") -> dict[str, str]:
    return {"webhook": path, "kind": kind, "verdict": verdict}


async def test_requests_are_counted_under_karmadas_names(client: Client) -> None:
    """The series of both codes exist from the start. A refusal has HTTP status 200."""
    labels = {"webhook": "/validate-federatedhpa", "code": "200"}
    before = client.sample("controller_runtime_webhook_requests_total", **labels)

    await client.post("/validate-federatedhpa", json=REVIEW)

    assert before == 0
    assert client.sample("controller_runtime_webhook_requests_total", **labels) == 1
    assert client.sample("controller_runtime_webhook_requests_total", **labels | {"code": "500"}) == 0
    path = {"webhook": "/validate-federatedhpa"}
    assert client.sample("controller_runtime_webhook_latency_seconds_count", **path) == 1
    assert client.sample("controller_runtime_webhook_requests_in_flight", **path) == 0


async def test_requests_are_counted_by_kind_and_verdict(client: Client) -> None:
    """Each verdict has a series. The kind that a client makes up has none."""
    good = {**FHPA, "spec": {**FHPA["spec"], "minReplicas": 1}}
    odd = {**good, "spec": {**good["spec"], "scaleTargetRef": {"kind": "Deployment", "name": "web"}}}
    objects: list[Any] = [good, odd, FHPA, {**FHPA, "kind": "Pod"}, {**FHPA, "kind": ["x" * 99]}, 7]
    for obj in objects:
        await client.post("/validate-federatedhpa", json={"request": {"uid": "1", "object": obj}})

    counts = {
        (sample.labels["kind"], sample.labels["verdict"]): sample.value
        for metric in client.webhook.telemetry.registry.collect()
        for sample in metric.samples
        if sample.name == "fedhpa_admission_requests_total" and sample.value
    }
    assert counts == {
        ("FederatedHPA", "allowed"): 2,
        ("FederatedHPA", "denied"): 1,
        ("none", "malformed"): 3,
    }
    warned = {"webhook": "/validate-federatedhpa"}
    assert client.sample("fedhpa_admission_warned_requests_total", **warned) == 1


async def test_a_refusal_is_one_line_in_the_log(client: Client) -> None:
    """The line has the object and the reason. A repeated refusal is not logged."""
    with capture_logs() as lines:
        for _ in range(3):
            await client.post("/validate-federatedhpa", json=REVIEW)

    [line] = [line for line in lines if line["event"] == "refused"]
    assert (line["kind"], line["namespace"], line["name"]) == ("FederatedHPA", "shop", "web")
    assert "must be greater than or equal to `minReplicas`" in line["reason"]


async def test_an_unknown_path_is_answered_with_a_status(client: Client) -> None:
    """Kubernetes clients can decode the 404 of every method."""
    for method in ("GET", "POST"):
        async with client.session.request(method, client.url + "/validate-pods") as answer:
            body = json.loads(await answer.read())
            assert answer.status == 404
        assert (body["kind"], body["code"], body["reason"]) == ("Status", 404, "NotFound")


async def test_a_large_object_is_judged_while_others_are_served(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CronFederatedHPAs of 1,000 rules get their verdict and forecast like small ones."""
    monkeypatch.setattr(intake, "TURN_SECONDS", PATIENCE)  # the five are judged one at a time
    rule = {"schedule": "30 2 * * *", "targetReplicas": 3, "timeZone": "Europe/Berlin"}
    spec = {
        "scaleTargetRef": FHPA["spec"]["scaleTargetRef"],
        "rules": [{**rule, "name": f"rule-{number}"} for number in range(1000)],
    }
    cron = {**FHPA, "kind": "CronFederatedHPA", "spec": spec}

    async with asyncio.TaskGroup() as group:
        large = [
            group.create_task(
                client.post("/validate-cronfederatedhpa", json={"request": {"uid": "1", "object": cron}})
            )
            for _ in range(5)
        ]
        small = group.create_task(client.get("/readyz"))

    assert small.result() == (200, "ok")
    for task in large:
        assert task.result()["allowed"] is True
        assert any("sets replicas 3 for good" in text for text in task.result()["warnings"])


async def test_bodies_that_trickle_keep_no_turn(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large request is judged while the bodies of others are still arriving."""
    monkeypatch.setattr(intake, "BODY_SECONDS", PATIENCE)
    gate = asyncio.Event()

    async def trickle() -> AsyncIterator[bytes]:
        yield b"{"
        await gate.wait()
        yield b"}"

    headers = {"Content-Type": "application/json"}
    large = json.dumps(REVIEW).encode() + b" " * intake.LARGE_BODY
    async with asyncio.TaskGroup() as group:
        held = [
            group.create_task(client.post("/mutate-federatedhpa", data=trickle(), headers=headers))
            for _ in range(20)
        ]
        mutating = {"webhook": "/mutate-federatedhpa"}
        await eventually(
            lambda: client.sample("controller_runtime_webhook_requests_in_flight", **mutating) == len(held)
        )
        judged = await client.post("/validate-federatedhpa", data=large, headers=headers)
        gate.set()

    assert judged["status"]["code"] == 403
    assert [task.result()["status"]["message"] for task in held] == ["there is no content to decode"] * 20


async def test_a_body_that_never_ends_is_refused(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The refusal comes after the deadline and says so."""
    monkeypatch.setattr(intake, "BODY_SECONDS", 0.05)

    async def endless() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    response = await client.post("/mutate-federatedhpa", data=endless())

    assert response["status"]["code"] == 408
    assert "did not arrive" in response["status"]["message"]


@pytest.mark.parametrize("path", PATHS)
async def test_the_process_answers_with_the_bytes_of_the_function(client: Client, path: str) -> None:
    """The answer over TLS is the same for a body in one piece and in many."""
    body = json.dumps(REVIEW).encode()
    headers = {"Content-Type": "application/json"}

    async def pieces() -> AsyncIterator[bytes]:
        for index in range(len(body)):
            yield body[index : index + 1]

    for data in (body, pieces()):
        async with client.session.post(client.url + path, data=data, headers=headers) as answer:
            assert await answer.read() == judge(path, body, "application/json").encoded()


@pytest.mark.parametrize(
    "start",
    [
        b"Content-Length: 50\r\n\r\n{",
        b"Content-Length: 100000\r\n\r\n{",
        b"Transfer-Encoding: chunked\r\n\r\n5\r\n{",
        b"Transfer-Encoding: chunked\r\n\r\nno chunk at all",
        b"Content-Length: 50\r\nContent-Encoding: gzip\r\n\r\n{",
        b"Content-Length: 8000000\r\n\r\n{",
    ],
    ids=["small", "large", "chunked", "no chunk", "gzip", "too large"],
)
@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
async def test_a_client_that_disconnects_in_a_body_leaves_nothing_to_multiply(
    client: Client, start: bytes, reset: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """It is no internal error. Ten clients leave at most as many log lines as two, and no traceback."""
    lines = []
    for count in (2, 10):
        with capture_logs() as found:
            for _ in range(count):
                await _disconnect(client, start, reset=reset)
            lines.append([line for line in found if line["log_level"] != "debug"])

    assert len(lines[0]) <= 1
    assert lines[1] == []
    assert [record for record in caplog.records if record.levelno > logging.DEBUG] == []
    assert client.sample("controller_runtime_webhook_panics_total") == 0
    assert (await client.post("/validate-federatedhpa", json=REVIEW))["status"]["code"] == 403


async def _disconnect(client: Client, start: bytes, *, reset: bool) -> None:
    """Sends the start of a request and disconnects. Returns once the webhook has ended the request."""
    labels = {"webhook": "/validate-federatedhpa"}
    latency = "controller_runtime_webhook_latency_seconds_count"
    before = client.sample(latency, **labels) or 0
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    async with asyncio.timeout(PATIENCE):
        _, writer = await asyncio.open_connection("127.0.0.1", client.webhook.server.port, ssl=context)
        head = b"POST /validate-federatedhpa HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
        headers, _, body = start.partition(b"\r\n\r\n")
        writer.write(head + headers + b"\r\n\r\n")
        await writer.drain()
        in_flight = "controller_runtime_webhook_requests_in_flight"
        await eventually(
            lambda: bool(client.sample(in_flight, **labels)) or client.sample(latency, **labels) != before
        )
        writer.write(body)
        await writer.drain()
        if reset:
            writer.transport.abort()
        else:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
    await eventually(lambda: client.sample(latency, **labels) == before + 1)
