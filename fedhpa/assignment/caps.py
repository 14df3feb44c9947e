"""Full clusters are remembered, so that a share does not come and go while a cluster has no room.

While pods are pending in a cluster, it gets no more than what runs there. Then no pod is pending, and without
a memory the cluster would get its share back at once. Source: docs/explanation/distributed.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from fedhpa.assignment.shares import MemberState
from fedhpa.assignment.state import MAX_CAP_MINUTES, NO_STATE, Cap, States

# The doubling is forgotten if no pod is pending for this long after the memory ended.
_RESET_SECONDS: Final = 30 * 60
# The memory ends early if a cluster reports room in this many passes without a break.
_ROOM_PASSES: Final = 2


@dataclass(frozen=True, slots=True)
class Caps:
    """The next state, the size of each remembered full cluster, and the reasons of what changed."""

    states: States
    sizes: Mapping[str, int]
    reasons: tuple[str, ...]


def caps(states: States, members: Iterable[MemberState], now: float) -> Caps:
    """Returns which clusters are full. Unreachable clusters keep their state; their memory still ends."""
    found, sizes, reasons = dict(states), {}, []
    for member in members:
        state = states.get(member.cluster, NO_STATE)
        cap = _next(state.cap, member, now) if member.reachable else state.cap
        if cap != state.cap:
            found[member.cluster] = replace(state, cap=cap)
            reason = _reason(state.cap, cap, now)
            if reason:
                reasons.append(f"{member.cluster}: {reason}")
        if cap is not None and cap.holds(now):
            sizes[member.cluster] = cap.replicas
    return Caps(found, sizes, tuple(reasons))


def _next(cap: Cap | None, member: MemberState, now: float) -> Cap | None:
    if member.pending:
        return _while_pending(cap, member, now)
    if cap is None:
        return None
    if cap.until is None:
        return replace(cap, until=now + cap.minutes * 60, room_seen=0)
    if now >= cap.until:
        return cap if now < cap.until + _RESET_SECONDS else None
    if member.capacity is None or cap.ended_early:
        return cap
    seen = cap.room_seen + 1 if member.capacity > member.running else 0
    if seen < _ROOM_PASSES:
        return replace(cap, room_seen=seen)
    return replace(cap, until=now, room_seen=0, ended_early=True)


def _while_pending(cap: Cap | None, member: MemberState, now: float) -> Cap:
    if cap is None:
        return Cap(replicas=member.running, since=now)
    if cap.until is None:
        return cap if cap.replicas >= member.running else replace(cap, replicas=member.running)
    # Pods that become pending within the memory do not show that it was too short.
    minutes = cap.minutes if cap.holds(now) else min(cap.minutes * 2, MAX_CAP_MINUTES)
    return replace(cap, replicas=member.running, since=now, until=None, minutes=minutes, room_seen=0)


def _reason(before: Cap | None, cap: Cap | None, now: float) -> str:
    if cap is None:
        return ""
    if cap.until is None:
        if before is None or before.until is not None:
            return f"pods are pending, so it gets no more than the {cap.replicas} replicas that run"
        return ""
    if before is None or before.until is None:
        return f"no pod is pending, its {cap.replicas} replicas stay its limit for {cap.minutes} minutes"
    return "it reports room, so its limit ends" if cap.until == now else ""
