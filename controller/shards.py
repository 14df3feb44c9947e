"""Which shares of the objects a process has: one Lease a shard, with the number of shards in its name.

A namespace is in one shard: whoever could select the same pods is looked at by the same process, and each
pod and each list of usage is read once. No shard of one number is taken while a Lease of another number
lives: every process takes its Lease first and looks for others then, so of two that begin at once at least
one sees the other and steps back.

Fair spreading: whoever holds at least two shards less than another asks it for one (an annotation on the
Lease), and who holds two or more gives one up that is asked for. Every free shard is taken at once by
whoever sees it first.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
import zlib
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import structlog

from fedhpa.api.errors import FedHPAError
from fedhpa.api.wire import ObjectMeta
from fedhpa.kube.client import ApiClient
from fedhpa.kube.clock import SYSTEM, Clock
from fedhpa.kube.leases import API_VERSION, WANTED_BY, LeaderElector, LeaseTiming
from fedhpa.kube.paths import resource_path

log = structlog.get_logger(__name__)

Key = tuple[str, str]

_NAME = re.compile(r"fedhpa-controller-(\d+)-of-(\d+)")
# Asking for a shard more often than it can be given changes nothing.
ASK_PERIODS: Final = 3.0


def lease_name(shard: int, shards: int) -> str:
    """The Lease of a shard; the number of shards is in its name, so that two numbers never mix."""
    return f"fedhpa-controller-{shard}-of-{shards}"


@dataclass(frozen=True)
class Shard:
    """One of `count` shares of the objects."""

    index: int = 0
    count: int = 1

    def owns(self, key: Key) -> bool:
        """Whether an object (namespace, name) is in it: by its namespace, the same for every process."""
        return self.count == 1 or zlib.crc32(key[0].encode()) % self.count == self.index

    def __str__(self) -> str:
        return f"{self.index}-of-{self.count}"


ALL: Final = Shard()
Work = Callable[[Shard], Coroutine[Any, Any, None]]


class _Spec(msgspec.Struct, frozen=True):
    holderIdentity: str | None = None
    leaseDurationSeconds: int | None = None
    renewTime: str | None = None


class _Lease(msgspec.Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: _Spec = _Spec()

    @property
    def shard(self) -> Shard | None:
        """What it is about, if it is one of ours."""
        found = _NAME.fullmatch(self.metadata.name)
        return Shard(int(found[1]), int(found[2])) if found else None

    @property
    def wanted_by(self) -> str:
        """Who asked for it; "" for nobody."""
        return (self.metadata.annotations or {}).get(WANTED_BY, "")


@dataclass
class _Seen:
    lease: _Lease
    at: float


@dataclass
class Leases:
    """The Leases of all shards as they were last seen; alive as long as they are renewed, by our clock."""

    client: ApiClient
    namespace: str
    timing: LeaseTiming
    clock: Callable[[], float] = time.monotonic
    _seen: dict[str, _Seen] = field(default_factory=dict)
    _read_at: float = float("-inf")

    async def read(self, max_age: float = 0.0) -> bool:
        """Look at all of them, if the last look is older than `max_age`; false if the hub did not answer."""
        if max_age and self.clock() - self._read_at <= max_age:
            return True
        began = self.clock()
        path = resource_path(API_VERSION, "leases", self.namespace)
        try:
            async with asyncio.timeout(self.timing.renew_deadline / 2):
                listing = await self.client.list(path, _Lease)
        except (FedHPAError, TimeoutError) as error:
            log.debug("leases not read", error=str(error))
            return False
        found = {lease.metadata.name: lease for lease in listing.items if lease.shard is not None}
        for name, lease in found.items():
            before = self._seen.get(name)
            at = self.clock() if before is None or before.lease.spec != lease.spec else before.at
            self._seen[name] = _Seen(lease, at)
        for name in [name for name in self._seen if name not in found]:
            del self._seen[name]
        self._read_at = began
        return True

    def holders(self, count: int) -> dict[Shard, str]:
        """Who holds which shard of a number of shards."""
        return {shard: who for shard, who in self._alive().items() if shard.count == count}

    def others(self, count: int) -> dict[Shard, str]:
        """Who holds a shard of any other number of shards."""
        return {shard: who for shard, who in self._alive().items() if shard.count != count}

    def wanted_by(self, shard: Shard) -> str:
        """Who asked for a shard; "" for nobody."""
        seen = self._seen.get(lease_name(shard.index, shard.count))
        return "" if seen is None else seen.lease.wanted_by

    def _alive(self) -> dict[Shard, str]:
        alive = {}
        for seen in self._seen.values():
            shard, spec = seen.lease.shard, seen.lease.spec
            duration = spec.leaseDurationSeconds or self.timing.lease_duration
            if shard is not None and spec.holderIdentity and self.clock() < seen.at + duration:
                alive[shard] = spec.holderIdentity
        return alive


class ShardCampaign:
    """One process among those that share the work; `identity` must be unique among them.

    `run` works on every shard that it holds, each with a call of `work` that is cancelled when it is lost.
    """

    def __init__(
        self,
        client: ApiClient,
        namespace: str,
        identity: str,
        shards: int,
        *,
        timing: LeaseTiming | None = None,
        clock: Clock = SYSTEM,
        rng: random.Random | None = None,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._identity = identity
        self._shards = shards
        self._timing = timing or LeaseTiming()
        self._clock = clock
        self._warned: set[str] = set()
        self._leases = Leases(client, namespace, self._timing, clock.monotonic)
        self.electors = [
            LeaderElector(
                client,
                namespace,
                lease_name(index, shards),
                identity,
                timing=self._timing,
                may_take=self._seems_free,
                may_lead=self._no_other_number,
                gives_up=self._can_spare,
                clock=clock.monotonic,
                wall=clock.wall,
                rng=rng,
            )
            for index in range(shards)
        ]

    @property
    def held(self) -> list[int]:
        """The shards that this process works on."""
        return [index for index, elector in enumerate(self.electors) if elector.is_leader]

    async def run(self, work: Work) -> None:
        """Campaign for all shards until cancelled; what `work` raises ends it."""
        async with asyncio.TaskGroup() as group:
            for index, elector in enumerate(self.electors):
                group.create_task(self._campaign(elector, Shard(index, self._shards), work))
            if self._shards > 1:
                group.create_task(self._ask())

    async def _campaign(self, elector: LeaderElector, shard: Shard, work: Work) -> None:
        await elector.run(lambda: work(shard))

    async def _seems_free(self) -> bool:
        """Whether no Lease of another number of shards lives, by a look of late: enough to try."""
        return await self._no_other_number(self._timing.retry_period)

    async def _no_other_number(self, max_age: float = 0.0) -> bool:
        """Whether no Lease of another number of shards lives, by a look that begins now."""
        if not await self._leases.read(max_age):
            return False
        others = self._leases.others(self._shards)
        for shard, holder in sorted(others.items(), key=str):
            if str(shard) not in self._warned:
                self._warned.add(str(shard))
                log.warning(
                    "waiting for a controller of another --shards to end",
                    lease=lease_name(shard.index, shard.count),
                    holder=holder,
                )
        if not others:
            self._warned.clear()
        return not others

    def _can_spare(self, wanted_by: str) -> bool:  # noqa: ARG002  # whoever it is
        return len(self.held) > 1

    async def _ask(self) -> None:
        """Ask for a shard as long as somebody holds at least two more."""
        while True:
            await asyncio.sleep(self._timing.retry_period * ASK_PERIODS)
            if not await self._leases.read():
                continue
            wanted = self._unfair()
            if wanted is not None:
                await self._want(wanted)

    def _unfair(self) -> Shard | None:
        """A shard of whoever holds most, if that is unfair and nothing is asked for already."""
        holders = self._leases.holders(self._shards)
        if any(self._leases.wanted_by(shard) == self._identity for shard in holders):
            return None
        by_holder: dict[str, list[Shard]] = {}
        for shard, holder in sorted(holders.items(), key=str):
            by_holder.setdefault(holder, []).append(shard)
        own = len(self.held)
        _, most = max(by_holder.items(), key=lambda item: len(item[1]), default=("", []))
        if len(most) < own + 2:
            return None
        return next((shard for shard in most if not self._leases.wanted_by(shard)), None)

    async def _want(self, shard: Shard) -> None:
        path = resource_path(API_VERSION, "leases", self._namespace, lease_name(shard.index, shard.count))
        try:
            lease = await self._client.get_json(path, deadline=self._timing.renew_deadline / 2)
            metadata: Mapping[str, Any] = lease.get("metadata") or {}
            annotations = {**(metadata.get("annotations") or {}), WANTED_BY: self._identity}
            body = {**lease, "metadata": {**metadata, "annotations": annotations}}
            await self._client.put(path, body, deadline=self._timing.renew_deadline / 2)
        except FedHPAError as error:
            log.debug("shard not asked for", shard=str(shard), error=str(error))
