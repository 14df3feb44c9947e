"""Decides on objects of mode Distributed and writes the bounds of their member HPAs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import structlog

from controller.decision_series import ControllerMetrics
from controller.distributed.member_writer import MemberHpaWriter
from controller.distributed.mode_changes import Removal, has_finalizer
from controller.distributed.passes import BoundsWriter
from controller.distributed.removal import HpaRemoval
from controller.distributed.template import hold
from controller.distributed.work_removal import WorkRemoval
from controller.distributed.works import WorkWriter
from controller.distributed.writer import HpaWriter
from controller.federatedhpa.memory import ObjectMemory
from controller.federatedhpa.recording import expecting_hpas
from controller.federatedhpa.scale_writes import NotWritten, WriteTargets, write_assignment
from controller.federatedhpa.snapshot import HUB_DEADLINE_SECONDS, SnapshotBuilder
from controller.flags import DIRECT, Settings
from controller.holds import member_spec
from fedhpa.api.errors import Conflict, FedHPAError
from fedhpa.api.member_hpas import Owner
from fedhpa.decision import Assignment, Decision, Snapshot, decide
from fedhpa.kube import ApiClient, EventRecorder, Key

log = structlog.get_logger(__name__)


def hpa_writers(
    hub: ApiClient,
    snapshots: SnapshotBuilder,
    events: EventRecorder,
    settings: Settings,
    owner: Callable[[Key], Owner],
) -> tuple[HpaWriter, Removal]:
    """The writer and the remover of member HPAs: by the members' own clients, or by Karmada's Works."""
    deadline = settings.member_deadline
    members, duplicates, hpas = snapshots.members, snapshots.duplicates, snapshots.hpas
    if settings.propagation == DIRECT:
        writer = MemberHpaWriter(members, hpas, owner, deadline)
        return writer, HpaRemoval(members, duplicates, hpas, writer, events, deadline)
    works = WorkWriter(hub, members, hpas, owner, deadline)
    removal = HpaRemoval(members, duplicates, hpas, works, events, deadline)
    return works, WorkRemoval(
        hub,
        members,
        removal,
        works,
        snapshots.bound,
        member_deadline=deadline,
        hub_deadline=HUB_DEADLINE_SECONDS,
    )


def bounds_writer(
    hub: ApiClient, writer: HpaWriter, metrics: ControllerMetrics, settings: Settings
) -> BoundsWriter:
    """The writer of the bounds of member HPAs."""
    return BoundsWriter(
        hub,
        writer,
        metrics,
        member_deadline=settings.member_deadline,
        hub_deadline=HUB_DEADLINE_SECONDS,
    )


class DistributedDecisions:
    """Decides on one object at a time, and writes to its members by `bounds`."""

    def __init__(
        self, hub: ApiClient, bounds: BoundsWriter, metrics: ControllerMetrics, settings: Settings
    ) -> None:
        self._hub = hub
        self._bounds = bounds
        self._metrics = metrics
        self._settings = settings

    async def decide_and_write(
        self,
        key: Key,
        raw: Mapping[str, Any],
        memory: ObjectMemory,
        snapshot: Snapshot,
        targets: WriteTargets,
        now: float,
        may_write: Callable[[], bool],
    ) -> tuple[Decision, bool] | None:
        """Decide at `now`, and write member HPAs. Returns the decision and True if anything was written.

        None asks for a new decision, because `may_write` is False. Raises Conflict if another process wrote
        the record.
        """
        rules = self._settings.decision
        hold = snapshot.hold_at(now)
        decision = decide(snapshot, memory.history, now, rules)
        # A cluster that is no longer selected loses its replicas, which waits for the end of a hold.
        unselected = {} if hold is not None and hold.stops_down else targets.unselected
        leaving = decision.plan is not None and bool(unselected)
        # No cluster can be decided on before the ResourceBinding holds one.
        begins = targets.bound is not None and bool(targets.bound.begins) and not targets.members
        written = not snapshot.hpa.spec.dry_run and (decision.writes or leaving or begins)
        if written and not may_write():
            return None
        if written:
            problem = await self._record_intent(memory, decision)
            if problem:
                decision = decide(snapshot, memory.history, now, rules, write_error=problem)
                memory.note_decision(snapshot, decision)
                memory.note_pass(decision)
                return decision, False
            scale = partial(self._scale, targets)
            result = await self._bounds.write(
                key,
                {**raw, "spec": member_spec(raw["spec"], hold, snapshot.memory)},
                decision,
                targets.hpas,
                scale,
                unselected,
                partial(self._hold, targets, memory.uid),
            )
            decision = decide(
                snapshot, memory.history, now, rules, outcomes=result.outcomes, write_error=result.error
            )
        elif has_finalizer(raw) and not snapshot.hpa.spec.dry_run and may_write():
            await self._follow(key, targets, memory.uid)
        memory.note_decision(snapshot, decision)
        memory.note_pass(decision)
        return decision, written

    async def _follow(self, key: Key, targets: WriteTargets, uid: str) -> None:
        """Let a ResourceBinding follow what runs between two passes. A refusal is only logged."""
        try:
            await self._hold(targets, uid)
        except FedHPAError as error:
            log.warning("resource binding not updated", namespace=key[0], name=key[1], error=str(error))

    async def _record_intent(self, memory: ObjectMemory, decision: Decision) -> str:
        """Record which clusters are about to hold our HPA. Returns why that failed, "" if it did not.

        Raises Conflict if another process wrote the record.
        """
        recording = memory.recording
        new = {
            write.cluster
            for write in decision.hpa_writes
            if write.after is not None and not recording.may_have_hpa(write.cluster)
        }
        if new:
            try:
                await recording.write(expecting_hpas(memory.state, new), decision)
            except Conflict:
                raise
            except FedHPAError as error:
                return recording.obstacle or str(error)
        return ""

    async def _hold(self, targets: WriteTargets, uid: str) -> None:
        """Keep Karmada's hands off the workload. Raises FedHPAError. Without Karmada it does nothing."""
        if targets.bound is None or targets.template is None:
            return
        running = {name: member.scale.spec.replicas for name, member in targets.members.items()}
        size = targets.template.spec.replicas
        await hold(self._hub, targets.bound, uid, running, size, HUB_DEADLINE_SECONDS)

    async def _scale(self, targets: WriteTargets, replicas: Mapping[str, int]) -> str | None:
        """Write replicas by cluster. Returns the first error."""
        unselected = {name: scale for name, scale in targets.unselected.items() if scale is not None}
        shares = [Assignment(cluster, number) for cluster, number in replicas.items()]
        try:
            await write_assignment({**targets.members, **unselected}, shares, self._settings.member_deadline)
        except FedHPAError as error:
            for cluster in error.clusters if isinstance(error, NotWritten) else ():
                self._metrics.count_scale_failure(cluster)
            return str(error)
        return None
