"""The changes of a FederatedHPA's status that are worth a write.

Changes that a person would act on are written at once, and so is history that a later decision depends on.
Other changes are written at most once a minute. If only times change, one write in ten minutes is enough
(docs/reference/federatedhpa.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from fedhpa.decision import History, ScaleEvent, ScalingSpec

QUIET_SECONDS: Final = 60.0
# For a status in which only times differ: shows that the controller still works.
STILL_SECONDS: Final = 600.0

# The fields that a person acts on, by level. Usage and times beside them change at every reconcile.
TOP_FIELDS: Final = (
    "currentReplicas",
    "desiredReplicas",
    "observedGeneration",
    "lastScaleTime",
    "assignedFor",
)
CONDITION_FIELDS: Final = ("type", "status", "reason")
CLUSTER_FIELDS: Final = (
    "name", "state", "currentReplicas", "desiredReplicas", "minReplicas", "maxReplicas",
    # Mode Distributed: a restart that forgot these would assign other bounds.
    "given", "held", "cap", "lost",
)  # fmt: skip


class Windows(NamedTuple):
    """The stabilization windows of an object in seconds."""

    up: float
    down: float

    @classmethod
    def of(cls, spec: ScalingSpec, default_down: float) -> Windows:
        """The windows that a spec sets; `default_down` is the controller's."""
        if spec.behavior is None:
            return cls(0.0, default_down)
        down = spec.behavior.scale_down.stabilization_seconds
        return cls(spec.behavior.scale_up.stabilization_seconds or 0, default_down if down is None else down)


@dataclass
class Unstored:
    """The history of an object that its status does not have yet.

    A restart knows the stored history and takes the `last` stored recommendation as repeated until then
    (controller.federatedhpa.memory). It would forget only the recommendations since then that are higher or
    lower than `last`, and scale events other than `events`.
    """

    last: int | None = None
    highest: int | None = None
    lowest: int | None = None
    events: tuple[tuple[ScaleEvent, ...], tuple[ScaleEvent, ...]] = ((), ())

    @classmethod
    def of(cls, stored: History) -> Unstored:
        """The state after a status with this history was written or restored."""
        return cls(last=_newest(stored), events=(stored.scale_ups, stored.scale_downs))

    def note(self, history: History) -> None:
        """Count the newest recommendation of a history that is not stored yet."""
        newest = _newest(history)
        if newest is not None:
            self.highest = newest if self.highest is None else max(self.highest, newest)
            self.lowest = newest if self.lowest is None else min(self.lowest, newest)

    def differs(self, history: History) -> bool:
        """True if a restart would take another size than the newest as the last recommendation."""
        return self.last != _newest(history)

    def matters(self, history: History, windows: Windows) -> bool:
        """True if a later decision could be another one after a restart."""
        if self.events != (history.scale_ups, history.scale_downs):
            return True
        if self.last is None or self.highest is None or self.lowest is None:
            return False
        return (windows.down > 0 and self.highest > self.last) or (windows.up > 0 and self.lowest < self.last)


def _newest(history: History) -> int | None:
    if not history.recommendations:
        return None
    return max(history.recommendations, key=lambda entry: entry.time).replicas


def worth_writing(
    stored: Mapping[str, Any] | None,
    wanted: Mapping[str, Any],
    written_at: float,
    now: float,
    *,
    would_be_forgotten: bool = False,
) -> bool:
    """True if `wanted` should replace the `stored` status; `written_at` is our last write, POSIX seconds.

    With `would_be_forgotten`, a restart would not know something that a later decision depends on.
    """
    if stored is None or would_be_forgotten:
        return True
    # A status of ours has a decision. If the stored one has none, the hub's CRD drops fields, and will again.
    dropped = "decision" not in stored and written_at != float("-inf")
    kept = {key: value for key, value in wanted.items() if key in stored} if dropped else wanted
    if _essence(stored) != _essence(kept):
        return True
    # The clock of a former leader may have been ahead of ours.
    waited = abs(now - written_at)
    if waited < QUIET_SECONDS or stored == wanted:
        return False
    return waited >= STILL_SECONDS or _without_times(stored) != _without_times(kept)


def _essence(status: Mapping[str, Any]) -> tuple[Any, ...]:
    """The parts of a status that a person acts on."""
    return (
        tuple(status.get(name) for name in TOP_FIELDS),
        _rows(status.get("conditions"), CONDITION_FIELDS),
        _rows(status.get("clusters"), CLUSTER_FIELDS),
        _explanation(status.get("decision")),
    )


def _without_times(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """The status without the fields that change although nothing happens: times, and the history.

    A proposal that differs shows in the decision's metrics and steps too, so no change is lost.
    """
    clusters = [{**entry, "lastSeen": None} for entry in status.get("clusters") or ()]
    decision = status.get("decision")
    if isinstance(decision, Mapping):
        decision = {**decision, "time": None, "history": None}
    return {**status, "clusters": clusters, "decision": decision}


def _explanation(decision: Any) -> tuple[Any, ...]:
    """The reason up to a colon (details of an absence may vary), the error, and the steps that had an effect.

    Words with digits are left out of the error: names of pods, numbers and times vary without a new cause.
    """
    if not isinstance(decision, Mapping):
        return ()
    reason = str(decision.get("reason") or "").partition(":")[0]
    steps = decision.get("steps")
    effective = tuple(
        step.get("step")
        for step in (steps if isinstance(steps, list) else ())
        if isinstance(step, Mapping) and step.get("from") != step.get("to")
    )
    words = str(decision.get("error") or "").split()
    error = tuple(word for word in words if not any(letter.isdigit() for letter in word))
    return reason, error, decision.get("rescale"), decision.get("moved"), effective, decision.get("rebalance")


def _rows(entries: Sequence[Mapping[str, Any]] | None, fields: Sequence[str]) -> tuple[Any, ...]:
    return tuple(tuple(entry.get(name) for name in fields) for entry in entries or ())
