"""An adapter that cannot have its callers reviewed is not ready, says why, and follows its kubeconfigs."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
from aiohttp import web
from cryptography import x509
from prometheus_client import generate_latest
from structlog.testing import capture_logs

from fedhpa.kube.rotation import follow_config
from fedhpa.serving import trust
from metrics_adapter import process
from metrics_adapter.process import Adapter
from testbed.stage.kubeconfig import write_kubeconfig
from tests.support.adapter.process import (
    CONFIG_MAPS,
    JANE,
    PODS_PATH,
    Fleet,
    Hub,
    fleet_of_one,
    pod_metrics,
)
from tests.support.fakeapi import eventually


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shortens the periods of reviews and kubeconfigs."""
    monkeypatch.setattr(process, "REVIEW_SECONDS", 0.02)
    monkeypatch.setattr(process, "HUB_PROBE_SECONDS", 0.02)
    monkeypatch.setattr(process, "follow_config", partial(follow_config, period=0.02))
    monkeypatch.setattr(trust, "FILE_POLL_SECONDS", 0.02)


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    async with fleet_of_one(tmp_path, pod_metrics("web")) as made:
        yield made


def check(adapter: Adapter, name: str) -> tuple[bool, str]:
    """Returns whether a readiness check passes, and its reason or note."""
    found = adapter.health._checks[name]
    return found.ok, found.reason or found.note


def sample(adapter: Adapter, series: str) -> float:
    """Returns the value of a series with its labels."""
    for line in generate_latest(adapter.telemetry.registry).decode().splitlines():
        if line.startswith(f"{series} "):
            return float(line.rpartition(" ")[2])
    raise LookupError(series)


