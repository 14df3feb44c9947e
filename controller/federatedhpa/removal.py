"""Removes our HPAs from the members, when a FederatedHPA is deleted or leaves mode Distributed.

The workloads keep their replicas, and a finalizer keeps the object until then. With --propagation=karmada the
Works go, too, and Karmada's scheduler gets the workload back.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import structlog

from controller.apply.member_hpas import NOT_REGISTERED, MemberHpaWriter, NotOwned
from controller.apply.plan import carry_out, failures, to_hpas
from controller.apply.template import release
from controller.failure_log import names
from controller.federatedhpa.clusters import HUB_DEADLINE_SECONDS, has_finalizer
from controller.federatedhpa.memory import ObjectMemory
from controller.federatedhpa.snapshot import SnapshotBuilder
from controller.flags import Settings
from controller.publish import FEDERATED_HPAS, FIELD_MANAGER, record_events
from fedhpa.api.errors import FedHPAError
from fedhpa.api.free_json import at
from fedhpa.api.member_hpas import DELETION_WAITS, FINALIZER
from fedhpa.api.texts import listed
from fedhpa.assignment import RemoveHpa, Write
from fedhpa.decision import ASSIGNED, DISTRIBUTED, LOST, Blocked, Event, Failure, MemoryState
from fedhpa.kube import ApiClient, EventRecorder, Key, contain_each, get_scale, patch_finalizers

log = structlog.get_logger(__name__)

HUB_UNKNOWN: Final = "the identity of the hub is unknown, so the HPA may be another hub's"
LEFT: Final = "MemberHPALeft"
TASK: Final = "read-scale-for-release"
# The place of an error of the hub, among those of clusters.
HUB: Final = "hub"
# The reasons of Assigned.
HELD: Final = "DistributedHeld"
REMOVING: Final = "RemovingMemberHPAs"
DRY_RUN: Final = (
    "spec.dryRun is set, so the member HPAs of mode Distributed stay and go on scaling, and the new mode "
    "does not begin: set spec.dryRun to false to remove them, or spec.mode to Distributed; `fedhpa preview "
    "-f FILE` shows what an object would decide"
)
MODE_ABSENT: Final = (
    "spec.mode is absent, but {} has member HPAs of mode Distributed: nothing is written. Set spec.mode to "
    "Distributed or Centralized. If your manifest sets it, the hub's CRD drops the field: install the CRDs "
    "of this release"
)


async def set_finalizer(hub: ApiClient, raw: Mapping[str, Any], deadline: float, *, wanted: bool) -> bool:
    """Add the finalizer to the object read as `raw`, or remove it. Other finalizers stay.

    Returns False if the object was deleted, or created again, in between; then nothing is written. Raises
    Conflict after five tries, and ApiError if the hub refuses. The deadline applies to each call.
    """
    metadata = raw["metadata"]
    path = FEDERATED_HPAS.path(metadata["namespace"], metadata["name"])

    def change(present: Sequence[str]) -> list[str]:
        others = [each for each in present if each != FINALIZER]
        if (FINALIZER in present) == wanted:
            return list(present)
        return [*others, FINALIZER] if wanted else others

    found = await patch_finalizers(hub, path, raw, change, manager=FIELD_MANAGER, deadline=deadline)
    return found is not None and has_finalizer(found) == wanted


@dataclass(eq=False)
class ModeChanges:
    """The way out of mode Distributed, for one object at a time. `writer` wrote the member HPAs."""

    _hub: ApiClient
    _snapshots: SnapshotBuilder
    _writer: MemberHpaWriter
    _events: EventRecorder
    _settings: Settings

    async def delete(self, key: Key, raw: Mapping[str, Any], memory: ObjectMemory, now: float) -> None:
        """Remove the member HPAs of an object that is being deleted, then its finalizer.

        Until all are gone, or their clusters past the lost time-out, the finalizer stays. Raises FedHPAError
        if the hub refuses to remove it. With --pause it waits, because nothing may be written.
        """
        if self._settings.paused:
            if memory.leaving_since is None:
                memory.leaving_since = now
                log.warning("deletion waits", remedy=DELETION_WAITS, **names(key))
            return
        since = datetime.fromisoformat(raw["metadata"]["deletionTimestamp"]).timestamp()
        if left := await self._remove(key, raw, memory.state, now - since):
            log.info("deletion waits for members", clusters=left, **names(key))
        else:
            await set_finalizer(self._hub, raw, HUB_DEADLINE_SECONDS, wanted=False)

    async def blocked(
        self, key: Key, raw: Mapping[str, Any], memory: ObjectMemory, now: float, *, found: bool
    ) -> Blocked | None:
        """Returns why an object of another mode than Distributed must not be scaled yet; None if it may be.

        `found` is True if members have our HPAs of its name. An object with the finalizer had them. An absent
        mode holds them, because the hub may have dropped the field. Mode Centralized removes them.
        """
        spec = raw.get("spec") or {}
        if spec.get("mode") == DISTRIBUTED or not (found or has_finalizer(raw)):
            memory.leaving_since = None
            return None
        if not spec.get("mode"):
            return Blocked(HELD, MODE_ABSENT.format("/".join(key)), condition=ASSIGNED)
        if self._settings.paused:
            return Blocked(REMOVING, "the member HPAs are removed once --pause ends", condition=ASSIGNED)
        if spec.get("dryRun") is True:
            return Blocked(REMOVING, DRY_RUN, condition=ASSIGNED)
        since = memory.leaving_since = now if memory.leaving_since is None else memory.leaving_since
        left = await self._remove(key, raw, memory.state, now - since)
        found_in = listed([f"{name}: {reason}" for name, reason in sorted(left.items())])
        message = f"nothing is scaled until the member HPAs of mode Distributed are removed: {found_in}"
        return Blocked(REMOVING, message, condition=ASSIGNED) if left else None

    def leaves(self, raw: Mapping[str, Any]) -> bool:
        """True if the object left mode Distributed and still has the finalizer."""
        return has_finalizer(raw) and (raw.get("spec") or {}).get("mode") not in (None, "", DISTRIBUTED)

    async def finish(self, key: Key, raw: Mapping[str, Any]) -> None:
        """Remove the finalizer of an object that left mode Distributed. A refusal is only logged."""
        try:
            await set_finalizer(self._hub, raw, HUB_DEADLINE_SECONDS, wanted=False)
        except FedHPAError as error:
            log.warning("finalizer not removed", error=str(error), **names(key))

    def report_unregistered(
        self, key: Key, raw: Mapping[str, Any], before: MemoryState, after: MemoryState
    ) -> None:
        """Report clusters whose Cluster was deleted, so that nobody can remove our HPA there.

        `before` may have our HPA in them, and they are not in `after` any more.
        """
        known = {*self._snapshots.members, *self._snapshots.duplicates, *after.clusters}
        for name in sorted(before.clusters_with_hpas - known):
            self._report(key, raw, name, NOT_REGISTERED)

    async def _remove(
        self, key: Key, raw: Mapping[str, Any], state: MemoryState, seconds: float
    ) -> dict[str, str]:
        """Remove HPAs and Works, then the hold of the workload. Returns why something may remain, by cluster.

        The HPAs go first, so that nothing changes the replicas that the template gets. They have been waited
        for so many `seconds`.
        """
        left = await self._remove_hpas(key, raw, state, seconds)
        try:
            await self._writer.discard(key)
            bound = None if left else await self._snapshots.propagation.bound(key, raw)
            if bound is not None:
                running = await self._running(bound.shares, bound.template_path)
                await release(self._hub, bound, running, HUB_DEADLINE_SECONDS)
        except FedHPAError as error:
            return {**left, HUB: str(error)}
        return left

    async def _remove_hpas(
        self, key: Key, raw: Mapping[str, Any], state: MemoryState, seconds: float
    ) -> dict[str, str]:
        """Remove our HPAs of this name from all members. Returns the reason by cluster where one may remain.

        A Lost cluster is no longer waited for, and after the lost time-out none is: an event names each.
        """
        members, hpas = self._snapshots.members, self._snapshots.hpas
        # Those of a duplicate are the HPAs of the member.
        assigned = state.clusters_with_hpas - self._snapshots.duplicates.keys()
        if not state.clusters and has_finalizer(raw):
            assigned = set(members)  # the record was lost, so each may have one
        readings = await hpas.read_all(members, members, key)
        left = dict.fromkeys(assigned - readings.keys(), NOT_REGISTERED)
        left |= {
            name: reading.hpa.error
            for name, reading in readings.items()
            # A member that never had our HPA need not answer.
            if isinstance(reading.hpa, Failure) and name in assigned
        }
        ours = [name for name, reading in readings.items() if reading.ours]
        if not hpas.hub:
            left |= dict.fromkeys(ours, HUB_UNKNOWN)
            ours = []
        delete = to_hpas(self._writer, key, self._settings.member_deadline)

        async def send(write: Write) -> None:
            with contextlib.suppress(NotOwned):  # it stays as it is
                await delete(write)
                log.info("member HPA removed", cluster=write.cluster, **names(key))

        removal = list(map(RemoveHpa, ours))
        outcomes = await carry_out(lambda done: () if done else removal, send, **names(key))
        left |= {one.write.cluster: one.reason for one in failures(outcomes)}
        lost = {name for name, one in state.clusters.items() if one.state == LOST}
        # An unregistered cluster can never answer, so its HPA is not waited for.
        given_up = left.keys() - readings.keys() | (left.keys() & lost)
        if seconds >= self._lost_seconds(raw):
            given_up = set(left)
        for name in sorted(given_up):
            self._report(key, raw, name, left[name])
        return {name: reason for name, reason in left.items() if name not in given_up}

    def _report(self, key: Key, raw: Mapping[str, Any], cluster: str, reason: str) -> None:
        namespace, name = key
        message = (
            f"the HorizontalPodAutoscaler {namespace}/{name} stays in cluster {cluster!r} ({reason}): delete "
            f"it there with `kubectl -n {namespace} delete horizontalpodautoscaler {name}`"
        )
        log.warning("member HPA left", cluster=cluster, reason=reason, **names(key))
        record_events(self._events, FEDERATED_HPAS, raw, [Event("Warning", LEFT, message)])

    async def _running(self, clusters: Iterable[str], path: str) -> dict[str, int]:
        """The replicas of the workload in the clusters that answer."""
        members = self._snapshots.members
        asked = [name for name in clusters if name in members and members[name].state.ready]

        async def read(name: str) -> int | None:
            deadline = self._settings.member_deadline
            return (await get_scale(members[name].client, path, deadline=deadline)).spec.replicas

        found = await contain_each(TASK, asked, read, lambda _: None)
        return {name: replicas for name, replicas in found.items() if replicas is not None}

    def _lost_seconds(self, raw: Mapping[str, Any]) -> float:
        own = at(raw, "spec", "partialMetrics", "lostAfterSeconds")
        valid = isinstance(own, int | float) and not isinstance(own, bool) and own > 0
        return float(own) if valid else self._settings.decision.cluster_lost_timeout
