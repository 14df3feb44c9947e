"""How members that are no Clusters are reached: by client certificates, and through proxies."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme

from fedhpa.members.sources import plugins
from tests.integration.test_config_rotation import proxy
from tests.support.fakeapi import SECRETS, FakeApi, Object, eventually
from tests.support.fleets import (
    PROFILES,
    Fleet,
    argocd_of,
    cluster_secret,
    fleet_of,
    plugin,
    printing,
    profile,
    profiles_of,
    provider_file,
)

VERSION = "client.authentication.k8s.io/v1"


def encoded(text: bytes) -> str:
    """Returns text in base64."""
    return base64.b64encode(text).decode()


def let_print(folder: Path, status: Object) -> None:
    """Lets the plugin print this status from now on."""
    answer = {"apiVersion": VERSION, "kind": "ExecCredential", "status": status}
    (folder / "credential").write_text(json.dumps(answer))


@asynccontextmanager
async def only_certificates(fleet: Fleet) -> AsyncIterator[tuple[FakeApi, trustme.CA]]:
    """Lets the server of m1 take nothing but client certificates of a CA."""
    server, authority = fleet.servers["m1"], trustme.CA()
    await server.stop()
    server.clients, server.token = authority, None
    await server.start()
    yield server, authority


def pair(authority: trustme.CA, name: str = "fedhpa") -> tuple[bytes, bytes]:
    """Returns a client certificate and its key."""
    made = authority.issue_cert(f"{name}.example.com")
    return made.cert_chain_pems[0].bytes(), made.private_key_pem.bytes()


async def test_a_plugin_may_print_a_client_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is used without a token, and the next one before the first one expires."""
    monkeypatch.setattr(plugins, "LEAST_SECONDS", 0.1)
    file = provider_file(tmp_path, plugin(tmp_path, f"cat {tmp_path}/credential"))
    async with (
        fleet_of(profiles_of(file), "m1", profiles=False) as fleet,
        only_certificates(fleet) as (server, authority),
    ):
        certificate, key = pair(authority)
        status = {"clientCertificateData": certificate.decode(), "clientKeyData": key.decode()}
        soon = (datetime.now(UTC) + timedelta(seconds=4)).isoformat()
        let_print(tmp_path, {**status, "expirationTimestamp": soon})
        fleet.hub.put(PROFILES, profile("m1", server.url, server.ca_pem))
        await fleet.ready("m1")
        assert await fleet["m1"].client.get_json("/version")
        assert {one.authorization for one in server.seen} == {None}
        first = fleet["m1"].access
        second, key = pair(authority, "later")
        let_print(tmp_path, {"clientCertificateData": second.decode(), "clientKeyData": key.decode()})

        await eventually(lambda: fleet["m1"].access != first)
        await fleet.ready("m1")
        assert await fleet["m1"].client.get_json("/version")


@pytest.mark.parametrize("known", [True, False])
async def test_a_secret_of_argo_cd_may_have_a_client_certificate(known: bool) -> None:
    """The server closes the connection of one that another CA has signed."""
    async with (
        fleet_of(argocd_of("m1"), "m1", profiles=False) as fleet,
        only_certificates(fleet) as (server, authority),
    ):
        certificate, key = pair(authority if known else trustme.CA())
        tls = {
            "caData": encoded(server.ca_pem.encode()),
            "certData": encoded(certificate),
            "keyData": encoded(key),
            "serverName": "localhost",
        }
        config: Any = {"tlsClientConfig": tls}
        fleet.hub.put(SECRETS, cluster_secret("m1", server.url, "", server.ca_pem, config=config))
        if known:
            await fleet.ready("m1")
        else:
            await fleet.away("m1", "connection closed")
        assert bool(server.seen) is known


@pytest.mark.parametrize("source", ["clusterprofiles", "argocd"])
async def test_a_member_behind_a_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    """The proxy sees which server is meant, and no credentials. One on this machine is refused."""
    file = provider_file(tmp_path, plugin(tmp_path, printing("m1-token")))
    sources = profiles_of(file) if source == "clusterprofiles" else argocd_of("m1")
    async with proxy() as between, fleet_of(sources, "m1", profiles=False) as fleet:
        server = fleet.servers["m1"]

        def register() -> None:
            if source == "clusterprofiles":
                made = profile("m1", server.url, server.ca_pem, **{"proxy-url": between.url})
                fleet.hub.put(PROFILES, made)
            else:
                tls = {"caData": encoded(server.ca_pem.encode())}
                config: Any = {"bearerToken": "m1-token", "tlsClientConfig": tls, "proxyUrl": between.url}
                fleet.hub.put(SECRETS, cluster_secret("m1", server.url, "", server.ca_pem, config=config))

        register()
        await fleet.away("m1", "this machine or its link")
        assert between.heads == []
        # The proxy of this test is on this machine.
        monkeypatch.setattr("fedhpa.members.sources.addresses._refuse_local", lambda *_: None)
        register()
        await fleet.ready("m1")
        assert await fleet["m1"].client.get_json("/version")

        assert {head.split("\r\n")[0] for head in between.heads} == {
            f"CONNECT 127.0.0.1:{server.port} HTTP/1.1"
        }
        assert not any("Bearer" in head for head in between.heads)
