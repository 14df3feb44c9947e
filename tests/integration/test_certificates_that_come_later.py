"""A process that starts before its Secret has content waits, says so, and then serves."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import aiohttp
import pytest
from structlog.testing import capture_logs

from certs import CertificateAuthority
from fedhpa.kube import SYSTEM, ApiClient
from fedhpa.serving import Signals
from fedhpa.serving.flags.parsing import parse_flags
from fedhpa.serving.tls import ServingTls, TlsFiles
from metrics_adapter.process import Adapter
from metrics_adapter.settings import FLAGS as ADAPTER_FLAGS
from testbed.stage import free_port
from tests.support import kept_certificates
from tests.support.fakeapi import fake_api
from tests.support.timing import eventually
from webhook.process import Webhook, serve
from webhook.settings import FLAGS

NO_LISTENERS = ("--metrics-bind-address=0", "--health-probe-bind-address=0")


def mount(folder: Path, authority: CertificateAuthority | None, version: int) -> None:
    """Mounts a Secret. Without an authority it has no content, as one that was created empty."""
    pair = None if authority is None else authority.issue_server("a", dns=["localhost"], ips=["127.0.0.1"])
    files = {
        "tls.crt": b"" if pair is None else pair.cert_pem,
        "tls.key": b"" if pair is None else pair.key_pem,
    }
    kept_certificates.mount(folder, version, files)


async def text(url: str, authority: CertificateAuthority | None = None) -> tuple[int, str]:
    """Returns status and body of a GET."""
    roots = None if authority is None else ssl.create_default_context(cadata=authority.bundle_pem.decode())
    connector = aiohttp.TCPConnector(ssl=True if roots is None else roots)
    async with aiohttp.ClientSession(connector=connector) as session, session.get(url) as answer:
        return answer.status, await answer.text()


@pytest.mark.parametrize("empty_files", [False, True])
async def test_the_webhook_waits_for_its_certificate(tmp_path: Path, empty_files: bool) -> None:
    """It is alive but not ready, logs one line with the folder, and serves within seconds of the Secret."""
    folder, port = tmp_path / "tls", free_port()
    folder.mkdir()
    if empty_files:
        mount(folder, None, 1)
    flags = [
        f"--cert-dir={folder}",
        "--bind-address=127.0.0.1",
        "--secure-port=0",
        "--metrics-bind-address=0",
    ]
    values = parse_flags(FLAGS, [*flags, f"--health-probe-bind-address=127.0.0.1:{port}"], {})
    signals, started = Signals(), asyncio.Event()
    found: list[Webhook] = []

    def note(webhook: Webhook) -> None:
        found.append(webhook)
        started.set()

    with capture_logs() as logs:
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            group.create_task(serve(values, signals, note, clock=SYSTEM))

            async def is_alive() -> bool:
                try:
                    return (await text(f"http://127.0.0.1:{port}/livez"))[0] == 200
                except aiohttp.ClientError:
                    return False

            while not await is_alive():  # noqa: ASYNC110  # another task listens
                await asyncio.sleep(0.05)
            status, body = await text(f"http://127.0.0.1:{port}/readyz")
            signals.reload()  # SIGHUP changes nothing while it waits
            authority = CertificateAuthority.create("ca")
            mount(folder, authority, 2)
            await started.wait()
            served = await text(f"https://127.0.0.1:{found[0].server.port}/readyz", authority)
            signals.stop.set()

    assert status == 500
    assert f"{folder} has no tls.crt yet: the Secret that is mounted there is filled by" in body
    assert served == (200, "ok")
    said = [each for each in logs if each["log_level"] in ("warning", "error")]
    assert [each["event"] for each in said] == ["waiting for the serving certificate"]
    assert str(folder) in said[0]["detail"]


async def test_a_waiting_process_can_be_stopped(tmp_path: Path) -> None:
    """SIGTERM ends it at once, with the code of a normal end."""
    signals = Signals()
    values = parse_flags(FLAGS, [f"--cert-dir={tmp_path}", *NO_LISTENERS], {})
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        task = group.create_task(serve(values, signals, clock=SYSTEM))
        await asyncio.sleep(0)
        signals.stop.set()
        await task


async def test_the_adapter_waits_for_its_certificate(tmp_path: Path) -> None:
    """It follows hub and members meanwhile, and its request-header CA is in force at once."""
    flags = [f"--cert-dir={tmp_path}", "--bind-address=127.0.0.1", "--secure-port=0", *NO_LISTENERS]
    values = parse_flags(ADAPTER_FLAGS, flags, {})
    clients, authority = CertificateAuthority.create("clients"), CertificateAuthority.create("ca")
    async with fake_api() as hub, ApiClient(hub.config()) as client, asyncio.timeout(60):
        adapter = Adapter(values, client, (client, client), SYSTEM)
        entered = asyncio.Event()

        async def run() -> None:
            async with adapter.running():
                entered.set()
                await asyncio.sleep(3600)

        task = asyncio.create_task(run())
        try:
            await eventually(lambda: any("clusters" in seen.path for seen in hub.seen))
            assert not entered.is_set()
            adapter.tls.trust_clients(clients.bundle_pem)
            mount(tmp_path, authority, 1)
            await entered.wait()
            roots = ssl.create_default_context(cadata=authority.bundle_pem.decode())
            clients.issue_client("jane").save(tmp_path / "jane")
            roots.load_cert_chain(tmp_path / "jane" / "tls.crt", tmp_path / "jane" / "tls.key")
            _, writer = await asyncio.open_connection("127.0.0.1", adapter.server.port, ssl=roots)
            writer.close()
        finally:
            task.cancel()
            await asyncio.wait([task])


async def test_rubbish_in_the_secret_is_named_once(tmp_path: Path) -> None:
    """While it waits, an unusable pair is an error, and a usable one that follows is served."""
    tls = ServingTls(TlsFiles(tmp_path / "tls.crt", tmp_path / "tls.key"))
    with capture_logs() as logs:
        task = asyncio.create_task(tls.filled(asyncio.Event(), 0.01))
        (tmp_path / "tls.crt").write_text("rubbish")
        (tmp_path / "tls.key").write_text("rubbish")
        await eventually(lambda: any(each["log_level"] == "error" for each in logs))
        await asyncio.sleep(0.1)
        CertificateAuthority.create("ca").issue_server("a", dns=["localhost"]).save(tmp_path)

        assert await task

    assert [each["event"] for each in logs if each["log_level"] == "error"] == [
        "serving certificate not loaded"
    ]
