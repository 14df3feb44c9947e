"""Decides on objects of mode Centralized and writes the decided scales."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import msgspec
import structlog

from controller.apply.plan import (
    WriteTargets,
    carry_out,
    error_of,
    failures,
    to_scales,
    written_scales,
)
from controller.decision_series import ControllerMetrics
from controller.failure_log import names
from controller.federatedhpa.memory import ObjectMemory
from controller.flags import Settings
from fedhpa.api.texts import one_line
from fedhpa.assignment import TEMPLATE, Outcome, Result
from fedhpa.decision import (
    ClusterMemory,
    Decision,
    MemoryState,
    Snapshot,
    TemplateScale,
    decide,
    history_after_scale,
    resets_after,
)
from fedhpa.kube import ApiClient, Key, contain

log = structlog.get_logger(__name__)

DEADLINE_SECONDS: Final = 3.0
# People read the name in a condition.
_MAX_NAME: Final = 64


@dataclass(eq=False)
class CentralizedDecisions:
    """Decides on one object at a time, and writes to the hub or to the members."""

    _hub: ApiClient
    _metrics: ControllerMetrics
    _settings: Settings

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
            outcomes = await self._write(key, memory, snapshot, targets, decision)
            if failures(outcomes):
                after = self._after_failed_write(key, memory, snapshot, outcomes, now)
                return None if after is None else (after, False)
        memory.note_decision(snapshot, decision)
        if written and targets.template is None:
            # A cluster that is lost right after the write still runs its new share.
            memory.last_replicas |= decision.assignment
        memory.note_left(snapshot, decision, targets.members)
        memory.history = decision.history
        return decision, written

    async def _write(
        self, key: Key, memory: ObjectMemory, snapshot: Snapshot, targets: WriteTargets, decision: Decision
    ) -> Sequence[Outcome]:
        """Carry out the decision. Returns its writes with their results.

        A write without an answer may have been made all the same. Then the memory stays that of before the
        write, so that the next reconcile counts what has changed since.
        """
        _expect(memory, snapshot, decision.current_replicas)
        scales = targets.scales
        present = {name: scale.replicas for name, scale in scales.items()}
        outcomes = await carry_out(
            lambda done: decision.next_writes(present, outcomes=done), to_scales(scales), **names(key)
        )
        if all(one.result is not Result.UNKNOWN for one in outcomes):
            memory.reported_size = None
        failed, written = failures(outcomes), written_scales(outcomes)
        refused = [one.write.cluster for one in failed if one.result is not Result.SUPERSEDED]
        if refused:
            memory.left.clear()
        elif failed:
            memory.left |= written
        for cluster in refused:
            self._metrics.members.count_scale_failure(cluster)
        if refused and written:
            log.warning("scale written in part", error=error_of(outcomes), written=written, **names(key))
        return outcomes

    def _after_failed_write(
        self, key: Key, memory: ObjectMemory, snapshot: Snapshot, outcomes: Sequence[Outcome], now: float
    ) -> Decision | None:
        """The decision after a failed write, which counts what was written; None if it is to be made anew."""
        shares, error, before = written_scales(outcomes), error_of(outcomes), snapshot.replicas
        change = sum(size - before.get(cluster, size) for cluster, size in shares.items())
        failed = {one.write.cluster for one in failures(outcomes) if one.result is not Result.SUPERSEDED}
        decision: Decision | None = None
        if not failed:
            log.info("decision superseded", detail=error, **names(key))
            memory.history = history_after_scale(snapshot.hpa.spec, memory.history, change, now)
        else:
            rules = self._settings.decision
            decision = decide(snapshot, memory.history, now, rules, write_error=error, written_change=change)
            memory.note_decision(snapshot, decision)
            memory.history = decision.history
        memory.refused |= dict.fromkeys(failed - {TEMPLATE}, now)
        memory.last_replicas |= shares
        return decision


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
        clusters={name: ClusterMemory(replicas=size) for name, size in snapshot.replicas.items()},
    )


def _expect(memory: ObjectMemory, snapshot: Snapshot, current: int) -> None:
    """Note the sizes from before a write, with which `count_unreported_scale` compares what it finds."""
    target = snapshot.target
    memory.reported_size = target.replicas if isinstance(target, TemplateScale) else current
    memory.last_replicas |= snapshot.replicas


class _ManagedFields(msgspec.Struct, frozen=True):
    manager: str = ""
    time: str = ""
    fieldsV1: Mapping[str, Any] | None = None

    @property
    def has_replicas(self) -> bool:
        spec = (self.fieldsV1 or {}).get("f:spec")
        return isinstance(spec, Mapping) and "f:replicas" in spec


class _Meta(msgspec.Struct, frozen=True):
    managedFields: Sequence[_ManagedFields] | None = None


class _Workload(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()


async def note_changes(
    memory: ObjectMemory, snapshot: Snapshot, targets: WriteTargets, hub: ApiClient, now: float
) -> Snapshot:
    """Note a change of the size by others, or that there was none. Returns the snapshot with the memory.

    Raises nothing: if the workload cannot be read, the client is unknown.
    """
    change = memory.size_change(snapshot)
    if change is not None:
        read = partial(_last_writer, targets, hub, change.cluster)
        by = await contain("find-writer", read, lambda _: "", cluster=change.cluster or "the hub")
        change = msgspec.structs.replace(change, by=by)
    resets = resets_after(memory.state.resets, change, now)
    memory.state = msgspec.structs.replace(memory.state, resets=resets)
    return msgspec.structs.replace(snapshot, memory=memory.state)


async def _last_writer(targets: WriteTargets, hub: ApiClient, cluster: str) -> str:
    """Returns the field manager that set the replicas last; "" if none is known."""
    if cluster == TEMPLATE:
        found: Sequence[_Workload] = [await hub.get(targets.path, _Workload, deadline=DEADLINE_SECONDS)]
    elif (target := targets.members.get(cluster)) is not None:
        # The rights in members do not include to get workloads, but to list them.
        collection, _, name = target.path.rpartition("/")
        field = f"metadata.name={name}"
        found = (
            await target.client.list(collection, _Workload, field_selector=field, idle=DEADLINE_SECONDS)
        ).items
    else:
        return ""
    owners = [one for each in found for one in each.metadata.managedFields or () if one.has_replicas]
    latest = max(owners, key=lambda one: one.time, default=_ManagedFields())
    return one_line(latest.manager, _MAX_NAME)
