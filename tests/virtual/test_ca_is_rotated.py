"""`certs.rotation` replaces the CA: leaders and commands end at any time, and no server is distrusted.

API servers may use an old bundle, and pods may serve an old certificate, for nearly the settle time.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import copy
from typing import Any

import pytest
from cryptography import x509

from certs import stored
from certs.authority import CertificateAuthority
from certs.certificate_store import CertificateStore
from certs.keeping import COMMON_NAME
from certs.rotation import NotKept, Rotation
from certs.stored import Status, Step
from fedhpa.api.errors import ApiError
from tests.support.certificates import (
    ADAPTER_TLS,
    CA,
    CUSTOM,
    MUTATING,
    NAMESPACE,
    VALIDATING,
    WEBHOOK_TLS,
    Hub,
    is_signed,
    manager_of,
)
from tests.support.nightly import NIGHTLY
from tests.support.timing import EPOCH, background, loop_time, until

pytestmark = pytest.mark.looptime

# Each virtual second costs, so only nightly runs wait for the default.
SETTLE = 300.0 if NIGHTLY else 40.0
# Seconds that an API server or a pod may be behind the stored objects.
LAG = SETTLE - 5.0
PLACES = {MUTATING: "webhook", VALIDATING: "webhook", CUSTOM: "metrics-adapter"}
DAY = 86400.0


class LateHub(Hub):
    """Its API servers and pods may use what was stored until LAG seconds ago. Counts what they distrust."""

    def __init__(self) -> None:
        super().__init__()
        self.past: dict[str, list[tuple[float, Any]]] = {}
        self.refused_pairs: list[tuple[str, float]] = []

    def _store(self, path: str, found: dict[str, Any]) -> dict[str, Any]:
        result = super()._store(path, found)
        now = loop_time()
        if path in PLACES:
            self.past.setdefault(path, []).append((now, self.bundles(path)))
        elif path in (WEBHOOK_TLS, ADAPTER_TLS) and (pair := stored.decode_pair(found)):
            self.past.setdefault(path, []).append((now, pair.certificate))
        if path in self.past:
            self._check(now)
        return result

    def _in_use(self, path: str, now: float) -> list[Any]:
        past = self.past.get(path, [])
        ends = [*(at for at, _ in past), now][1:]
        return [each for (_, each), end in zip(past, ends, strict=True) if now - end < LAG]

    def _check(self, now: float) -> None:
        for place, server in PLACES.items():
            for leaf in self._in_use(WEBHOOK_TLS if server == "webhook" else ADAPTER_TLS, now):
                for bundles in self._in_use(place, now):
                    if not all(any(is_signed(leaf, ca) for ca in bundle) for bundle in bundles):
                        self.refused_pairs.append((place, now))

    @property
    def step(self) -> Step:
        """The step that the CA Secret shows."""
        return stored.decode_ca(Status.OURS, self.objects[CA]).step

    @property
    def ca(self) -> x509.Certificate:
        """The CA that signs."""
        signer = stored.decode_ca(Status.OURS, self.objects[CA]).signer
        assert signer is not None
        return signer.certificate

    def check_only(self, ca: x509.Certificate) -> None:
        """Fails unless this CA is the only one, and nobody was distrusted."""
        assert self.refused_pairs == []
        assert self.step is Step.NONE
        for path, server in PLACES.items():
            assert self.bundles(path) == [(ca,)] * len(self.bundles(path))
            assert is_signed(self.leaf(server), ca)


async def started() -> LateHub:
    """Returns a hub with kept certificates whose beginnings are in nobody's memory."""
    hub = LateHub()
    hub.register()
    async with background(manager_of(hub).run()):
        await until(lambda: {WEBHOOK_TLS, ADAPTER_TLS} <= hub.objects.keys(), 20)
        await asyncio.sleep(5)
    hub.past = {path: past[-1:] for path, past in hub.past.items()}
    hub.refused_pairs.clear()
    return hub


def rotation(hub: Hub, said: list[str] | None = None, **times: float) -> Rotation:
    """Returns one run of the command, with the rights of a person who has no further hosts."""
    lines = [] if said is None else said
    store = CertificateStore(hub, hub, NAMESPACE)
    return Rotation(
        store, lines.append, lambda: EPOCH + loop_time(), settle=times.get("settle", SETTLE), timeout=60.0
    )


