"""Authentication: the front proxy acts for its users, clients present credentials, others are refused."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from structlog.testing import capture_logs

from certs import CertificateAuthority
from tests.support.adapter.process import JANE, METRICS, PODS_PATH, AdapterWorld, pod_metrics, until, world
from tests.support.fakeapi import fake_api, join


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[AdapterWorld]:
    async with world(tmp_path) as made, fake_api() as member:
        member.put(METRICS, pod_metrics("web"))
        join(made.hub, "member1", member)
        yield made


async def test_the_front_proxy_speaks_for_its_users(fleet: AdapterWorld) -> None:
    """The hub reviews jane's access to pods, not the proxy's, and the review is cached."""
    async with fleet.adapter() as adapter, fleet.caller(adapter) as caller:
        for _ in range(3):
            assert (await caller.call("GET", PODS_PATH, JANE)).names == ["member1/shop/web"]

        assert fleet.hub.reviews == [
            {
                "user": "jane",
                "groups": ["dev", "system:authenticated"],
                "resourceAttributes": {
                    "verb": "list",
                    "group": "metrics.k8s.io",
                    "version": "v1beta1",
                    "resource": "pods",
                },
            }
        ]


async def test_requests_are_audited_on_demand(fleet: AdapterWorld) -> None:
    """--audit-log-path=- logs user and request, also of refused ones, and never a token."""
    fleet.hub.denied.add("jane")
    with capture_logs() as logs:
        async with fleet.adapter("--audit-log-path=-") as adapter, fleet.caller(adapter) as caller:
            await caller.call("GET", PODS_PATH, {**JANE, "Authorization": "Bearer t0k3n"})

    (line,) = [line for line in logs if line["event"] == "audit" and line["path"] == PODS_PATH]
    assert (line["user"], line["verb"], line["status"]) == ("jane", "list", 403)
    assert "t0k3n" not in str(logs)


async def test_a_token_is_reviewed(fleet: AdapterWorld) -> None:
    """The hub accepts one bearer token and rejects another."""
    fleet.hub.users["good"] = {"username": "system:serviceaccount:a:b", "groups": ["system:serviceaccounts"]}
    async with fleet.adapter() as adapter, fleet.caller(adapter, certificate=False) as caller:
        assert (await caller.get(PODS_PATH, Authorization="Bearer good")).status == 200
        assert (await caller.get(PODS_PATH, Authorization="Bearer bad")).status == 401

        assert fleet.hub.reviews[0]["user"] == "system:serviceaccount:a:b"


async def test_without_proof_only_health_is_served(fleet: AdapterWorld) -> None:
    """The kubelet's probes have no credentials. Else the response is 401, whatever the headers claim."""
    async with fleet.adapter() as adapter, fleet.caller(adapter, certificate=False) as caller:
        for path in (PODS_PATH, "/apis", "/apis/custom.metrics.k8s.io", "/metrics", "/nowhere"):
            answer = await caller.call("GET", path, {**JANE, "X-Remote-Group": "system:masters"})

            assert (answer.status, answer.json["reason"]) == (401, "Unauthorized"), path
        assert fleet.hub.reviews == []
        assert (await caller.get("/livez")).body == b"ok"
        assert (await caller.get("/healthz")).body == b"ok"
        verbose = (await caller.get("/readyz?verbose")).body.decode()

        assert verbose.splitlines() == [
            "[+]ping ok",
            "[+]shutdown ok",
            "[+]certificate ok",
            "[+]hub ok",
            "[+]authentication ok",
            "[+]reviews ok",
            "[+]members ok",
            "readyz check passed",
        ]


async def test_a_new_front_proxy_ca_is_believed_and_the_old_one_dropped(fleet: AdapterWorld) -> None:
    """The adapter follows the hub's ConfigMap. A certificate is checked for each request of a connection, and
    one of an unknown CA does not get as far as HTTP.
    """
    fresh = CertificateAuthority.create("front-proxy-ca")
    async with fleet.adapter() as adapter, fleet.caller(adapter) as old:
        assert (await old.call("GET", PODS_PATH, JANE)).status == 200

        fleet.hub.publish(fresh, fleet.clients)

        async def believed() -> bool:
            async with fleet.caller(adapter, authority=fresh) as caller:
                try:
                    return (await caller.call("GET", PODS_PATH, JANE)).status == 200
                except (aiohttp.ClientError, ssl.SSLError):
                    return False

        await until(believed)
        assert (await old.call("GET", PODS_PATH, JANE)).status == 401
        async with fleet.caller(adapter) as caller:
            with pytest.raises((aiohttp.ClientError, ssl.SSLError)):
                await caller.call("GET", PODS_PATH, JANE)


async def test_flags_take_the_place_of_the_hubs_config_map(fleet: AdapterWorld, tmp_path: Path) -> None:
    """--requestheader-client-ca-file with --authentication-skip-lookup trusts exactly that CA."""
    own = CertificateAuthority.create("own-proxies")
    own.save(tmp_path / "own")
    flags = (
        "--authentication-skip-lookup",
        f"--requestheader-client-ca-file={tmp_path / 'own' / 'ca.crt'}",
        "--requestheader-username-headers=X-Own-User",
        "--requestheader-uid-headers=X-Own-Uid",
        "--requestheader-allowed-names=own-proxy,other",
    )
    async with (
        fleet.adapter(*flags) as adapter,
        fleet.caller(adapter, authority=own, name="own-proxy") as caller,
    ):
        assert (await caller.get(PODS_PATH, X_Own_User="jane", X_Own_Uid="7")).status == 200
        assert fleet.hub.reviews[-1]["uid"] == "7"
        assert (await caller.call("GET", PODS_PATH, JANE)).status == 401
