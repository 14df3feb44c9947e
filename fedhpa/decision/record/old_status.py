"""The memory of old scenarios, which hold it in `federatedHPA.status`. Only `fedhpa replay` reads it there.

A part that cannot be read is absent: another program may have written the status.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fedhpa.api.free_json import time_at
from fedhpa.api.json import InvalidJson, convert_json
from fedhpa.assignment import NO_STATE, ClusterState
from fedhpa.decision.memory import ANSWERED_STATES, Absence, ClusterMemory, MemoryState, Rebalance
from fedhpa.decision.snapshot import StoredStatus

JSON = object


def memory_of(status: StoredStatus) -> MemoryState:
    """Returns the memory in a status, without its history, which replays never read there."""
    decision = status.decision if isinstance(status.decision, Mapping) else {}
    wrote = decision.get("rescale") is True or decision.get("moved") is True
    decided = _number(decision.get("desiredReplicas" if wrote else "currentReplicas"))
    size = (status.desired_replicas if wrote else status.current_replicas) if decided is None else decided
    entries = status.entries
    return MemoryState(
        size=size,
        absences=_absences(decision.get("absences"), entries),
        rebalance=_rebalance(decision.get("rebalance")),
        clusters={name: _cluster(entry, wrote=wrote) for name, entry in entries.items()},
        assigned_for=status.assigned_for if isinstance(status.assigned_for, str) else "",
    )


def _cluster(entry: Mapping[str, JSON], *, wrote: bool) -> ClusterMemory:
    # After a write, currentReplicas is the share before it and desiredReplicas the share after it.
    written = _number(entry.get("desiredReplicas")) if wrote else None
    state = entry.get("state")
    return ClusterMemory(
        replicas=_number(entry.get("currentReplicas")) if written is None else written,
        state=state if isinstance(state, str) else "",
        seen=time_at(entry.get("lastSeen")),
        scaled=time_at(entry.get("lastScaleTime")),
        assignment=_assignment(entry),
    )


def _assignment(entry: Mapping[str, JSON]) -> ClusterState:
    zero = entry.get("zero")
    return _readable(
        {
            "minimum": entry.get("minReplicas"),
            "maximum": entry.get("maxReplicas"),
            "lost": entry.get("lost"),
            "zeroSince": time_at(zero.get("since")) if isinstance(zero, Mapping) else None,
            "idleSince": time_at(entry.get("idleSince")),
        }
    )


def _readable(found: Mapping[str, JSON]) -> ClusterState:
    """Returns the state of the fields that can be read."""
    kept = _present(found)
    for name in list(kept):
        try:
            convert_json({name: kept[name]}, ClusterState)
        except InvalidJson:
            del kept[name]
    state: ClusterState = convert_json(kept, ClusterState)
    return NO_STATE if state == NO_STATE else state  # only the default itself is left out of JSON


def _absences(raw: JSON, entries: Mapping[str, Mapping[str, JSON]]) -> dict[str, Absence]:
    """Returns the clocks of lost clusters. One that the decision has no clock for is lost since lastSeen."""
    found: dict[str, Absence] = {}
    for cluster, entry in raw.items() if isinstance(raw, Mapping) else ():
        fields = entry if isinstance(entry, Mapping) else {}
        since, answered = time_at(fields.get("since")), fields.get("answeredSeconds")
        if since is not None:
            seconds = float(answered) if isinstance(answered, int | float) and answered >= 0 else 0.0
            clock = Absence(since, time_at(fields.get("back")))
            # A number that equals the default is left out of JSON only if it is not set.
            found[str(cluster)] = msgspec.structs.replace(clock, answered=seconds) if seconds else clock
    for cluster, entry in entries.items():
        seen = time_at(entry.get("lastSeen"))
        state = entry.get("state")
        answered_last = isinstance(state, str) and state in ANSWERED_STATES
        if seen is not None and not answered_last:
            found.setdefault(cluster, Absence(seen))
    return found


def _rebalance(raw: JSON) -> Rebalance | None:
    if not isinstance(raw, Mapping):
        return None
    try:
        return convert_json({**raw, "since": time_at(raw.get("since"))}, Rebalance)
    except InvalidJson:
        return None


def _present(fields: Mapping[str, JSON]) -> dict[str, JSON]:
    return {name: value for name, value in fields.items() if value is not None}


def _number(value: JSON) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