async def run_for(seconds: float, work: Any) -> None:
    """Runs work for some seconds, as until Ctrl-C."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await work


async def test_the_ca_is_replaced_in_three_steps_that_are_told() -> None:
    """Each line names a step, the CAs and the wait; nobody distrusts a server meanwhile."""
    hub = await started()
    old, said = hub.ca, list[str]()
    async with background(manager_of(hub).run()):
        await rotation(hub, said).run()

    assert hub.ca != old
    hub.check_only(hub.ca)
    assert [line[:3] for line in said] == ["1/3", "eve", "2/3", "bot", "3/3", "don"]
    assert stored.name_of(old) in said[0]
    assert stored.name_of(hub.ca) in said[0]
    assert stored.name_of(hub.ca) in said[4]
    assert loop_time() < 2 * SETTLE + 60


@pytest.mark.parametrize("seconds", [0.5, 3, SETTLE - 2, SETTLE + 14, SETTLE + 30, 2 * SETTLE + 18])
async def test_an_interrupted_command_continues(seconds: float) -> None:
    """Interrupted in each step and between, it is run again, and makes no second new CA."""
    hub = await started()
    old = hub.ca
    async with background(manager_of(hub).run()):
        await run_for(seconds, rotation(hub).run())
        begun = stored.decode_ca(Status.OURS, hub.objects[CA])
        step = begun.step
        await asyncio.sleep(2 * SETTLE)
        assert hub.step is step
        await rotation(hub).run()

    assert hub.ca != old
    if step is not Step.NONE:
        assert {old, hub.ca} == set(begun.trusted)
    hub.check_only(hub.ca)


@pytest.mark.parametrize("write", [1, 2, 3])
async def test_a_command_that_ends_right_after_a_write_continues(write: int) -> None:
    """The answer to the write is lost, so the command fails. The next one finds what was stored."""
    hub = await started()
    old, writes = hub.ca, [0]
    put = hub._put

    def losing(path: str, sent: dict[str, Any]) -> dict[str, Any]:
        result = put(path, sent)
        if path == CA:
            writes[0] += 1
            if writes[0] == write:
                raise ApiError("connection lost", status=0)
        return result

    hub._put = losing  # type: ignore[method-assign]
    async with background(manager_of(hub).run()):
        with pytest.raises(ApiError):
            await rotation(hub).run()
        await asyncio.sleep(15)
        if hub.step is not Step.NONE:
            await rotation(hub).run()

    assert writes == [3]
    assert hub.ca != old
    hub.check_only(hub.ca)


@pytest.mark.parametrize("apart", [0.0, 0.002, 7.0, SETTLE + 3, 2 * SETTLE])
async def test_commands_at_once_make_one_new_ca(apart: float) -> None:
    """The loser of a write reads the Secret again, and follows the winner."""
    hub = await started()
    async with background(manager_of(hub).run()), asyncio.TaskGroup() as group:
        for number in range(3):
            group.create_task(_later(number * apart if apart < SETTLE else min(number, 1) * apart, hub))
        await asyncio.sleep(5)
        trusted = set(stored.decode_ca(Status.OURS, hub.objects[CA]).trusted)

    assert hub.ca in trusted
    hub.check_only(hub.ca)


async def _later(seconds: float, hub: LateHub) -> None:
    await asyncio.sleep(seconds)
    await rotation(hub).run()


async def test_a_controller_that_renews_and_dies_meanwhile_changes_nothing() -> None:
    """Lost certificates are issued again in each step, and leaders end at odd times."""
    hub = await started()
    old = hub.ca
    task = asyncio.create_task(rotation(hub).run())
    for turn, seconds in enumerate((0.003, 4, 15, SETTLE / 2, 7, 0.01, 20, SETTLE / 3, 9) * 20):
        if task.done():
            break
        async with background(manager_of(hub).run()):
            await asyncio.sleep(seconds)
        if turn % 4 == 1:  # kubelet keeps what it has mounted
            hub.objects.pop((WEBHOOK_TLS, ADAPTER_TLS)[turn // 4 % 2], None)
    await task

    assert hub.ca != old
    hub.check_only(hub.ca)


async def test_a_registration_that_is_created_again_restarts_the_wait() -> None:
    """API servers have just begun to read it, so its bundle must be old enough again."""
    hub = await started()
    said: list[str] = []
    async with background(manager_of(hub).run()):
        task = asyncio.create_task(rotation(hub, said).run())
        await asyncio.sleep(SETTLE - 5)
        hub.objects[VALIDATING]["metadata"]["uid"] = "another"
        await asyncio.sleep(SETTLE - 5)
        assert hub.step is Step.PUBLISH
        await task

    assert len([line for line in said if line.startswith("every CA bundle")]) == 2
    hub.check_only(hub.ca)


async def test_without_a_controller_the_command_gives_up_and_says_why() -> None:
    """It names the first object that is not as it should be. The old CA still signs."""
    hub = await started()
    old = hub.ca
    with pytest.raises(NotKept, match="mutatingwebhookconfigurations/fedhpa-webhook has another CA bundle"):
        await rotation(hub).run()
    assert hub.ca == old
    assert hub.step is Step.PUBLISH

    async with background(manager_of(hub).run()):
        await rotation(hub).run()
    hub.check_only(hub.ca)


async def test_a_bundle_that_cannot_be_read_or_written_stops_the_command() -> None:
    """No CA signs or is dropped before every bundle was seen."""
    hub = await started()
    old = hub.ca
    hub.refused[("PUT", VALIDATING)] = 403
    async with background(manager_of(hub).run()):
        with pytest.raises(NotKept, match="validatingwebhookconfigurations/fedhpa-webhook has another"):
            await rotation(hub).run()
        hub.refused = {("GET", CUSTOM): 403}
        with pytest.raises(NotKept, match=r"v1beta1.custom.metrics.k8s.io: .*refused"):
            await rotation(hub).run()
        assert hub.ca == old
        hub.refused = {}
        await rotation(hub).run()
    hub.check_only(hub.ca)


async def test_an_api_server_that_hangs_for_a_while_is_asked_again() -> None:
    """Each call has a deadline, and the settle time begins anew."""
    hub = await started()
    async with background(manager_of(hub).run()):
        task = asyncio.create_task(rotation(hub).run())
        await asyncio.sleep(20)
        hub.hang = True
        await asyncio.sleep(25)
        hub.hang = False
        await task
    hub.check_only(hub.ca)


async def test_an_expired_ca_is_healed_without_a_wait() -> None:
    """Nothing works any more, so no time is lost; certificates are good again within seconds."""
    hub = await started()
    hub.ahead = 3651 * DAY
    begin, said = loop_time(), list[str]()
    async with background(manager_of(hub, step=lambda: hub.ahead).run()):
        await rotation(hub, said).run()

    assert loop_time() - begin < 40
    assert any("the old CA is not valid" in line for line in said)
    for path, server in PLACES.items():
        assert hub.bundles(path) == [(hub.ca,)] * len(hub.bundles(path))
        assert hub.leaf(server).not_valid_after_utc.timestamp() > EPOCH + loop_time() + hub.ahead


async def test_a_new_ca_that_was_forgotten_for_years_is_made_again() -> None:
    """A change that was begun and not continued must not end with a CA that expires soon."""
    hub = await started()
    async with background(manager_of(hub).run()):
        await run_for(5, rotation(hub).run())
    forgotten = set(stored.decode_ca(Status.OURS, hub.objects[CA]).trusted)
    hub.ahead = 3400 * DAY
    async with background(manager_of(hub, step=lambda: hub.ahead).run()):
        await asyncio.sleep(5)
        hub.past.clear()
        await rotation(hub).run()

    assert hub.ca not in forgotten
    hub.check_only(hub.ca)


@pytest.mark.parametrize("spoil", ["foreign", "empty", "absent", "unread"])
async def test_a_secret_that_is_not_ours_or_has_no_ca_is_never_written(spoil: str) -> None:
    """Only the controller creates a CA, and a Secret without our label belongs to somebody else."""
    hub = await started()
    if spoil == "foreign":
        del hub.objects[CA]["metadata"]["labels"]
    elif spoil == "empty":
        del hub.objects[CA]["data"]
    elif spoil == "absent":
        del hub.objects[CA]
    else:
        hub.refused[("GET", CA)] = 403
    before = copy.deepcopy(hub.objects.get(CA))
    hub.calls.clear()

    with pytest.raises(NotKept, match="Secret fedhpa-ca has no usable CA"):
        await rotation(hub).run()

    assert hub.objects.get(CA) == before
    assert hub.writes == []


async def test_the_last_step_of_a_replaced_ca_is_the_commands() -> None:
    """After a lost CA Secret the old CA stays in the bundles. The command drops it, and makes no new one."""
    hub = await started()
    lost = hub.ca
    del hub.objects[CA]
    async with background(manager_of(hub).run()):
        await asyncio.sleep(30)
        new = hub.ca
        await rotation(hub).run()

    assert new != lost
    hub.refused_pairs.clear()  # a lost CA has no settle time
    hub.check_only(new)


async def test_a_short_settle_time_would_be_seen() -> None:
    """The checks of this file find a CA that signs before the bundles were reloaded."""
    hub = await started()
    async with background(manager_of(hub).run()):
        await rotation(hub, settle=0.0).run()

    assert hub.refused_pairs != []


async def test_another_ca_of_the_same_name_in_a_bundle_is_not_kept() -> None:
    """Only CAs that the Secret trusts are published, also during a change."""
    hub = await started()
    other = CertificateAuthority.create(COMMON_NAME)
    async with background(manager_of(hub).run()):
        task = asyncio.create_task(rotation(hub).run())
        await asyncio.sleep(20)
        trusted = stored.decode_ca(Status.OURS, hub.objects[CA]).trusted
        changed = copy.deepcopy(hub.objects[CUSTOM])
        pem = stored.bundle_pem([*trusted, other.certificate])
        changed["spec"]["caBundle"] = base64.b64encode(pem).decode()
        hub._store(CUSTOM, changed)
        await asyncio.sleep(12)
        assert set(hub.bundles(CUSTOM)[0]) == set(trusted)
        await task
    hub.check_only(hub.ca)
