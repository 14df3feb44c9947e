"""The leader creates, renews and publishes certificates, whatever it finds."""

from __future__ import annotations

import asyncio
import base64
import copy
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from certs import stored
from certs.authority import CertificateAuthority
from certs.stored import Status, Step
from metrics_adapter.registration import Registration, api_services
from tests.support.certificates import (
    ADAPTER_TLS,
    CA,
    CUSTOM,
    EXTERNAL,
    MUTATING,
    NAMESPACE,
    RESOURCE,
    VALIDATING,
    WEBHOOK_TLS,
    Hub,
    manager_of,
)
from tests.support.nightly import NIGHT
from tests.support.timing import EPOCH, background, until

pytestmark = [*NIGHT, pytest.mark.looptime]

DAY = 86400.0
PLACES = ((MUTATING, "webhook"), (VALIDATING, "webhook"), (CUSTOM, "metrics-adapter"))


def is_well(hub: Hub) -> bool:
    """True if every registration trusts the stored certificate of its server."""
    return {WEBHOOK_TLS, ADAPTER_TLS} <= hub.objects.keys() and all(hub.trusts(*place) for place in PLACES)


async def started(hub: Hub) -> None:
    """Registers the servers and runs a first manager until all is well."""
    hub.register()
    async with background(manager_of(hub).run()):
        await until(lambda: is_well(hub), 10)
        await asyncio.sleep(2)
    hub.calls.clear()


def set_value(hub: Hub, path: str, key: str, value: object) -> None:
    """Changes a value of a stored Secret, as a person would."""
    changed = copy.deepcopy(hub.objects[path])
    changed["data"][key] = value
    hub._store(path, changed)


async def test_a_first_start_creates_everything_and_then_writes_nothing() -> None:
    """It takes seconds; the certificates have the names of their Services; the Secrets have our label."""
    hub, registry = Hub(), CollectorRegistry()
    hub.register()
    async with background(manager_of(hub, registry=registry).run()):
        await until(lambda: is_well(hub), 5)
        await asyncio.sleep(2)
        hub.calls.clear()
        await asyncio.sleep(300)

        assert hub.writes == []
        expiry = registry.get_sample_value(
            "fedhpa_controller_certificate_expiration_timestamp_seconds", {"certificate": "webhook"}
        )
        assert expiry == pytest.approx(EPOCH + 90 * DAY, abs=10)

    names = stored.decode_pair(hub.objects[WEBHOOK_TLS])
    assert names is not None
    assert names.hosts() == {
        "fedhpa-webhook",
        "fedhpa-webhook.fedhpa-system",
        "fedhpa-webhook.fedhpa-system.svc",
        "fedhpa-webhook.fedhpa-system.svc.cluster.local",
    }
    assert hub.objects[WEBHOOK_TLS]["type"] == "kubernetes.io/tls"
    secrets = [hub.objects[path] for path in (CA, WEBHOOK_TLS, ADAPTER_TLS)]
    assert {stored.status_of(each) for each in secrets} == {Status.OURS}
    assert {reason for reason, _ in hub.events()} == {"CACreated", "CertificateIssued"}


async def test_certificates_are_published_before_they_are_served() -> None:
    """No certificate is stored before each registration of its server trusts it."""
    hub = Hub()
    hub.register()
    async with background(manager_of(hub).run()):
        await until(lambda: is_well(hub), 5)

    order = [path for _, path in hub.writes]
    first_secret = min(index for index, path in enumerate(order) if path.endswith("secrets") and index > 0)
    assert max(order.index(path) for path, _ in PLACES) < first_secret


async def test_registrations_that_come_later_get_the_bundle(logs: list[Any]) -> None:
    """Until then certificates are issued all the same."""
    hub = Hub()
    async with background(manager_of(hub).run()):
        await until(lambda: WEBHOOK_TLS in hub.objects, 5)
        await asyncio.sleep(300)
        hub.register()
        await until(lambda: is_well(hub), 12)

    assert [each for each in logs if each["log_level"] in ("warning", "error")] == []


