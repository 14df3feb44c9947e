"""Decides on objects of mode Centralized and writes the decided scales."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
import structlog

from controller.decision_series import ControllerMetrics
from controller.federatedhpa.memory import ObjectMemory
from controller.federatedhpa.scale_writes import (
    NotWritten,
    Superseded,
    WriteFailed,
    WriteTargets,
    may_be_written,
    write_assignment,
    write_scale,
)
from controller.federatedhpa.size_changes import note_changes
from controller.federatedhpa.snapshot import HUB_DEADLINE_SECONDS
from controller.flags import Settings
from fedhpa.api.errors import FedHPAError
from fedhpa.decision import (
    ClusterMemory,
    ClusterScale,
    Decision,
    MemoryState,
    Snapshot,
    TemplateScale,
    decide,
    history_after_scale,
)
from fedhpa.kube import ApiClient, Key, reason_of

log = structlog.get_logger(__name__)


class CentralizedDecisions:
    """Decides on one object at a time, and writes to the hub or to the members."""

    def __init__(self, hub: ApiClient, metrics: ControllerMetrics, settings: Settings) -> None:
        self._hub = hub
        self._metrics = metrics
        self._settings = settings

    async def decide_and_write(
        self,
        key: Key,
        memory: ObjectMemory,
        snapshot: Snapshot,
        targets: WriteTargets,
        now: float,
        may_write: Callable[[], bool],
    ) -> tuple[Decision, bool] | None:
        """Decide at `now` and write the scale. Returns the decision and True if a scale was written.

        None asks for a new decision: someone else's write came first, or `may_write` is False. Raises
        Conflict if another process wrote the record.
        """
        rules = self._settings.decision
        memory.count_unreported_scale(snapshot, now)
        if memory.state.resets is not None or memory.size_change(snapshot) is not None:
            snapshot = await note_changes(memory, snapshot, targets, self._hub, now)
        decision = decide(snapshot, memory.history, now, rules)
        written = decision.writes
        if written and not may_write():
            return None
        if written:
            await memory.recording.write_before_first_scale(
                decision, _state_before(memory, snapshot, decision)
            )
            error = await self._try_to_write(key, memory, snapshot, targets, decision)
            if error is not None:
                after = self._after_failed_write(key, memory, snapshot, error, now)
                return None if after is None else (after, False)
        memory.note_decision(snapshot, decision)
        if written and targets.template is None:
            memory.note_write(decision.assignment)
        memory.note_left(snapshot, decision, targets.members)
        memory.history = decision.history
        return decision, written

    async def _try_to_write(
        self, key: Key, memory: ObjectMemory, snapshot: Snapshot, targets: WriteTargets, decision: Decision
    ) -> FedHPAError | None:
        """Write the decided replicas. Returns the error, which names the shares that were written.

        A write without an answer may have been made all the same. Then the memory stays that of before the
        write, so that the next reconcile counts what has changed since.
        """
        about = {"namespace": key[0], "name": key[1]}
        _expect(memory, snapshot, decision.current_replicas)
        error: FedHPAError | None = None
        try:
            await self._write_scale(targets, decision)
        except FedHPAError as failure:
            error = failure
        except Exception as failure:
            error = FedHPAError(reason_of("write-scale", failure, **about))
        if error is None or not may_be_written(error):
            memory.reported_size = None
        if isinstance(error, Superseded):
            memory.left |= error.written
        elif error is not None:
            memory.left.clear()
        if error is None or isinstance(error, Superseded):
            return error
        for cluster in error.clusters if isinstance(error, NotWritten) else ("",):
            self._metrics.count_scale_failure(cluster)
        written = dict(error.written) if isinstance(error, WriteFailed) else {}
        if written:
            log.warning("scale written in part", error=str(error), written=written, **about)
        return error

    def _after_failed_write(
        self, key: Key, memory: ObjectMemory, snapshot: Snapshot, error: FedHPAError, now: float
    ) -> Decision | None:
        """The decision after a failed write, which counts what was written; None if it is to be made anew."""
        shares = error.written if isinstance(error, WriteFailed) else {}
        change = _change(snapshot, shares)
        decision: Decision | None = None
        if isinstance(error, Superseded):
            log.info("decision superseded", namespace=key[0], name=key[1], detail=str(error))
            memory.history = history_after_scale(snapshot.hpa.spec, memory.history, change, now)
        else:
            rules = self._settings.decision
            decision = decide(
                snapshot, memory.history, now, rules, write_error=str(error), written_change=change
            )
            memory.note_decision(snapshot, decision)
            memory.history = decision.history
        if isinstance(error, NotWritten):
            memory.refused |= dict.fromkeys(error.clusters, now)
        memory.last_replicas |= shares
        return decision

    async def _write_scale(self, targets: WriteTargets, decision: Decision) -> None:
        template, replicas = targets.template, decision.desired_replicas
        if template is None:
            deadline = self._settings.member_deadline
            await write_assignment(targets.members, decision.assignment, deadline, moves=decision.moves)
        else:
            await write_scale(self._hub, targets.path, template, replicas, HUB_DEADLINE_SECONDS)


def _state_before(memory: ObjectMemory, snapshot: Snapshot, decision: Decision) -> MemoryState:
    """The memory from before a scale, with the recommendation that asks for it."""
    target, old = snapshot.target, memory.history
    return MemoryState(
        size=target.replicas if isinstance(target, TemplateScale) else decision.current_replicas,
        history=msgspec.structs.replace(
            decision.history, scale_ups=old.scale_ups, scale_downs=old.scale_downs
        ),
        absences=decision.memory.absences,
        target=decision.memory.target,
        clusters={
            cluster.name: ClusterMemory(replicas=cluster.scale.spec_replicas)
            for cluster in snapshot.clusters
            if isinstance(cluster.scale, ClusterScale)
        },
    )


def _expect(memory: ObjectMemory, snapshot: Snapshot, current: int) -> None:
    """Note the sizes from before a write, with which `count_unreported_scale` compares what it finds."""
    target = snapshot.target
    memory.reported_size = target.replicas if isinstance(target, TemplateScale) else current
    for cluster in snapshot.clusters:
        if isinstance(cluster.scale, ClusterScale):
            memory.last_replicas[cluster.name] = cluster.scale.spec_replicas


def _change(snapshot: Snapshot, written: Mapping[str, int]) -> int:
    """By how many replicas the written shares change the size."""
    before = {
        cluster.name: cluster.scale.spec_replicas
        for cluster in snapshot.clusters
        if isinstance(cluster.scale, ClusterScale)
    }
    return sum(replicas - before.get(cluster, replicas) for cluster, replicas in written.items())
