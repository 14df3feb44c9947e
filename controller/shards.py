"""Shards of the objects: one Lease a shard, with the number of shards in the Lease's name.

A shard holds whole namespaces. All objects that could select the same pods are thus reconciled by one
process, which reads each pod and each list of usage once.

Processes with different numbers of shards never work at the same time. A process first takes its Lease, then
looks for live Leases of another number. Of two processes that start at once, at least one sees the other and
steps back.

Balancing: any process takes a free shard at once. A process that holds at least two shards less than another
requests one of that process's shards, with an annotation on the Lease. A process that holds two or more
shards releases one on request.
"""

from __future__ import annotations

import asyncio
import random
import re
import zlib
from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import msgspec
import structlog

from fedhpa.api.errors import ApiError, FedHPAError
from fedhpa.api.wire import ObjectMeta
from fedhpa.kube import ApiClient, Clock, Key, LeaderElector, LeaseTiming, resource_path, supervise
from fedhpa.kube.leases import API_VERSION, WANTED_BY

log = structlog.get_logger(__name__)

_NAME = re.compile(r"fedhpa-controller-(?:(cron)-)?(\d+)-of-(\d+)")
# The kind of Leases whose holders run the rules of CronFederatedHPAs. The other Leases have no kind.
CRON: Final = "cron"
# Retry periods between two checks of the balance. A shard cannot be released faster than that.
BALANCE_PERIODS: Final = 3.0
FORBIDDEN: Final = 403


def lease_name(shard: int, shards: int, kind: str = "") -> str:
    """The name of a shard's Lease. It contains the number of shards, so that two numbers never mix.

    `kind` is CRON, or "" for FederatedHPAs: each controller of a process has Leases of its own.
    """
    return (
        f"fedhpa-controller-{kind}-{shard}-of-{shards}" if kind else f"fedhpa-controller-{shard}-of-{shards}"
    )


@dataclass(frozen=True)
class Shard:
    """One of `count` shares of the objects."""

    index: int = 0
    count: int = 1
    kind: str = ""

    @property
    def lease(self) -> str:
        """The name of the shard's Lease."""
        return lease_name(self.index, self.count, self.kind)

    def owns(self, key: Key) -> bool:
        """True if the object (namespace, name) is in this shard: by a hash of its namespace."""
        return self.count == 1 or zlib.crc32(key[0].encode()) % self.count == self.index

    def __str__(self) -> str:
        return "-".join(filter(None, (self.kind, f"{self.index}-of-{self.count}")))


def within(namespaces: Collection[str], shard: Shard) -> Callable[[Key], bool]:
    """Returns a function that is True for the shard's objects in these namespaces; none mean all."""
    return lambda key: (not namespaces or key[0] in namespaces) and shard.owns(key)


ALL: Final = Shard()
Work = Callable[[Shard], Coroutine[Any, Any, None]]


class _LeaseSpec(msgspec.Struct, frozen=True):
    holderIdentity: str | None = None
    leaseDurationSeconds: int | None = None
    renewTime: str | None = None