async def test_an_edited_bundle_is_ours_again() -> None:
    """An emptied caBundle is filled within ten seconds, and a root of somebody else leaves it."""
    hub = Hub()
    await started(hub)
    emptied = copy.deepcopy(hub.objects[VALIDATING])
    del emptied["webhooks"][0]["clientConfig"]["caBundle"]
    hub._store(VALIDATING, emptied)
    other = CertificateAuthority.create("other").bundle_pem
    appended = copy.deepcopy(hub.objects[CUSTOM])
    old = base64.b64decode(appended["spec"]["caBundle"])
    appended["spec"]["caBundle"] = base64.b64encode(old + other).decode()
    hub._store(CUSTOM, appended)

    async with background(manager_of(hub).run()):
        await asyncio.sleep(11)

    assert is_well(hub)
    assert {len(bundle) for path, _ in PLACES for bundle in hub.bundles(path)} == {1}
    assert sorted(path for _, path in hub.writes) == sorted([VALIDATING, CUSTOM])


@pytest.mark.parametrize("content", ["", "rubbish", "!!!", 7, None, "A" * 1_000_000, {"a": []}])
@pytest.mark.parametrize("key", ["tls.crt", "tls.key"])
async def test_an_unusable_pair_is_issued_again(key: str, content: object) -> None:
    """Any content of our Secret is replaced; the other server's certificate stays."""
    hub = Hub()
    await started(hub)
    kept = hub.leaf("metrics-adapter")
    set_value(hub, WEBHOOK_TLS, key, content)

    async with background(manager_of(hub).run()):
        await asyncio.sleep(11)

    assert is_well(hub)
    assert hub.leaf("metrics-adapter") == kept
    assert [path for _, path in hub.writes] == [WEBHOOK_TLS]


async def test_a_key_of_another_certificate_is_no_pair() -> None:
    """The webhook could not load them, so a new pair is issued."""
    hub = Hub()
    await started(hub)
    set_value(hub, WEBHOOK_TLS, "tls.key", hub.objects[ADAPTER_TLS]["data"]["tls.key"])

    async with background(manager_of(hub).run()):
        await asyncio.sleep(11)

    assert is_well(hub)


@pytest.mark.parametrize("spoil", ["delete", "empty", "rubbish", "other-key"])
async def test_a_lost_ca_is_replaced_without_a_gap(spoil: str, logs: list[Any]) -> None:
    """The old CA stays trusted, because pods still serve its certificates, and a line has the command."""
    hub = Hub()
    await started(hub)
    before = hub.bundles(CUSTOM)[0]
    if spoil == "delete":
        del hub.objects[CA]
    elif spoil == "empty":
        hub._store(CA, {key: each for key, each in hub.objects[CA].items() if key != "data"})
    else:
        key = "rubbish" if spoil == "rubbish" else hub.objects[WEBHOOK_TLS]["data"]["tls.key"]
        set_value(hub, CA, "ca.key", key)

    manager = manager_of(hub)
    for _ in range(4):
        await asyncio.sleep(await manager.reconcile())
    assert is_well(hub)
    bundles = [bundle for path, _ in PLACES for bundle in hub.bundles(path)]
    assert {len(bundle) for bundle in bundles} == {2}
    assert all(set(before) <= set(bundle) for bundle in bundles)
    assert stored.decode_ca(Status.OURS, hub.objects[CA]).step is Step.SWITCH
    await manager.reconcile()
    await asyncio.sleep(4000)
    await manager.reconcile()

    assert "CAReplaced" in {each.get("reason") for each in logs}
    said = [each["detail"] for each in logs if each.get("reason") == "CAChangeUnfinished"]
    assert len(said) == 1
    assert "fedhpa certs rotate-ca" in said[0]


