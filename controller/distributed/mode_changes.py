"""A FederatedHPA that is deleted, or leaves mode Distributed: its member HPAs go first.

Neither changes any replicas. A finalizer keeps the object until then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Protocol

import structlog

from controller.publish import FEDERATED_HPAS, FIELD_MANAGER
from fedhpa.api.errors import FedHPAError
from fedhpa.api.member_hpas import DELETION_WAITS, FINALIZER
from fedhpa.decision import Blocked, MemoryState
from fedhpa.kube import ApiClient, Key, patch_finalizers


def has_finalizer(raw: Mapping[str, Any]) -> bool:
    """True if a FederatedHPA has the finalizer."""
    return FINALIZER in (raw["metadata"].get("finalizers") or ())


def is_deleted(raw: Mapping[str, Any]) -> bool:
    """True if a FederatedHPA is being deleted."""
    return bool(raw["metadata"].get("deletionTimestamp"))


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

    found = await patch_finalizers(hub, path, metadata, change, manager=FIELD_MANAGER, deadline=deadline)
    return found is not None and (FINALIZER in found) == wanted


log = structlog.get_logger(__name__)

DISTRIBUTED: Final = "Distributed"
# The condition and its reasons.
ASSIGNED: Final = "Assigned"
HELD: Final = "DistributedHeld"
REMOVING: Final = "RemovingMemberHPAs"
DRY_RUN: Final = (
    "spec.dryRun is set, so the member HPAs of mode Distributed stay and go on scaling, and the new mode "
    "does not begin: set spec.dryRun to false to remove them, or spec.mode to Distributed; `fedhpa preview "
    "-f FILE` shows what an object would decide"
)
# The seeds' default would let each cluster run maxReplicas.
POLICY_IS_MISSING: Final = (
    "mode Distributed needs a policy, because without one each cluster would run up to maxReplicas: write "
    "spec.federatedHPAAssignment.federatedHPAAssignmentType, such as StaticWeighted for equal parts, or "
    "Duplicated for maxReplicas in each cluster"
)
MAX_NAMED: Final = 8


class Removal(Protocol):
    """Removes what mode Distributed wrote for a FederatedHPA."""

    async def remove(
        self, key: Key, raw: Mapping[str, Any], state: MemoryState, *, overdue: bool
    ) -> dict[str, str]:
        """Remove it. Returns the reason by cluster where something may remain.

        `state` names the clusters that may have our HPA. With `overdue` no cluster is waited for.
        """

    def report_unregistered(
        self, key: Key, raw: Mapping[str, Any], before: MemoryState, after: MemoryState
    ) -> None:
        """Report clusters that were unregistered with our HPA in them; `after` has them no more."""


class Removed(Protocol):
    """The memory of an object whose HPAs are removed.

    `leaving_since` is since when they are to be removed, in POSIX seconds, None if they are not.
    """

    state: MemoryState
    leaving_since: float | None


class ModeChanges:
    """The way out of mode Distributed. `deadline` are the seconds of one request to the hub."""

    def __init__(
        self, hub: ApiClient, removal: Removal, deadline: float, lost_after: float, *, writes: bool
    ) -> None:
        self._hub = hub
        self._removal = removal
        self._deadline = deadline
        self._lost_after = lost_after
        self._writes = writes

    async def delete(self, key: Key, raw: Mapping[str, Any], memory: Removed, now: float) -> None:
        """Remove the member HPAs of an object that is being deleted, then its finalizer.

        Until all are gone, or their clusters past the lost time-out, the finalizer stays. Raises FedHPAError
        if the hub refuses to remove it. With --pause it waits, because nothing may be written.
        """
        if not self._writes:
            if memory.leaving_since is None:
                memory.leaving_since = now
                log.warning("deletion waits", namespace=key[0], name=key[1], remedy=DELETION_WAITS)
            return
        since = datetime.fromisoformat(raw["metadata"]["deletionTimestamp"]).timestamp()
        overdue = now - since >= self._lost_seconds(raw)
        left = await self._removal.remove(key, raw, memory.state, overdue=overdue)
        if left:
            log.info("deletion waits for members", namespace=key[0], name=key[1], clusters=left)
            return
        await set_finalizer(self._hub, raw, self._deadline, wanted=False)

    async def blocked(
        self, key: Key, raw: Mapping[str, Any], memory: Removed, now: float, *, found: bool
    ) -> Blocked | None:
        """Returns why an object of another mode than Distributed must not be scaled yet; None if it may be.

        `found` is True if members have our HPAs of its name. An object with the finalizer had them. An absent
        mode holds them, because the hub may have dropped the field. Mode Centralized removes them.
        """
        mode = (raw.get("spec") or {}).get("mode")
        if mode == DISTRIBUTED or not (found or has_finalizer(raw)):
            memory.leaving_since = None
            return None
        if not mode:
            return Blocked(HELD, _held(key), condition=ASSIGNED)
        if not self._writes:
            return Blocked(REMOVING, "the member HPAs are removed once --pause ends", condition=ASSIGNED)
        if (raw.get("spec") or {}).get("dryRun") is True:
            return Blocked(REMOVING, DRY_RUN, condition=ASSIGNED)
        since = memory.leaving_since = now if memory.leaving_since is None else memory.leaving_since
        overdue = now - since >= self._lost_seconds(raw)
        left = await self._removal.remove(key, raw, memory.state, overdue=overdue)
        if not left:
            return None
        named = "; ".join(f"{name}: {reason}" for name, reason in sorted(left.items())[:MAX_NAMED])
        more = f"; and {len(left) - MAX_NAMED} more" if len(left) > MAX_NAMED else ""
        message = f"nothing is scaled until the member HPAs of mode Distributed are removed: {named}{more}"
        return Blocked(REMOVING, message, condition=ASSIGNED)

    def report_unregistered(
        self, key: Key, raw: Mapping[str, Any], before: MemoryState, after: MemoryState
    ) -> None:
        """Report clusters that were unregistered with our HPA in them; `after` has them no more."""
        self._removal.report_unregistered(key, raw, before, after)

    def leaves(self, raw: Mapping[str, Any]) -> bool:
        """True if the object left mode Distributed and still has the finalizer."""
        return has_finalizer(raw) and (raw.get("spec") or {}).get("mode") not in (None, "", DISTRIBUTED)

    async def finish(self, key: Key, raw: Mapping[str, Any]) -> None:
        """Remove the finalizer of an object that left mode Distributed. A refusal is only logged."""
        try:
            await set_finalizer(self._hub, raw, self._deadline, wanted=False)
        except FedHPAError as error:
            log.warning("finalizer not removed", namespace=key[0], name=key[1], error=str(error))

    def _lost_seconds(self, raw: Mapping[str, Any]) -> float:
        partial = (raw.get("spec") or {}).get("partialMetrics")
        own = partial.get("lostAfterSeconds") if isinstance(partial, Mapping) else None
        valid = isinstance(own, int | float) and not isinstance(own, bool) and own > 0
        return float(own) if valid and own is not None else self._lost_after


def _held(key: Key) -> str:
    return (
        f"spec.mode is absent, but {key[0]}/{key[1]} has member HPAs of mode Distributed: nothing is "
        "written. Set spec.mode to Distributed or Centralized. If your manifest sets it, the hub's CRD drops "
        "the field: install the CRDs of this release"
    )
