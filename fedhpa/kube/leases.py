"""Leader election over a coordination.k8s.io/v1 Lease.

`kubernetes.aio.leaderelection` is not used (docs/decisions/0004). It never releases a lease, so that each
restart costs the whole lease duration. Its calls have no deadline, so that a leader whose API server hangs
leads on after another took over. It measures with the wall clock, writes local time as UTC, and does not
count leaseTransitions.

The timing is client-go's. A lease is valid for `lease_duration` after the start of a renewal. A leader that
cannot renew within `renew_deadline` stops before that. A follower takes over if it has observed no renewal
for the lease's duration, by its own clock.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import structlog

from fedhpa.api.errors import Conflict, FedHPAError
from fedhpa.kube.client import ApiClient
from fedhpa.kube.resources import get_if_there, resource_path

log = structlog.get_logger(__name__)

API_VERSION = "coordination.k8s.io/v1"
# client-go adds up to 120 % of the retry period to each wait.
JITTER = 1.2
# A process that stops must not wait long for a server that does not answer.
RELEASE_DEADLINE_SECONDS = 2.0
# The identity that asks the holder to release the lease. The next holder removes the annotation.
WANTED_BY = "fedhpa.io/wanted-by"


@dataclass(frozen=True)
class LeaseTiming:
    """Seconds. The defaults are those of Karmada's and Kubernetes' controllers."""

    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    def __post_init__(self) -> None:
        if not self.lease_duration > self.renew_deadline > JITTER * self.retry_period > 0:
            raise ValueError("needed: lease duration > renew deadline > 1.2 x retry period > 0")


class LeaderElector:
    """One candidate for one Lease; `identity` must be unique among the candidates.

    `may_acquire` is awaited before a free lease is acquired, and `may_lead` after that, before leading; if it
    returns False the lease is released. While leading, `yields_to` is called with the identity that asks for
    the lease in the annotation `fedhpa.io/wanted-by`; if it returns True the lease is released.
    """

    def __init__(
        self,
        client: ApiClient,
        namespace: str,
        name: str,
        identity: str,
        *,
        timing: LeaseTiming | None = None,
        on_change: Callable[[bool], None] | None = None,
        may_acquire: Callable[[], Awaitable[bool]] | None = None,
        may_lead: Callable[[], Awaitable[bool]] | None = None,
        yields_to: Callable[[str], bool] = lambda _: False,
        clock: Callable[[], float],
        wall: Callable[[], float],
        rng: random.Random | None = None,
    ) -> None:
        self._client = client
        self._collection = resource_path(API_VERSION, "leases", namespace)
        self._path = resource_path(API_VERSION, "leases", namespace, name)
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._timing = timing or LeaseTiming()
        self._on_change = on_change
        self._may_acquire = may_acquire
        self._may_lead = may_lead
        self._yields_to = yields_to
        self._yielded = False
        self._clock = clock
        self._wall = wall
        self._rng = rng or random.Random(random.random())
        self._log = log.bind(lease=name, namespace=namespace, identity=identity)
        # Half of the renew deadline, as in client-go, so that one lost packet does not cost the lease.
        self._call_deadline = self._timing.renew_deadline / 2
        self._failing = False
        self._leading = False
        self._renewed_at = float("-inf")
        self._lease: dict[str, Any] | None = None
        self._observed: dict[str, Any] = {}
        self._observed_at = float("-inf")

    def leads(self) -> bool:
        """True while this candidate leads and no other can have acquired the lease yet."""
        return self._leading and self._clock() < self._renewed_at + self._timing.lease_duration

    @property
    def holder(self) -> str:
        """The identity of the last observed holder; "" if the lease was free."""
        return str(self._observed.get("holderIdentity") or "")

    @property
    def wanted_by(self) -> str:
        """The other identity that asks for the lease; "" if there is none."""
        annotations = ((self._lease or {}).get("metadata") or {}).get("annotations") or {}
        found = str(annotations.get(WANTED_BY) or "")
        return "" if found == self._identity else found

    async def run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Acquire the lease, run `work` while leading, cancel it when the lease is lost, and start again.

        A cancelled `work` has the seconds between renew_deadline and lease_duration to clean up before
        another candidate can lead. Returns when `work` returns and raises what it raises. The lease is
        released in each case, also on cancellation.
        """
        while True:
            await self._acquire()
            try:
                ended = await self._lead(work)
            finally:
                self._step_down()
                await self._release()
            if ended:
                return
            if self._yielded:  # leave the other candidate the time to acquire it
                self._yielded = False
                await asyncio.sleep(self._timing.retry_period * (1 + JITTER) * 2)

    async def _acquire(self) -> None:
        while not await self._try_acquire():  # noqa: ASYNC110  # polls a server, not a variable
            await asyncio.sleep(self._timing.retry_period * (1 + JITTER * self._rng.random()))
        self._leading = True
        self._log.info("leading")
        if self._on_change is not None:
            self._on_change(True)

    async def _try_acquire(self) -> bool:
        """Acquire the lease if it is free and the callbacks allow it. Returns True if it may lead."""
        if self._may_acquire is not None and not await self._may_acquire():
            return False
        if not await self._acquire_or_renew():
            return False
        try:
            allowed = self._may_lead is None or await self._may_lead()
        except BaseException:
            await self._release()
            raise
        if allowed and self._clock() < self._renewed_at + self._timing.renew_deadline:
            return True
        await self._release()
        return False

    def _step_down(self) -> None:
        if not self._leading:
            return
        self._leading = False
        self._log.info("no longer leading", holder=self.holder)
        if self._on_change is not None:
            self._on_change(False)

    async def _lead(self, work: Callable[[], Coroutine[Any, Any, None]]) -> bool:
        """Returns True if `work` returned, and False if it was cancelled because the lease was lost."""
        async with asyncio.TaskGroup() as group:
            leading = group.create_task(work())
            renewal = group.create_task(self._renew())
            await asyncio.wait((leading, renewal), return_when=asyncio.FIRST_COMPLETED)
            renewal.cancel()
            if not leading.done():
                self._step_down()
                leading.cancel()
        return not leading.cancelled()

    async def _renew(self) -> None:
        """Renew until another holds the lease, the renew deadline passes, or the lease is to be released."""
        while True:
            await asyncio.sleep(self._timing.retry_period)
            left = self._renewed_at + self._timing.renew_deadline - self._clock()
            try:
                async with asyncio.timeout(max(left, 0.0)):
                    while not await self._acquire_or_renew():
                        if self.holder != self._identity:
                            return
                        await asyncio.sleep(self._timing.retry_period)
            except TimeoutError:
                self._log.warning("lease could not be renewed in time")
                return
            if self.wanted_by and self._yields_to(self.wanted_by):
                self._log.info("lease released for another", wanted_by=self.wanted_by)
                self._yielded = True
                return

    async def _acquire_or_renew(self) -> bool:
        """Write the lease for this candidate. Returns False if another holds it or the write fails."""
        began = self._clock()
        try:
            if self._leading and self._lease is not None:
                # If nobody else has written the lease, the renewal needs no read.
                with contextlib.suppress(Conflict):
                    return await self._write(self._lease, began)
            lease = await self._read()
            if lease is not None:
                self._observe(lease.get("spec") or {})
                if self._is_held_by_another():
                    return False
            return await self._write(lease, began)
        except Conflict:
            return False  # another candidate was faster; the next read shows which
        except FedHPAError as error:
            (self._log.debug if self._failing else self._log.warning)("lease unreachable", error=str(error))
            self._failing = True
            return False

    def _observe(self, spec: dict[str, Any]) -> None:
        if spec != self._observed:
            self._observed = spec
            self._observed_at = self._clock()

    def _is_held_by_another(self) -> bool:
        if self.holder in ("", self._identity):
            return False
        duration = self._observed.get("leaseDurationSeconds") or self._timing.lease_duration
        return self._clock() < self._observed_at + duration

    async def _read(self) -> dict[str, Any] | None:
        return await get_if_there(self._client, self._path, deadline=self._call_deadline)

    async def _write(self, lease: dict[str, Any] | None, began: float) -> bool:
        old = (lease or {}).get("spec") or {}
        spec = {**old, **self._claim(old)}
        if lease is None:
            body = {
                "apiVersion": API_VERSION,
                "kind": "Lease",
                "metadata": {"name": self._name, "namespace": self._namespace},
                "spec": spec,
            }
            answer = await self._client.post(self._collection, body, deadline=self._call_deadline)
        else:
            metadata = dict(lease.get("metadata") or {})
            if old.get("holderIdentity") != self._identity and metadata.get("annotations"):
                metadata["annotations"] = {k: v for k, v in metadata["annotations"].items() if k != WANTED_BY}
            body = {**lease, "metadata": metadata, "spec": spec}
            answer = await self._client.put(self._path, body, deadline=self._call_deadline)
        self._lease = answer.json()
        self._observe(self._lease.get("spec") or spec)
        self._renewed_at = began
        self._failing = False
        return True

    def _claim(self, old: dict[str, Any]) -> dict[str, Any]:
        now = _micro_time(self._wall())
        claim: dict[str, Any] = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": max(1, round(self._timing.lease_duration)),
            "renewTime": now,
        }
        if old.get("holderIdentity") != self._identity:
            claim["acquireTime"] = now
            claim["leaseTransitions"] = int(old.get("leaseTransitions") or 0) + bool(old)
        return claim

    async def _release(self) -> None:
        """Release the lease, best effort, so that the next leader need not wait until it expires."""
        if self._lease is None or self.holder != self._identity:
            return
        try:
            async with asyncio.timeout(RELEASE_DEADLINE_SECONDS):
                try:
                    # With the resourceVersion of our last write: a Conflict if another leads already.
                    await self._write_released(self._lease)
                except Conflict:
                    # The conflict may come from our own renewal, which timed out but reached the server.
                    lease = await self._read()
                    if lease is not None and lease.get("spec", {}).get("holderIdentity") == self._identity:
                        await self._write_released(lease)
        except (FedHPAError, TimeoutError) as error:
            self._log.debug("lease not released", error=str(error))
        self._lease = None

    async def _write_released(self, lease: dict[str, Any]) -> None:
        now = _micro_time(self._wall())
        freed = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": now, "acquireTime": now}
        spec = {**(lease.get("spec") or {}), **freed}
        await self._client.put(self._path, {**lease, "spec": spec}, deadline=RELEASE_DEADLINE_SECONDS)


def _micro_time(seconds: float) -> str:
    """Returns POSIX seconds as a metav1.MicroTime."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