async def test_an_expired_ca_is_named_and_signs_nothing(logs: list[Any]) -> None:
    """Event and log have the command; the stored certificates stay."""
    hub = Hub()
    await started(hub)
    hub.ahead = 3651 * DAY  # both clocks

    async with background(manager_of(hub, step=lambda: hub.ahead).run()):
        await asyncio.sleep(100)

    assert hub.writes == []
    said = [each for each in logs if each.get("reason") == "CAExpired"]
    assert len(said) == 1
    assert "fedhpa certs rotate-ca" in said[0]["error"]
    assert [reason for reason, _ in hub.events()].count("CAExpired") == 1


async def test_the_end_of_the_ca_is_announced_a_year_before(logs: list[Any]) -> None:
    """Once a day, as an event and in the log. Certificates that would outlive the CA end with it."""
    hub = Hub()
    await started(hub)
    said: list[int] = []
    manager = manager_of(hub, step=lambda: hub.ahead)
    for ahead, days in ((3280, 1), (3290, 1), (3290, 0.5), (3290, 0.6), (3640, 1), (3640, 1)):
        hub.ahead = ahead * DAY
        await asyncio.sleep(days * DAY)
        await manager.reconcile()
        said.append(len([each for each in logs if each.get("reason") == "CAExpiresSoon"]))
    hub.calls.clear()
    for _ in range(3):
        await asyncio.sleep(DAY)
        await manager.reconcile()

    assert said == [0, 1, 1, 2, 3, 4]
    assert "fedhpa certs rotate-ca" in str(logs[-1])
    assert hub.leaf("webhook").not_valid_after_utc == hub.bundles(CUSTOM)[0][0].not_valid_after_utc
    assert hub.writes == []
    assert is_well(hub)


async def test_a_foreign_secret_is_left_alone_and_named(logs: list[Any]) -> None:
    """Neither it nor the registrations that trust its CA are changed; the other server is looked after."""
    hub = Hub()
    hub.register()
    theirs = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "fedhpa-webhook-tls", "namespace": NAMESPACE, "uid": "1"},
        "data": {"tls.crt": "b3Ro"},
    }
    hub.create(theirs)
    stored = copy.deepcopy(hub.objects[WEBHOOK_TLS])

    async with background(manager_of(hub).run()):
        await asyncio.sleep(650)

    assert hub.objects[WEBHOOK_TLS] == stored
    assert hub.bundles(VALIDATING) == [(), ()]
    assert hub.trusts(CUSTOM, "metrics-adapter")
    said = [each for each in logs if each.get("object") == "secrets/fedhpa-webhook-tls"]
    assert len(said) <= 3  # at once, and after ten minutes
    assert said[0]["reason"] == "ForeignSecret"
    assert "kubectl -n fedhpa-system label secret fedhpa-webhook-tls" in said[0]["error"]
    assert [reason for reason, _ in hub.events()].count("ForeignSecret") == 1


async def test_nothing_is_written_beside_a_foreign_ca() -> None:
    """A Secret fedhpa-ca of somebody else stops everything."""
    hub = Hub()
    hub.register()
    theirs = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "fedhpa-ca", "namespace": NAMESPACE}}
    hub.create(theirs)

    async with background(manager_of(hub).run()):
        await asyncio.sleep(100)

    assert hub.writes == []
    assert "ForeignSecret" in {reason for reason, _ in hub.events()}


async def test_an_api_service_of_somebody_else_is_never_touched() -> None:
    """The metrics-server's has another Service. One of ours in another namespace needs a further name."""
    hub = Hub()
    hub.register()
    server = Registration(namespace="kube-system", service="metrics-server")
    hub.create(api_services(server, b"", ["metrics.k8s.io"])[0])
    away = Registration(namespace="elsewhere")
    hub.create(api_services(away, b"", ["external.metrics.k8s.io"])[0])
    theirs = copy.deepcopy(hub.objects[RESOURCE])
    elsewhere = copy.deepcopy(hub.objects[EXTERNAL])

    async with background(manager_of(hub).run()):
        await asyncio.sleep(100)

    assert hub.objects[RESOURCE] == theirs
    assert hub.objects[EXTERNAL] == elsewhere
    said = dict(hub.events())["HostNotInCertificate"]
    assert "--certificates-hosts=fedhpa-metrics-adapter.elsewhere.svc" in said


