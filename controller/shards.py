"""Shards of the objects: one Lease a shard, with the number of shards in the Lease's name.

An object belongs to the shard of its target, so all objects that scale one workload are the work of one
process. Those of different targets may still select the same pods: see `controller.federatedhpa.ambiguity`.
With `--shard-by=namespace` a shard holds whole namespaces instead, and one process reads their pods.

Processes with different numbers of shards never work at the same time, nor do those that differ in
`--shard-by`. A process first takes its Lease, then looks for live Leases of another division. Of two
processes that start at once, at least one sees the other and steps back.

Balancing: any process takes a free shard at once. A process that holds at least two shards less than another
requests one of that process's shards, with an annotation on the Lease. A process that holds two or more
shards releases one on request.
"""

from __future__ import annotations

import asyncio
import random
import re
import zlib
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import msgspec
import structlog

from fedhpa.api.errors import ApiError, FedHPAError
from fedhpa.api.wire import ObjectMeta
from fedhpa.kube import FORBIDDEN, ApiClient, Clock, LeaderElector, LeaseTiming, resource_path, supervise
from fedhpa.kube.leases import API_VERSION, WANTED_BY

log = structlog.get_logger(__name__)

_NAME = re.compile(r"fedhpa-controller-(?:(cron)-)?(\d+)-of-(\d+)(-by-target)?")
# The kind of Leases whose holders run the rules of CronFederatedHPAs. The other Leases have no kind.
CRON: Final = "cron"
# Retry periods between two checks of the balance. A shard cannot be released faster than that.
BALANCE_PERIODS: Final = 3.0
# Namespace, kind and name of a target.
Place = tuple[str, str, str]
# The values of --shard-by: the part of an object that is hashed.
BY_TARGET: Final = "target"
BY_NAMESPACE: Final = "namespace"


@dataclass(frozen=True)
class Division:
    """How the objects are divided: into `count` shards, by BY_TARGET or BY_NAMESPACE."""

    count: int = 1
    by: str = BY_TARGET

    def __post_init__(self) -> None:
        if self.count == 1:  # both give the same single shard, whose Lease has one name
            object.__setattr__(self, "by", BY_NAMESPACE)

    @property
    def splits_namespaces(self) -> bool:
        """True if the objects of one namespace may be in several shards."""
        return self.by == BY_TARGET

    def index_of(self, target: Place) -> int:
        """Returns the shard of the objects that scale a target.

        Of the target's group and version nothing counts: an object's target is known before discovery.
        """
        known = target if self.splits_namespaces else target[:1]
        return zlib.crc32("/".join(known).encode()) % self.count


@dataclass(frozen=True)
class Shard:
    """One of `division.count` shares of the objects.

    `kind` is CRON, or "" for FederatedHPAs: each controller of a process has Leases of its own.
    """

    index: int = 0
    division: Division = Division()
    kind: str = ""

    @property
    def count(self) -> int:
        """The number of shards."""
        return self.division.count

    @property
    def lease(self) -> str:
        """The name of the shard's Lease. It contains the division, so that two divisions never mix."""
        return f"fedhpa-controller-{self}"

    def owns(self, target: Place) -> bool:
        """True if the objects that scale a target are in this shard."""
        return self.division.index_of(target) == self.index

    def __str__(self) -> str:
        number = f"{self.index}-of-{self.count}"
        return "-".join(
            filter(None, (self.kind, number, "by-target" if self.division.splits_namespaces else ""))
        )


def place_of(raw: Mapping[str, Any]) -> Place:
    """Returns the target of an autoscaler as decoded; "" stands for what it does not name."""
    metadata, spec = raw.get("metadata") or {}, raw.get("spec")
    reference = spec.get("scaleTargetRef") if isinstance(spec, Mapping) else None
    named = reference if isinstance(reference, Mapping) else {}
    return str(metadata.get("namespace", "")), str(named.get("kind") or ""), str(named.get("name") or "")


ALL: Final = Shard()
# Works for a shard, with a function that tells if this process still leads it.
Work = Callable[[Shard, Callable[[], bool]], Coroutine[Any, Any, None]]


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
        if found is None:
            return None
        by = BY_TARGET if found[4] else BY_NAMESPACE
        return Shard(int(found[2]), Division(int(found[3]), by), found[1] or "")

    @property
    def requested_by(self) -> str:
        """The identity that requested the shard; "" without a request."""
        return (self.metadata.annotations or {}).get(WANTED_BY, "")


