"""The world of single FederatedHPAs as the controller sees it, gathered once by somebody who is not it.

For `fedhpa record` and `fedhpa preview`: the same code reads the hub and the members, with the rights of
whoever asks. Nothing is written.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from controller.federatedhpa.ambiguity import Key
from controller.federatedhpa.competition import CompetingAutoscalers
from controller.federatedhpa.gather import Readers
from controller.federatedhpa.memory import ObjectMemory
from controller.federatedhpa.snapshot import Observer
from controller.flags import DIRECT, KARMADA, METRICS_VIA, PROPAGATION, SECTIONS, Settings
from controller.hub_check import HubCheck
from controller.publish import API_VERSION, PLURAL
from fedhpa.api.errors import ApiError, ConfigError, InvalidObject
from fedhpa.api.wire import ObjectMeta
from fedhpa.decision.decide import decide
from fedhpa.decision.history import History
from fedhpa.decision.model import Decision
from fedhpa.decision.record.scenario_encoder import encode_scenario
from fedhpa.decision.record.settings import decode_settings, encode_settings
from fedhpa.decision.snapshot import Snapshot
from fedhpa.kube.client import ApiClient
from fedhpa.kube.clock import SYSTEM, Clock
from fedhpa.kube.paths import resource_path
from fedhpa.members.cluster import CLUSTERS_PATH, Cluster
from fedhpa.members.lists import SharedLists
from fedhpa.members.registry import MemberRegistry
from fedhpa.serving.flags import parse_flags

# To list the clusters, and to give each member its deadline.
SYNC_SECONDS: Final = 20.0
HUB_SECONDS: Final = 10.0
# How many other objects of a namespace are looked at in the same moment.
AT_ONCE: Final = 8


class _Named(msgspec.Struct, frozen=True):
    """An object of which nothing but its name is of interest."""

    metadata: ObjectMeta = ObjectMeta()


@dataclass(frozen=True)
class Look:
    """Everything that one decision is made from, and the object it is about as it was read."""

    raw: Mapping[str, Any]
    snapshot: Snapshot
    history: History
    now: float
    settings: Settings

    def decide(self) -> Decision:
        """What the controller would decide."""
        return decide(self.snapshot, self.history, self.now, self.settings.decision)

    def scenario(self) -> dict[str, Any]:
        """For `fedhpa replay`."""
        settings = encode_settings(self.settings.decision)
        return encode_scenario(self.raw, self.snapshot, self.history, self.now, settings)


class Outside:
    """Looks at objects one after another; made by `outside`."""

    def __init__(
        self, hub: ApiClient, members: MemberRegistry, readers: Readers, settings: Settings, clock: Clock
    ) -> None:
        self.settings = settings
        self._hub = hub
        self._members = members
        self._clock = clock
        self._contests = CompetingAutoscalers(hub, clock=clock.monotonic)
        self._hub_check = HubCheck(hub, clock=clock.monotonic)
        self._observer = Observer(hub, lambda: members.members, readers, settings, clock=clock.monotonic)

    async def look(self, raw: Mapping[str, Any]) -> Look:
        """Gather the world of the object `raw`. InvalidObject if it cannot be read."""
        metadata = raw["metadata"]
        key = (str(metadata["namespace"]), str(metadata["name"]))
        now = self._clock.wall()
        objects = {**await self._others(key), key: raw}
        memories = {other: ObjectMemory.restore(one, now) for other, one in objects.items()}
        # Whose pods are whose is known of the others when their workloads were looked at.
        turns = asyncio.Semaphore(AT_ONCE)
        async with asyncio.TaskGroup() as group:
            for other, one in objects.items():
                if other != key:
                    group.create_task(self._claim(turns, other, one, memories, now))
        seen = await self._observer.observe(key, raw, memories, now)
        memories[key].account(seen.snapshot, now)
        contested = await self._contests.look(raw, seen)
        snapshot = msgspec.structs.replace(
            seen.snapshot,
            contested_by=contested,
            blocked=seen.snapshot.blocked or self._hub_check.rival(key, raw, now),
        )
        return Look(raw, snapshot, memories[key].history, now, self.settings)

    async def _others(self, key: Key) -> dict[Key, Mapping[str, Any]]:
        path = resource_path(API_VERSION, PLURAL, key[0])
        try:
            listing = await self._hub.get_json(path, deadline=HUB_SECONDS)
        except ApiError as error:
            raise ConfigError(f"cannot list the FederatedHPAs of namespace {key[0]}: {error}") from error
        found = {(key[0], str(item["metadata"]["name"])): item for item in listing.get("items") or ()}
        found.pop(key, None)
        return found

    async def _claim(
        self,
        turns: asyncio.Semaphore,
        key: Key,
        raw: Mapping[str, Any],
        memories: Mapping[Key, ObjectMemory],
        now: float,
    ) -> None:
        async with turns:
            with contextlib.suppress(InvalidObject):  # then it claims nothing
                await self._observer.observe(key, raw, memories, now)


def settings_for(raw: Mapping[str, Any], propagation: str = "", metrics_via: str = "") -> Settings:
    """The settings that the object's last decision was made with.

    `propagation` outweighs what it says; `metrics_via` it does not say. ConfigError for what is neither.
    """
    status = raw.get("status")
    stored = status.get("decision") if isinstance(status, Mapping) else None
    known = stored if isinstance(stored, Mapping) else {}
    told = propagation or str(known.get("propagation") or KARMADA)
    if told not in (KARMADA, DIRECT):
        raise ConfigError(f"--propagation={told}: expected {KARMADA} or {DIRECT}")
    flags = [
        f"--{PROPAGATION.name}={told}",
        *([f"--{METRICS_VIA.name}={metrics_via}"] if metrics_via else []),
    ]
    settings = Settings.of(parse_flags(SECTIONS, flags, {}))
    return dataclasses.replace(settings, decision=decode_settings(known.get("controller")))


@contextlib.asynccontextmanager
async def outside(hub: ApiClient, settings: Settings, *, clock: Clock = SYSTEM) -> AsyncIterator[Outside]:
    """Get to know the members with the rights of `hub`'s user. ConfigError for what these do not allow."""
    await _check_rights(hub)
    registry = MemberRegistry(hub, deadline=settings.member_deadline, clock=clock.monotonic, wall=clock.wall)
    async with SharedLists(clock=clock.monotonic) as lists:
        readers = Readers.of(lists, clock.monotonic)
        tasks = [asyncio.create_task(registry.run()), asyncio.create_task(readers.run())]
        try:
            await _until_synced(registry)
            yield Outside(hub, registry, readers, settings, clock)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _check_rights(hub: ApiClient) -> None:
    """A cluster that we may not ask would look like one that is away: the decision would be another."""
    try:
        clusters = (await hub.list(CLUSTERS_PATH, Cluster, idle=HUB_SECONDS)).items
        wanted = {
            (one.spec.secretRef.namespace, one.spec.secretRef.name)
            for one in clusters
            if one.spec.secretRef is not None
        }
        for namespace, name in sorted(wanted):
            await hub.list(
                resource_path("v1", "secrets", namespace),
                _Named,
                field_selector=f"metadata.name={name}",
                idle=HUB_SECONDS,
            )
    except ApiError as error:
        raise ConfigError(
            f"the members cannot be asked: {error}; needed are the rights to list and watch Clusters and the "
            f"Secrets that they name"
        ) from error


async def _until_synced(registry: MemberRegistry) -> None:
    with contextlib.suppress(TimeoutError):  # what is not known by then is missing, with its reason
        async with asyncio.timeout(SYNC_SECONDS):
            while not registry.synced():  # noqa: ASYNC110  # being settled is a matter of time, too
                await asyncio.sleep(0.05)
