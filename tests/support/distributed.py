"""Members of mode Distributed as the pure functions of fedhpa.assignment take them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from fedhpa.assignment import Bounds, ClusterState, Member, Plan, Previous, Rules

NOW = 1_800_000_000.0
HASH = "0123456789abcdef"
LONG_PINNED = 600.0


def member(running: int, cluster: str = "", least: int | None = 1, **fields: Any) -> Member:
    """A cluster whose metrics ask for what runs, or for `now`; it is pinned where it has a `need`."""
    need, now = fields.pop("need", None), fields.pop("now", running)
    pinned = fields.pop("pinned", LONG_PINNED if need is not None else None)
    return Member(
        cluster=cluster,
        minimum=least,
        running=running,
        ready=fields.pop("ready", running),
        load=Fraction(now if need is None else need),
        pinned_for=pinned,
        **fields,
    )


def named(members: Sequence[Member]) -> list[Member]:
    """The clusters with the names m1, m2, ..."""
    return [replace(one, cluster=f"m{i}") for i, one in enumerate(members, 1)]


def hpa(bounds: tuple[int, int] | None, running: int, **fields: Any) -> Member:
    """A cluster whose HPA has the bounds that were assigned."""
    written = None if bounds is None else Bounds(minimum=bounds[0], maximum=bounds[1])
    known = {"written": written, "maximum": 0 if bounds is None else bounds[1], **fields}
    return member(running, least=None if bounds is None else bounds[0], **known)


def rules(maximum: int = 12, **fields: Any) -> Rules:
    """The FederatedHPA."""
    return Rules(**{"minimum": 1, "maximum": maximum, "assigned_for": HASH, **fields})


def assigned(members: Sequence[Member], maximum: int = 12, **fields: Any) -> Previous:
    """The pass before, which assigned what the members have."""
    states = {one.cluster: ClusterState(minimum=one.minimum, maximum=one.maximum or None) for one in members}
    return Previous(states=states, assigned_for=f"{HASH}/{maximum}", **fields)


def applied(members: Sequence[Member], made: Plan) -> list[Member]:
    """The same clusters after all writes succeeded, as the next pass reads them."""
    after = []
    for one in members:
        state, goal = made.left.states[one.cluster], made.goals[one.cluster]
        running = made.scales.get(one.cluster, one.running)
        if goal is not None and running:
            running = min(max(running, goal.minimum), goal.maximum)
        after.append(
            replace(
                one,
                minimum=state.minimum,
                maximum=state.maximum or 0,
                written=goal,
                running=running,
                ready=min(one.ready, running) if running < one.running else running,
                back=False,
                was_stuck=one.stuck,
            )
        )
    return after


def bounds(made: Plan) -> list[tuple[int, int] | None]:
    """The goals of all clusters, in order."""
    return [None if one is None else (one.minimum, one.maximum) for one in made.goals.values()]


def maxima(made: Plan) -> list[int]:
    """The maxima of all clusters, 0 without an HPA."""
    return [0 if one is None else one.maximum for one in made.goals.values()]
