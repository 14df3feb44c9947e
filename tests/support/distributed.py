"""Members of mode Distributed as the pure functions of fedhpa.assignment take them."""

from __future__ import annotations

from collections.abc import Sequence

from fedhpa.assignment.assist import Assistance, assist
from fedhpa.assignment.policies import Policy
from fedhpa.assignment.shares import MemberState
from fedhpa.assignment.state import States

NOW = 1_800_000_000.0


def lacking(deficit: int, cluster: str = "short", **fields: object) -> MemberState:
    """A cluster at its highest maximum, 4, whose HPA would ask for `deficit` more."""
    given = {"minimum": 1, "maximum": 4, "running": 4, "high": 4, "need": 4 + deficit, **fields}
    return MemberState(cluster=cluster, **given)  # type: ignore[arg-type]


def helper(cluster: str, room: int, **fields: object) -> MemberState:
    """A cluster with 1 of 1 + `room` replicas."""
    given = {"minimum": 1, "maximum": 1 + room, "running": 1, **fields}
    return MemberState(cluster=cluster, **given)  # type: ignore[arg-type]


def assisted(
    members: Sequence[MemberState],
    policy: Policy = None,
    states: States | None = None,
    *,
    now: float = NOW,
    settled: dict[str, int] | None = None,
    step: int = 1,
) -> Assistance:
    """One pass of scale assist."""
    return assist(states or {}, members, policy, step, now, settled or {})