async def test_another_list_of_hosts_gives_another_certificate() -> None:
    """The names of --certificates-hosts are in both certificates."""
    hub = Hub()
    await started(hub)

    async with background(manager_of(hub, hosts=("fedhpa.example.com", "192.0.2.7")).run()):
        await asyncio.sleep(11)

    pair = stored.decode_pair(hub.objects[WEBHOOK_TLS])
    assert pair is not None
    assert {"fedhpa.example.com", "192.0.2.7", "fedhpa-webhook.fedhpa-system.svc"} <= pair.hosts()
    assert is_well(hub)


async def test_certificates_are_renewed_at_two_thirds_of_their_life() -> None:
    """After 59 of 90 days nothing has changed; after 61 both are new, of the same root."""
    hub = Hub()
    await started(hub)
    before, root = hub.leaf("webhook"), hub.bundles(CUSTOM)
    await asyncio.sleep(59 * DAY)
    async with background(manager_of(hub).run()):
        await asyncio.sleep(30)
        assert hub.leaf("webhook") == before
    await asyncio.sleep(2 * DAY)
    async with background(manager_of(hub).run()):
        await asyncio.sleep(30)

    assert hub.leaf("webhook") != before
    assert hub.bundles(CUSTOM) == root
    assert is_well(hub)


@pytest.mark.parametrize("own", [True, False], ids=["own-clock", "hub-clock"])
@pytest.mark.parametrize("step", [400 * DAY, -400 * DAY, 30 * 365 * DAY])
async def test_a_clock_that_steps_renews_nothing(step: float, own: bool, logs: list[Any]) -> None:
    """While the two clocks differ no date counts; it is told, and ends with the difference."""
    hub = Hub()
    await started(hub)
    stepped = [0.0]
    async with background(manager_of(hub, step=lambda: stepped[0] if own else 0.0).run()):
        await asyncio.sleep(60)
        stepped[0] = step
        hub.ahead = 0.0 if own else step
        await asyncio.sleep(60)
        stepped[0] = hub.ahead = 0.0
        await asyncio.sleep(60)

    assert hub.writes == []
    assert "ClockSkew" in {each.get("reason") for each in logs}
    assert logs[-1]["event"] == "certificates are well again"


async def test_a_deposed_leader_writes_nothing() -> None:
    """The Lease is checked before each write, and each write has the version that was read."""
    hub = Hub()
    hub.register()
    async with background(manager_of(hub, leads=lambda: False).run()):
        await asyncio.sleep(100)

    assert hub.writes == []


async def test_a_registration_that_may_not_be_written_stops_no_other(logs: list[Any]) -> None:
    """The adapter gets its certificate, and later its renewal; the webhook's problem is told."""
    hub = Hub()
    hub.register()
    hub.refused[("PUT", VALIDATING)] = 403
    async with background(manager_of(hub).run()):
        await asyncio.sleep(700)

    assert hub.trusts(CUSTOM, "metrics-adapter")
    assert WEBHOOK_TLS not in hub.objects
    said = [each for each in logs if each.get("reason") == "NotWritten"]
    assert said[0]["object"].endswith("validatingwebhookconfigurations/fedhpa-webhook")
    assert len(said) <= 2


async def test_a_hub_that_hangs_is_asked_again() -> None:
    """Each call has a deadline, and nothing is forgotten."""
    hub = Hub()
    hub.register()
    hub.hang = True
    async with background(manager_of(hub).run()):
        await asyncio.sleep(100)
        hub.hang = False
        await until(lambda: is_well(hub), 40)