class _Lease(msgspec.Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: _LeaseSpec = _LeaseSpec()

    @property
    def shard(self) -> Shard | None:
        """The Lease's shard; None for other Leases."""
        found = _NAME.fullmatch(self.metadata.name)
        return Shard(int(found[2]), int(found[3]), found[1] or "") if found else None

    @property
    def requested_by(self) -> str:
        """The identity that requested the shard; "" without a request."""
        return (self.metadata.annotations or {}).get(WANTED_BY, "")


@dataclass
class _ObservedLease:
    """A Lease, and when it was first seen in this state, by our clock."""

    lease: _Lease
    at: float


@dataclass
class ShardLeases:
    """The Leases of all shards at the last read. A Lease is live while it is renewed, by our clock."""

    client: ApiClient
    namespace: str
    timing: LeaseTiming
    clock: Callable[[], float]
    kind: str = ""
    _observed: dict[str, _ObservedLease] = field(default_factory=dict)
    _read_at: float = float("-inf")
    # True if the last list was refused for a missing right.
    _refused: bool = False

    async def read(self, max_age: float = 0.0) -> bool:
        """List all Leases unless the last list is at most `max_age` old; False if the hub did not answer."""
        if max_age and self.clock() - self._read_at <= max_age:
            return True
        began = self.clock()
        path = resource_path(API_VERSION, "leases", self.namespace)
        try:
            async with asyncio.timeout(self.timing.renew_deadline / 2):
                listing = await self.client.list(path, _Lease)
        except (FedHPAError, TimeoutError) as error:
            self._tell(error)
            return False
        self._refused = False
        found = {
            lease.metadata.name: lease
            for lease in listing.items
            if (shard := lease.shard) is not None and shard.kind == self.kind
        }
        for name, lease in found.items():
            before = self._observed.get(name)
            at = self.clock() if before is None or before.lease.spec != lease.spec else before.at
            self._observed[name] = _ObservedLease(lease, at)
        for name in [name for name in self._observed if name not in found]:
            del self._observed[name]
        self._read_at = began
        return True

    def _tell(self, error: Exception) -> None:
        """Log why the Leases were not listed. A missing right is a warning, because then nobody leads."""
        refused = isinstance(error, ApiError) and error.status == FORBIDDEN
        write = log.warning if refused and not self._refused else log.debug
        write("leases not listed", namespace=self.namespace, error=str(error))
        self._refused = refused

    def holders(self, count: int) -> dict[Shard, str]:
        """The holders of live Leases for this number of shards."""
        return {shard: holder for shard, holder in self._live().items() if shard.count == count}

    def others(self, count: int) -> dict[Shard, str]:
        """The holders of live Leases for any other number of shards."""
        return {shard: holder for shard, holder in self._live().items() if shard.count != count}

    def requested_by(self, shard: Shard) -> str:
        """The identity that requested a shard; "" without a request."""
        observed = self._observed.get(shard.lease)
        return "" if observed is None else observed.lease.requested_by

    def _live(self) -> dict[Shard, str]:
        live = {}
        for observed in self._observed.values():
            shard, spec = observed.lease.shard, observed.lease.spec
            duration = spec.leaseDurationSeconds or self.timing.lease_duration
            if shard is not None and spec.holderIdentity and self.clock() < observed.at + duration:
                live[shard] = spec.holderIdentity
        return live


class ShardElection:
    """One process's part in the election of all shards; `identity` must be unique among the processes.

    `run` calls `work` for every shard that it acquires, and cancels the call when it loses the shard.
    `on_lead` is called when this process begins or ends to lead a shard.
    """

    def __init__(
        self,
        client: ApiClient,
        namespace: str,
        identity: str,
        shards: int,
        *,
        kind: str = "",
        timing: LeaseTiming | None = None,
        clock: Clock,
        rng: random.Random | None = None,
        on_lead: Callable[[Shard, bool], None] = lambda *_: None,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._identity = identity
        self._shards = shards
        self._kind = kind
        self._timing = timing or LeaseTiming()
        self._warned: set[str] = set()
        self._leases = ShardLeases(client, namespace, self._timing, clock.monotonic, kind)
        self.electors = [
            LeaderElector(
                client,
                namespace,
                lease_name(index, shards, kind),
                identity,
                timing=self._timing,
                may_acquire=self._may_acquire,
                may_lead=self._may_lead,
                yields_to=self._can_release,
                on_change=partial(on_lead, Shard(index, shards, kind)),
                clock=clock.monotonic,
                wall=clock.wall,
                rng=rng,
            )
            for index in range(shards)
        ]

    @property
    def held(self) -> list[int]:
        """The shards that this process leads."""
        return [index for index, elector in enumerate(self.electors) if elector.is_leader]

    def leads(self, shard: Shard) -> bool:
        """True while this process leads a shard and no other process can have taken it."""
        return self.electors[shard.index].is_leader

    async def run(self, work: Work) -> None:
        """Take part in the election of all shards until cancelled.

        After an exception of `work` the Lease is released, and this process takes part again after a while.
        """
        async with asyncio.TaskGroup() as group:
            for index, elector in enumerate(self.electors):
                shard = Shard(index, self._shards, self._kind)
                elect = partial(self._elect, elector, shard, work)
                group.create_task(supervise("shard", elect, name=str(shard)))
            if self._shards > 1:
                group.create_task(supervise("shard-balance", self._balance))

    async def _elect(self, elector: LeaderElector, shard: Shard, work: Work) -> None:
        await elector.run(lambda: work(shard))

    async def _may_acquire(self) -> bool:
        """True if no Lease of another number of shards was live lately. A recent list is enough to try."""
        return await self._no_other_number(self._timing.retry_period)

    async def _may_lead(self) -> bool:
        """True if no Lease of another number of shards is live, by a list that starts now."""
        return await self._no_other_number()

    async def _no_other_number(self, max_age: float = 0.0) -> bool:
        if not await self._leases.read(max_age):
            return False
        others = self._leases.others(self._shards)
        for shard, holder in sorted(others.items(), key=str):
            if str(shard) not in self._warned:
                self._warned.add(str(shard))
                log.warning(
                    "waiting for a controller with another --shards to end",
                    lease=shard.lease,
                    holder=holder,
                )
        if not others:
            self._warned.clear()
        return not others

    def _can_release(self, requested_by: str) -> bool:  # noqa: ARG002  # any identity
        return len(self.held) > 1

    async def _balance(self) -> None:
        """Request a shard while another process holds at least two more than this one."""
        while True:
            await asyncio.sleep(self._timing.retry_period * BALANCE_PERIODS)
            if not await self._leases.read():
                continue
            shard = self._shard_to_request()
            if shard is not None:
                await self._request(shard)

    def _shard_to_request(self) -> Shard | None:
        """A shard of the process that holds most; None if the spread is fair or a request is pending."""
        holders = self._leases.holders(self._shards)
        if any(self._leases.requested_by(shard) == self._identity for shard in holders):
            return None
        by_holder: dict[str, list[Shard]] = {}
        for shard, holder in sorted(holders.items(), key=str):
            by_holder.setdefault(holder, []).append(shard)
        own = len(self.held)
        _, most = max(by_holder.items(), key=lambda item: len(item[1]), default=("", []))
        if len(most) < own + 2:
            return None
        return next((shard for shard in most if not self._leases.requested_by(shard)), None)

    async def _request(self, shard: Shard) -> None:
        path = resource_path(API_VERSION, "leases", self._namespace, shard.lease)
        try:
            lease = await self._client.get_json(path, deadline=self._timing.renew_deadline / 2)
            metadata: Mapping[str, Any] = lease.get("metadata") or {}
            annotations = {**(metadata.get("annotations") or {}), WANTED_BY: self._identity}
            body = {**lease, "metadata": {**metadata, "annotations": annotations}}
            await self._client.put(path, body, deadline=self._timing.renew_deadline / 2)
        except FedHPAError as error:
            log.debug("shard not requested", shard=str(shard), error=str(error))
