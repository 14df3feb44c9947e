"""Decides on objects of mode Distributed and writes the bounds of their member HPAs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog

from controller.apply.member_hpas import MemberHpaWriter
from controller.apply.plan import WriteTargets, carry_out, error_of, to_hpas, to_scales
from controller.apply.template import hold
from controller.decision_series import ControllerMetrics
from controller.failure_log import names
from controller.federatedhpa.clusters import HUB_DEADLINE_SECONDS, has_finalizer
from controller.federatedhpa.memory import ObjectMemory
from controller.federatedhpa.recording import expecting_hpas
from controller.federatedhpa.removal import set_finalizer
from controller.flags import Settings
from controller.holds import member_spec
from fedhpa.api.errors import Conflict, FedHPAError
from fedhpa.assignment import Outcome, RemoveHpa, Result, SetBounds, SetScale, Write
from fedhpa.decision import Decision, Snapshot, decide
from fedhpa.kube import ApiClient, Key

log = structlog.get_logger(__name__)


@dataclass(eq=False)
class DistributedDecisions:
    """Decides on one object at a time, and writes member HPAs by `writer`."""

    _hub: ApiClient
    _writer: MemberHpaWriter
    _metrics: ControllerMetrics
    _settings: Settings

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
        rules, seen = self._settings.decision, memory.seen_members
        decision = decide(snapshot, memory.history, now, rules, seen=seen)
        # No cluster can be decided on before the ResourceBinding holds one.
        begins = targets.bound is not None and bool(targets.bound.begins) and not targets.members
        written = not snapshot.hpa.spec.dry_run and (decision.writes or begins)
        if written and not may_write():
            return None
        if written and (problem := await self._record_intent(memory, decision)):
            decision, written = decide(snapshot, memory.history, now, rules, write_error=problem), False
        elif written:
            held = {**raw, "spec": member_spec(raw["spec"], snapshot.hold_at(now), snapshot.memory)}
            outcomes, error = await self._write(key, held, memory.uid, decision, targets)
            bounds = [one for one in outcomes if isinstance(one.write, SetBounds)]
            decision = decide(snapshot, memory.history, now, rules, outcomes=bounds, write_error=error)
        elif has_finalizer(raw) and not snapshot.hpa.spec.dry_run and may_write():
            # A ResourceBinding follows what runs between two passes, too.
            try:
                await self._hold(targets, memory.uid)
            except FedHPAError as error:
                log.warning("resource binding not updated", error=str(error), **names(key))
        memory.note_decision(snapshot, decision)
        memory.status = decision.status
        return decision, written

    async def _record_intent(self, memory: ObjectMemory, decision: Decision) -> str:
        """Record which clusters are about to hold our HPA. Returns why that failed, "" if it did not.

        Raises Conflict if another process wrote the record.
        """
        recording = memory.recording
        new = {write.cluster for write in decision.hpa_writes if write.after is not None}
        if recording.stored is not None:
            new -= recording.stored.clusters_with_hpas
        try:
            if new:
                await recording.write(expecting_hpas(memory.state, new), decision)
        except FedHPAError as error:
            if isinstance(error, Conflict):
                raise
            return recording.obstacle or str(error)
        return ""

    async def _hold(self, targets: WriteTargets, uid: str) -> None:
        """Keep Karmada's hands off the workload. Raises FedHPAError. Without Karmada it does nothing."""
        if targets.bound is None or targets.template is None:
            return
        running = {name: member.replicas for name, member in targets.members.items()}
        size = targets.template.replicas
        await hold(self._hub, targets.bound, uid, running, size, HUB_DEADLINE_SECONDS)

    async def _write(
        self,
        key: Key,
        raw: Mapping[str, Any],
        uid: str,
        decision: Decision,
        targets: WriteTargets,
    ) -> tuple[Sequence[Outcome], str | None]:
        """Carry out the decision on the object read as `raw`. Returns all writes with their results.

        The second value is the first error that is not one of a change of bounds. Without the finalizer
        nothing is written, because a deletion would then leave the HPAs behind. The hub follows.
        """
        what = "the finalizer could not be set"
        try:
            if not await set_finalizer(self._hub, raw, HUB_DEADLINE_SECONDS, wanted=True):
                return (), "the FederatedHPA is being deleted"
            what = "the hub could not be prepared"
            await self._hold(targets, uid)
        except FedHPAError as refusal:
            return (), f"{what}: {refusal}"
        scales, deadline = targets.scales, self._settings.member_deadline
        present = {name: scale.replicas for name, scale in scales.items()}
        to_scale = to_scales(scales)
        to_hpa = to_hpas(self._writer, key, deadline, raw["spec"], targets.hpas)

        async def send(write: Write) -> None:
            await (to_scale if isinstance(write, SetScale) else to_hpa)(write)

        outcomes = await carry_out(partial(decision.next_writes, present), send, **names(key))
        self._count(key, outcomes)
        others = [one for one in outcomes if not isinstance(one.write, SetBounds)]
        return outcomes, error_of(others) or None

    def _count(self, key: Key, outcomes: Sequence[Outcome]) -> None:
        for one in outcomes:
            cluster, result = one.write.cluster, one.result
            if not isinstance(one.write, SetScale):
                self._metrics.members.count_hpa_write(cluster, result.value)
            elif result not in (Result.CONFIRMED, Result.SUPERSEDED):
                self._metrics.members.count_scale_failure(cluster)
            if isinstance(one.write, RemoveHpa) and result is Result.CONFIRMED:
                log.info("cluster no longer selected", cluster=cluster, **names(key))
