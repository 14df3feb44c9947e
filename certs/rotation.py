"""Replaces the CA, for `fedhpa certs rotate-ca`, so that no connection is refused meanwhile.

Only Secret `fedhpa-ca` is written here. The leader of the controller publishes and issues what it says:

1. PUBLISH: the new CA is beside the old one in every CA bundle. The old one still signs.
2. SWITCH: the new CA signs. Both certificates are issued again.
3. The old CA leaves the bundles.

Steps 2 and 3 begin when the step before has been complete for the settle time. For that long API servers may
use an old bundle, and pods an old certificate. The Secret shows the step, so another process can
continue after an interruption. It waits for the whole settle time again, so that no stored time counts.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable
from typing import Final

from certs.authority import CertificateAuthority
from certs.certificate_store import SERVING_SECRETS, CertificateStore
from certs.keeping import COMMON_NAME, Now, is_valid
from certs.stored import CA_SECRET, UNREADABLE, Object, Reading, Step, encode_ca, name_of
from fedhpa.api.errors import Conflict, FedHPAError

# Kubernetes brings a changed Secret to its pods within about two minutes.
SETTLE_SECONDS: Final = 300.0
# The controller reads and writes every ten seconds.
TIMEOUT_SECONDS: Final = 120.0
POLL_SECONDS: Final = 1.0
AWAITED: Final = {
    Step.PUBLISH: "every CA bundle has both CAs; waiting {:g} s until every API server uses them",
    Step.SWITCH: "both certificates are of the new CA; waiting {:g} s until every pod serves them",
}


class NotKept(FedHPAError):
    """The controller did not publish or issue in time what the Secret says. The message names the object."""


class Rotation:
    """One run of the command. `say` gets a line for people at each step. Times are in seconds."""

    def __init__(
        self,
        store: CertificateStore,
        say: Callable[[str], None],
        wall: Callable[[], float],
        *,
        settle: float = SETTLE_SECONDS,
        timeout: float = TIMEOUT_SECONDS,
    ) -> None:
        self._store, self._say, self._wall = store, say, wall
        self._settle, self._timeout = settle, timeout

    async def run(self) -> None:
        """Replaces the CA, or continues a change that was begun.

        Raises ApiError if the Secret cannot be written, and NotKept if the controller does not do its part.
        """
        begun = False
        while (reading := await self._read()).ca.step is not Step.NONE or not begun:
            try:
                await self._advance(reading)
                begun = True
            except Conflict:  # another process has written, perhaps the same command
                self._say(f"Secret {CA_SECRET} has just changed; reading it again")
        await self._wait(Step.NONE, 0.0)
        self._say("done: every CA bundle has only the new CA")

    async def _advance(self, reading: Reading) -> None:
        """Takes the next step, unless another process takes it meanwhile. Raises Conflict."""
        ca, now = reading.ca, self._now(reading)
        assert ca.signer is not None, "_read waits for it"
        if ca.step is Step.NONE or (ca.successor is not None and ca.successor.expires_soon(now.time)):
            new = CertificateAuthority.create(COMMON_NAME, now=now.time)
            stale = ca.successor.certificate if ca.successor is not None else None
            others = [each for each in ca.trusted if each != stale]
            await self._write(encode_ca(ca.found, self._store.namespace, ca.signer, others, new))
            old = f"beside {name_of(ca.signer.certificate)}, which still signs"
            self._say(f"1/3 the new CA {name_of(new.certificate)} is {old}")
            return
        signer = ca.successor or ca.signer
        others = [each for each in ca.trusted if each != signer.certificate]
        settle = self._settle
        if not any(is_valid(each, now) for each in others):
            self._say("the old CA is not valid, so no connection depends on it and nothing is waited for")
            settle = 0.0
        if (complete := await self._wait(ca.step, settle)) is None:
            return
        kept = others if ca.successor is not None else []
        await self._write(encode_ca(complete.ca.found, self._store.namespace, signer, kept))
        said = "2/3 the new CA {} signs" if kept else "3/3 the old CA is dropped; only {} is left"
        self._say(said.format(name_of(signer.certificate)))

    async def _wait(self, step: Step, settle: float) -> Reading | None:
        """Waits until the step has been complete for the settle time. Returns the reading that shows it.

        Returns None if the step has changed. Raises NotKept.
        """
        clock = asyncio.get_running_loop().time
        begin = latest = clock()
        complete: tuple[object, float] | None = None
        while True:
            reading = await self._read()
            if reading.ca.step is not step:
                return None
            # A registration that was created again is another one: API servers have just begun to read it.
            seen = (reading.ca.trusted, [each.uid for each in reading.published], _certificates(reading))
            if missing := lacking(reading, self._now(reading)):
                complete = None
                if clock() - latest > self._timeout:
                    raise NotKept(missing)
            else:
                latest = clock()
                if complete is None or complete[0] != seen:
                    complete = seen, latest
                    if settle:
                        self._say(AWAITED[step].format(settle))
                if latest - complete[1] >= settle:
                    return reading
            if clock() - begin > 2 * (settle + self._timeout):
                raise NotKept(missing or "the certificates or CA bundles change again and again")
            await asyncio.sleep(POLL_SECONDS)

    async def _read(self) -> Reading:
        """Reads until there is a CA that signs. Raises NotKept."""
        deadline = asyncio.get_running_loop().time() + self._timeout
        while (reading := await self._store.read()).ca.signer is None:
            if asyncio.get_running_loop().time() > deadline:
                raise NotKept(f"Secret {CA_SECRET} has no usable CA, or cannot be read")
            await asyncio.sleep(POLL_SECONDS)
        return reading

    async def _write(self, body: Object) -> None:
        await self._store.write(f"secrets/{CA_SECRET}", body)

    def _now(self, reading: Reading) -> Now:
        return Now(reading.date or dt.datetime.fromtimestamp(self._wall(), dt.UTC))


def lacking(reading: Reading, now: Now) -> str:
    """Returns the first object that is not yet as the Secret of the CA says; "" if there is none."""
    ca = reading.ca
    for name, problem in reading.problems.items():
        if problem.reason == UNREADABLE:
            return f"{name}: {problem.text}"
    for registration in reading.published:
        if not registration.trusts_only(ca.trusted):
            return f"{registration.name} has another CA bundle"
    for each in reading.managed:
        name, pair = f"secrets/{SERVING_SECRETS[each.server]}", each.pair
        if pair is not None and set(each.bundle) != set(ca.trusted):
            return f"{name} has another CA bundle"
        if ca.signer is None or not is_valid(ca.signer.certificate, now):
            continue  # an expired CA issues nothing
        if pair is None or not ca.signer.issued(pair.certificate):
            return f"{name} has no certificate of the CA that signs"
    return ""


def _certificates(reading: Reading) -> list[bytes]:
    return [each.pair.cert_pem for each in reading.managed if each.pair is not None]