@dataclass
class ShardLeases:
    """The Leases of all shards at the last read. A Lease is live while it is renewed, by our clock."""

    client: ApiClient
    namespace: str
    timing: LeaseTiming
    clock: Callable[[], float]
    kind: str = ""
    # By name, each Lease and when it was first seen in this state, by our clock.
    _observed: dict[str, tuple[_Lease, float]] = field(default_factory=dict)
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
        known, now = self._observed, self.clock()
        self._observed = {
            name: (lease, known[name][1] if name in known and known[name][0].spec == lease.spec else now)
            for name, lease in found.items()
        }
        self._read_at = began
        return True

    def _tell(self, error: Exception) -> None:
        """Log why the Leases were not listed. A missing right is a warning, because then nobody leads."""
        refused = isinstance(error, ApiError) and error.status == FORBIDDEN
        write = log.warning if refused and not self._refused else log.debug
        write("leases not listed", namespace=self.namespace, error=str(error))
        self._refused = refused

    def holders(self, division: Division) -> dict[Shard, str]:
        """The holders of live Leases of this division."""
        return {shard: holder for shard, holder in self._live().items() if shard.division == division}

    def others(self, division: Division) -> dict[Shard, str]:
        """The holders of live Leases of any other division."""
        return {shard: holder for shard, holder in self._live().items() if shard.division != division}

    def requested_by(self, shard: Shard) -> str:
        """The identity that requested a shard; "" without a request."""
        known = self._observed.get(shard.lease)
        return "" if known is None else known[0].requested_by

    def _live(self) -> dict[Shard, str]:
        live = {}
        for lease, at in self._observed.values():
            shard, spec = lease.shard, lease.spec
            duration = spec.leaseDurationSeconds or self.timing.lease_duration
            if shard is not None and spec.holderIdentity and self.clock() < at + duration:
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
        division: Division,
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
        self._division = division
        self._shards = [Shard(index, division, kind) for index in range(division.count)]
        self._timing = timing or LeaseTiming()
        self._warned: set[str] = set()
        self._leases = ShardLeases(client, namespace, self._timing, clock.monotonic, kind)
        self.electors = [
            LeaderElector(
                client,
                namespace,
                shard.lease,
                identity,
                timing=self._timing,
                # A recent list is enough to try.
                may_acquire=partial(self._no_other_division, self._timing.retry_period),
                may_lead=self._no_other_division,
                yields_to=lambda _: len(self.held) > 1,
                on_change=partial(on_lead, shard),
                clock=clock.monotonic,
                wall=clock.wall,
                rng=rng,
            )
            for shard in self._shards
        ]

    @property
    def held(self) -> list[int]:
        """The shards that this process leads."""
        return [index for index, elector in enumerate(self.electors) if elector.leads()]

    async def run(self, work: Work) -> None:
        """Take part in the election of all shards until cancelled.

        After an exception of `work` the Lease is released, and this process takes part again after a while.
        """
        async with asyncio.TaskGroup() as group:
            for shard, elector in zip(self._shards, self.electors, strict=True):
                elect = partial(elector.run, partial(work, shard, elector.leads))
                group.create_task(supervise("shard", elect, name=str(shard)))
            if len(self._shards) > 1:
                group.create_task(supervise("shard-balance", self._balance))

    async def _no_other_division(self, max_age: float = 0.0) -> bool:
        """True if no Lease of another division is live, by a list of this age at most."""
        if not await self._leases.read(max_age):
            return False
        others = self._leases.others(self._division)
        for shard, holder in sorted(others.items(), key=str):
            if str(shard) not in self._warned:
                self._warned.add(str(shard))
                log.warning(
                    "waiting for a controller with another --shards or --shard-by to end",
                    lease=shard.lease,
                    holder=holder,
                )
        if not others:
            self._warned.clear()
        return not others

    async def _balance(self) -> None:
        """Request a shard while another process holds at least two more than this one."""
        while True:
            await asyncio.sleep(self._timing.retry_period * BALANCE_PERIODS)
            if not await self._leases.read():
                continue
            rich = self._holdings_above(len(self.held) + 2)
            mine = [
                shard
                for shard in self._leases.holders(self._division)
                if self._leases.requested_by(shard) == self._identity
            ]
            for shard in mine:
                if shard not in rich:  # its holder gave others away meanwhile, and keeps its last one
                    await self._request(shard, withdraw=True)
            free = next((shard for shard in rich if not self._leases.requested_by(shard)), None)
            if free is not None and not any(shard in rich for shard in mine):
                await self._request(free)

    def _holdings_above(self, least: int) -> list[Shard]:
        """The shards of all processes that hold `least` or more, those of the one with most first."""
        by_holder: dict[str, list[Shard]] = {}
        for shard, holder in sorted(self._leases.holders(self._division).items(), key=str):
            by_holder.setdefault(holder, []).append(shard)
        every = sorted((held for held in by_holder.values() if len(held) >= least), key=len, reverse=True)
        return [shard for held in every for shard in held]

    async def _request(self, shard: Shard, *, withdraw: bool = False) -> None:
        path = resource_path(API_VERSION, "leases", self._namespace, shard.lease)
        try:
            lease = await self._client.get_json(path, deadline=self._timing.renew_deadline / 2)
            metadata: Mapping[str, Any] = lease.get("metadata") or {}
            annotations = {**(metadata.get("annotations") or {}), WANTED_BY: self._identity}
            if withdraw:
                del annotations[WANTED_BY]
            body = {**lease, "metadata": {**metadata, "annotations": annotations}}
            await self._client.put(path, body, deadline=self._timing.renew_deadline / 2)
        except FedHPAError as error:
            log.debug("shard not requested", shard=str(shard), error=str(error))