@pytest.mark.parametrize("kind", ["subjectaccessreviews", "tokenreviews"])
async def test_readiness_makes_real_reviews(fleet: Fleet, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Without permission to review, every request would fail, so the process is not ready."""
    serve = fleet.world.hub._serve
    status = 200

    async def refusing(request: web.Request) -> web.StreamResponse:
        if status == 200 or not request.path.endswith(kind):
            return await serve(request)
        return web.json_response({"kind": "Status", "message": "no right"}, status=status)

    monkeypatch.setattr(fleet.world.hub, "_serve", refusing)
    async with fleet.world.adapter() as adapter, fleet.world.caller(adapter, certificate=False) as caller:
        status = 403
        await eventually(lambda: not check(adapter, "reviews")[0])
        unready = await caller.get("/readyz")
        status = 200
        await eventually(lambda: check(adapter, "reviews")[0])
        ready = await caller.get("/readyz")

    assert (unready.status, ready.status) == (500, 200)
    assert b"[-]reviews failed: " in unready.body
    assert b"cannot be reviewed" in unready.body
    assert b"no right" in unready.body


@pytest.mark.parametrize("flag", ["authentication-kubeconfig", "authorization-kubeconfig"])
async def test_the_kubeconfigs_of_reviews_are_followed(fleet: Fleet, tmp_path: Path, flag: str) -> None:
    """A new token, or a new place of the API server, takes effect without a restart."""
    world = fleet.world
    server = Hub(world.proxies, world.clients)
    server.token = "first"
    await server.start()
    path = tmp_path / "reviews-kubeconfig"

    def write(token: str) -> None:
        write_kubeconfig(path, server.url, server.ca_pem.encode(), {"token": token})

    try:
        write("first")
        async with (
            world.adapter(f"--{flag}={path}", "--authorization-webhook-cache-authorized-ttl=0s") as adapter,
            world.caller(adapter) as caller,
        ):
            before = await caller.call("GET", PODS_PATH, JANE)
            server.token = "second"
            await eventually(lambda: not adapter.health.ready)
            write("second")
            await eventually(lambda: adapter.health.ready)
            after = await caller.call("GET", PODS_PATH, JANE)
    finally:
        await server.stop()

    assert (before.status, after.status) == (200, 200)


async def test_a_client_ca_that_cannot_be_loaded_is_not_ok(fleet: Fleet) -> None:
    """At the start the adapter is not ready. Later it keeps the old CAs and says so."""
    hub = fleet.world.hub
    good = hub.find(CONFIG_MAPS, "extension-apiserver-authentication", "kube-system")
    assert good is not None
    bad = json.loads(json.dumps(good))
    bad["data"]["client-ca-file"] = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    hub.put(CONFIG_MAPS, bad)
    async with fleet.world.adapter(ready=False) as adapter:
        await eventually(lambda: "unusable" in check(adapter, "authentication")[1])
        first = check(adapter, "authentication")
        hub.put(CONFIG_MAPS, good)
        await eventually(lambda: adapter.health.ready)
        second = check(adapter, "authentication")
        hub.put(CONFIG_MAPS, bad)
        await eventually(lambda: check(adapter, "authentication")[1] != "")
        async with fleet.world.caller(adapter) as caller:
            served = await caller.call("GET", PODS_PATH, JANE)
            verbose = await caller.call("GET", "/readyz?verbose", {})

    assert first[0] is False
    assert second == (True, "")
    assert served.status == 200
    assert b"[+]authentication ok (keeping the CAs of before: the hub's ConfigMap" in verbose.body


async def test_a_client_certificate_that_proves_nothing_is_noted(fleet: Fleet) -> None:
    """It passes TLS, so its peer sees a plain 401. The adapter says why, and stays ready."""
    hub = fleet.world.hub
    found = hub.find(CONFIG_MAPS, "extension-apiserver-authentication", "kube-system")
    assert found is not None
    other = json.loads(json.dumps(found))
    other["data"]["requestheader-allowed-names"] = '["somebody-else"]'
    hub.put(CONFIG_MAPS, other)
    async with fleet.world.adapter() as adapter, fleet.world.caller(adapter) as caller:
        answer = await caller.call("GET", PODS_PATH, JANE)
        await eventually(lambda: check(adapter, "authentication")[1] != "")
        noted = check(adapter, "authentication")

    assert answer.status == 401
    assert noted[0] is True
    assert "passed TLS and proves nothing" in noted[1]
    assert "is no allowed name of a front proxy" in noted[1]


async def test_outcomes_are_counted(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Authentication and authorization each have their outcomes, also those that are errors."""
    fleet.world.hub.denied.add("denied")
    async with (
        fleet.world.adapter() as adapter,
        fleet.world.caller(adapter) as caller,
        fleet.world.caller(adapter, certificate=False) as stranger,
    ):
        for headers in (JANE, {}, {"X-Remote-User": "denied"}):
            await caller.call("GET", PODS_PATH, headers)
        serve = fleet.world.hub._serve

        async def failing(request: web.Request) -> web.StreamResponse:
            if request.path.endswith("reviews"):
                return web.json_response({}, status=500)
            return await serve(request)

        monkeypatch.setattr(fleet.world.hub, "_serve", failing)
        with capture_logs() as logs:
            for number in range(3):
                await stranger.get(PODS_PATH, Authorization=f"Bearer unknown-{number}")
        await caller.call("GET", PODS_PATH, {"X-Remote-User": "joe"})
        found = {
            outcome: sample(adapter, f'fedhpa_adapter_{kind}_total{{outcome="{outcome}"}}')
            for kind, outcomes in (
                ("authentications", ("authenticated", "unauthenticated")),
                ("authorizations", ("allowed", "denied")),
            )
            for outcome in outcomes
        }
        errors = [
            sample(adapter, f'fedhpa_adapter_{kind}_total{{outcome="error"}}')
            for kind in ("authentications", "authorizations")
        ]
        expires = sample(adapter, "fedhpa_serving_certificate_expiration_timestamp_seconds")

    assert found == {"authenticated": 3, "unauthenticated": 1, "allowed": 1, "denied": 1}
    assert errors == [3, 1]
    assert [entry["event"] for entry in logs].count("token could not be reviewed") == 3
    certificate = x509.load_pem_x509_certificate((fleet.world.folder / "tls.crt").read_bytes())
    assert expires == certificate.not_valid_after_utc.timestamp()
