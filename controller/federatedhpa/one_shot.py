"""Reads once what the controller would decide on, for `fedhpa record` and `fedhpa preview`.

The controller's own code reads the hub and the members, with the permissions of the caller. Nothing is
written.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from controller.federatedhpa.cluster_reader import MemberCaches
from controller.federatedhpa.competition import CompetingAutoscalers, clients_of
from controller.federatedhpa.memory import ObjectMemory
from controller.federatedhpa.recording import INVALID_OBJECT, Recording
from controller.federatedhpa.snapshot import SnapshotBuilder
from controller.flags import DIRECT, KARMADA, METRICS_VIA, PROPAGATION, SECTIONS, Settings
from controller.holds import HoldOfNamespace
from controller.hub_check import CRD_PATH, OUR_PATHS, PLURAL, HubCheck
from controller.members import HUB_SECONDS, members_once, until
from controller.publish import FEDERATED_HPAS
from controller.scaling_records import RecordFile
from fedhpa.api.errors import ApiError, ConfigError, InvalidObject
from fedhpa.api.member_sources import ONLY_CLUSTERS, MemberSources
from fedhpa.decision import (
    Blocked,
    Decision,
    History,
    Snapshot,
    StoredRecord,
    decide,
    encode_scenario,
)
from fedhpa.kube import ApiClient, Clock, Key
from fedhpa.members import MemberRegistry, SharedLists
from fedhpa.serving.flags import parse_flags

# Other objects of the namespace that are read at the same time.
MAX_CONCURRENT: Final = 8


@dataclass(frozen=True)
class DecisionInput:
    """The complete input of one decision, and the object as it was read."""

    raw: Mapping[str, Any]
    snapshot: Snapshot
    history: History
    now: float
    settings: Settings

    def decide(self) -> Decision:
        """The decision that the controller would make."""
        return decide(self.snapshot, self.history, self.now, self.settings.decision)

    def scenario(self) -> dict[str, Any]:
        """The input as a scenario for `fedhpa replay`."""
        return encode_scenario(self.raw, self.snapshot, self.history, self.now, self.settings.decision)


class OneShotReader:
    """Reads the decision input of single objects; made by `one_shot_reader`."""

    def __init__(
        self, hub: ApiClient, members: MemberRegistry, caches: MemberCaches, settings: Settings, clock: Clock
    ) -> None:
        self.settings = settings
        self._hub = hub
        self._members = members
        self._clock = clock
        self._autoscalers = CompetingAutoscalers(clock=clock.monotonic)
        self._hub_check = HubCheck(hub, CRD_PATH, OUR_PATHS, plural=PLURAL, clock=clock.monotonic)
        self._holds = HoldOfNamespace(hub)
        self._snapshots = SnapshotBuilder(
            hub,
            members.members,
            caches,
            settings,
            clock=clock.monotonic,
            reads_nodes=True,
            duplicates=members.duplicates,
            holds=self._holds,
            gone=members.gone,
        )
        self.placements = self._snapshots.placements
        # A command shows what another scheduler's change leads to. It does not know since when that stands.
        self.placements.settled_seconds = 0.0

    async def read(self, raw: Mapping[str, Any]) -> DecisionInput:
        """Read the decision input of the object `raw`. Raises InvalidObject if the object cannot be read."""
        metadata = raw["metadata"]
        key = (str(metadata["namespace"]), str(metadata["name"]))
        await self._holds.read(key[0])
        spec = raw.get("spec") or {}
        if spec.get("placement") or (spec.get("clusterAffinity") or {}).get("placementDecision"):
            await until(lambda: not self.placements.begins)
        now = self._clock.wall()
        objects = {**await self._others(key), key: raw}
        memories = {other: self._memory(one) for other, one in objects.items()}
        memories[key].recording = await read_recording(self._hub, raw)
        memories[key].restore(raw, now)
        memories[key].forget_replaced(self._members.members)
        # The others' selectors are known only after their workloads were read.
        slots = asyncio.Semaphore(MAX_CONCURRENT)
        async with asyncio.TaskGroup() as group:
            for other, one in objects.items():
                if other != key:
                    group.create_task(self._read_other(slots, other, one, memories, now))
        snapshot, targets = await self._snapshots.build(key, raw, memories, now)
        memories[key].count_unreported_scale(snapshot, now)
        clients = clients_of(targets, self._hub)
        self._autoscalers.find(raw, self._hub, clients)
        await self._autoscalers.settle()
        # Nothing is known of earlier reconciles, so an implausible answer is shown at once, as replay does.
        clusters, contest = snapshot.clusters, memories[key].contest
        refusal = snapshot.hpa.spec.judgement.refusal
        snapshot = msgspec.structs.replace(
            snapshot,
            clusters=tuple(msgspec.structs.replace(cluster, implausible_for=None) for cluster in clusters),
            competitors=self._autoscalers.find(raw, self._hub, clients),
            blocked=(Blocked(INVALID_OBJECT, refusal) if refusal else None)
            or snapshot.blocked
            or self._hub_check.other_controller(contest, raw, now),
        )
        return DecisionInput(raw, snapshot, memories[key].history, now, self.settings)

    def _memory(self, raw: Mapping[str, Any]) -> ObjectMemory:
        return ObjectMemory(str(raw["metadata"].get("uid", "")), Recording(_file(self._hub, raw)))

    async def _others(self, key: Key) -> dict[Key, Mapping[str, Any]]:
        path = FEDERATED_HPAS.path(key[0])
        try:
            listing = await self._hub.list(path, dict[str, Any], idle=HUB_SECONDS)
        except ApiError as error:
            raise ConfigError(f"cannot list the FederatedHPAs of namespace {key[0]}: {error}") from error
        found: dict[Key, Mapping[str, Any]] = {
            (key[0], str(item["metadata"]["name"])): item for item in listing.items
        }
        found.pop(key, None)
        return found

    async def _read_other(
        self,
        slots: asyncio.Semaphore,
        key: Key,
        raw: Mapping[str, Any],
        memories: Mapping[Key, ObjectMemory],
        now: float,
    ) -> None:
        async with slots:
            with contextlib.suppress(InvalidObject):  # such an object selects no pods
                await self._snapshots.build(key, raw, memories, now)


async def read_recording(hub: ApiClient, raw: Mapping[str, Any]) -> Recording:
    """The recording of the object `raw`. Raises ConfigError if it cannot be read."""
    try:
        found = await Recording.open(_file(hub, raw), writes=False)
    except ApiError as error:
        raise ConfigError(f"cannot read {_file(hub, raw)}: {error}") from error
    if found.obstacle:
        raise ConfigError(found.obstacle)
    return found


def _file(hub: ApiClient, raw: Mapping[str, Any]) -> RecordFile:
    return RecordFile.of(hub, FEDERATED_HPAS, raw["metadata"], HUB_SECONDS)


async def settings_for(
    hub: ApiClient,
    raw: Mapping[str, Any],
    propagation: str = "",
    metrics_via: str = "",
    sources: MemberSources = ONLY_CLUSTERS,
) -> Settings:
    """The settings of the object's last recorded decision.

    `propagation` overrides the stored one. `metrics_via` is not stored. Raises ConfigError for an unknown
    propagation.
    """
    stored = (await read_recording(hub, raw)).record or StoredRecord()
    chosen = propagation or stored.propagation or DIRECT
    if chosen not in (KARMADA, DIRECT):
        raise ConfigError(f"--propagation={chosen}: expected {KARMADA} or {DIRECT}")
    flags = [
        f"--{PROPAGATION.name}={chosen}",
        *([f"--{METRICS_VIA.name}={metrics_via}"] if metrics_via else []),
    ]
    settings = Settings.of(parse_flags(SECTIONS, flags, {}))
    return dataclasses.replace(settings, decision=stored.settings, sources=sources)


@contextlib.asynccontextmanager
async def one_shot_reader(
    hub: ApiClient, settings: Settings, *, clock: Clock
) -> AsyncIterator[OneShotReader]:
    """A reader with the permissions of `hub`'s user. Raises ConfigError if a permission is missing."""
    async with members_once(hub, settings, clock) as registry, SharedLists(clock=clock.monotonic) as lists:
        caches = MemberCaches(lists, clock.monotonic)
        reader = OneShotReader(hub, registry, caches, settings, clock)
        tasks = [asyncio.create_task(one) for one in (caches.run(), reader.placements.run())]
        try:
            yield reader
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
