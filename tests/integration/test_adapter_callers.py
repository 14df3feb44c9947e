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


@pytest.mark.parametrize("path", [PODS_PATH, "/apis", "/apis/custom.metrics.k8s.io", "/metrics", "/nowhere"])
async def test_without_proof_nothing_is_served(fleet: AdapterWorld, path: str) -> None:
    """The response is 401 with a Status, whatever the headers claim."""
    async with fleet.adapter() as adapter, fleet.caller(adapter, certificate=False) as caller:
        answer = await caller.call("GET", path, {**JANE, "X-Remote-Group": "system:masters"})

        assert answer.status == 401
        assert answer.json["reason"] == "Unauthorized"
        assert fleet.hub.reviews == []


async def test_health_needs_no_proof(fleet: AdapterWorld) -> None:
    """The kubelet's probes have no credentials."""
    async with fleet.adapter() as adapter, fleet.caller(adapter, certificate=False) as caller:
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


async def test_a_certificate_of_another_authority_ends_the_handshake(fleet: AdapterWorld) -> None:
    """A client without a certificate of a known CA does not get as far as HTTP."""
    stranger = CertificateAuthority.create("front-proxy-ca")
    async with fleet.adapter() as adapter, fleet.caller(adapter, authority=stranger) as caller:
        with pytest.raises((aiohttp.ClientError, ssl.SSLError)):
            await caller.call("GET", PODS_PATH, JANE)


async def test_a_new_front_proxy_ca_is_believed_and_the_old_one_dropped(fleet: AdapterWorld) -> None:
    """The adapter follows the hub's ConfigMap while it runs."""
    fresh = CertificateAuthority.create("front-proxy-ca")
    async with fleet.adapter() as adapter:
        async with fleet.caller(adapter) as caller:
            assert (await caller.call("GET", PODS_PATH, JANE)).status == 200

        fleet.hub.publish(fresh, fleet.clients)

        async def believed() -> bool:
            async with fleet.caller(adapter, authority=fresh) as caller:
                try:
                    return (await caller.call("GET", PODS_PATH, JANE)).status == 200
                except (aiohttp.ClientError, ssl.SSLError):
                    return False

        await until(believed)
        async with fleet.caller(adapter) as caller:
            with pytest.raises((aiohttp.ClientError, ssl.SSLError)):
                await caller.call("GET", PODS_PATH, JANE)


async def test_an_open_connection_of_a_dropped_proxy_proves_nothing(fleet: AdapterWorld) -> None:
    """The certificate is checked for each request, not once for a connection."""
    fresh = CertificateAuthority.create("front-proxy-ca")
    async with fleet.adapter() as adapter, fleet.caller(adapter) as caller:
        assert (await caller.call("GET", PODS_PATH, JANE)).status == 200

        fleet.hub.publish(fresh, fleet.clients)

        async def refused() -> bool:
            return (await caller.call("GET", PODS_PATH, JANE)).status == 401

        await until(refused)


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


async def test_malformed_requests_leave_the_process_alive(fleet: AdapterWorld) -> None:
    """Invalid selectors, paths, methods and Accept headers are answered with a Status."""
    async with fleet.adapter() as adapter, fleet.caller(adapter) as caller:
        expected = {
            ("GET", f"{PODS_PATH}?labelSelector=a%3D%3D%3Db"): 400,
            ("GET", f"{PODS_PATH}?fieldSelector=spec.nodeName%3Da"): 400,
            ("GET", f"{PODS_PATH}?watch=true"): 405,
            ("POST", PODS_PATH): 405,
            ("GET", "/apis/metrics.k8s.io/v1beta2/pods"): 404,
            ("GET", "/apis/external.metrics.k8s.io/v1beta1/namespaces/a/m/n"): 404,
            ("GET", "/apis/external.metrics.k8s.io/v1beta2/namespaces/a/m"): 404,
            ("POST", "/apis/external.metrics.k8s.io/v1beta1/namespaces/a/m"): 405,
            ("GET", "/apis/custom.metrics.k8s.io/v1beta1/namespaces/a/m"): 404,
        }
        found = {}
        for method, path in expected:
            answer = await caller.call(method, path, JANE)
            assert answer.json["kind"] == "Status"
            found[method, path] = answer.status

        assert found == expected
        only_protobuf = {**JANE, "Accept": "application/vnd.kubernetes.protobuf"}
        assert (await caller.call("GET", PODS_PATH, only_protobuf)).status == 406
        assert (await caller.call("GET", PODS_PATH, JANE)).status == 200
