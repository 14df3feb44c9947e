"""Bounds of member HPAs are written in an order that a failed write cannot turn into too many replicas."""

from __future__ import annotations

from typing import Any

import pytest

from fedhpa.assignment import Bounds
from fedhpa.assignment.writes import Outcome, Result, Sent, SetBounds

Pairs = dict[str, tuple[int, int] | None]
Step = dict[str, tuple[int, int] | None]


def next_writes(*args: Any, **more: Any) -> tuple[SetBounds, ...]:
    """The writes that may be sent now."""
    return Sent(*args, **more).next()


def bounds(pairs: Pairs) -> dict[str, Bounds | None]:
    """Returns bounds of pairs of minimum and maximum."""
    return {
        cluster: None if pair is None else Bounds(minimum=pair[0], maximum=pair[1])
        for cluster, pair in pairs.items()
    }


def steps(total: int | None, present: Pairs, wanted: Pairs, **results: Result) -> list[Step]:
    """Returns the writes of a pass, step by step. `results` has the clusters whose writes fail."""
    outcomes: list[Outcome] = []
    found = []
    while sent := next_writes(total, bounds(present), bounds(wanted), outcomes):
        found.append({write.cluster: pair(write) for write in sent})
        outcomes += [
            Outcome(write=write, result=results.get(write.cluster, Result.CONFIRMED)) for write in sent
        ]
        assert len(found) < 20
    return found


def pair(write: SetBounds) -> tuple[int, int] | None:
    """Returns the bounds that a write leaves."""
    return None if write.after is None else (write.after.minimum, write.after.maximum)


REFUSED, UNKNOWN = Result.REFUSED, Result.UNKNOWN
Case = tuple[int | None, Pairs, Pairs, dict[str, Result], list[Step]]
# The total, the present and the wanted bounds, the writes that fail, and all writes in their order.
CASES: dict[str, Case] = {
    "equal bounds are not written": (9, {"a": (1, 4), "b": None}, {"a": (1, 4), "b": None}, {}, []),
    "a maximum rises after the others were confirmed to be lower": (
        12, {"a": (1, 8), "b": (1, 4)}, {"a": (1, 5), "b": (1, 7)}, {}, [{"a": (1, 5)}, {"b": (1, 7)}],
    ),
    "below the total a maximum rises at once, and a new HPA is created": (
        12, {"a": (1, 4), "b": None}, {"a": (1, 7), "b": (1, 5)}, {}, [{"a": (1, 7), "b": (1, 5)}],
    ),
    "another cluster's minimum rises before one falls": (
        12, {"a": (5, 6), "b": (1, 6)}, {"a": (1, 6), "b": (5, 6)}, {}, [{"b": (5, 6)}, {"a": (1, 6)}],
    ),
    "where no minimum has to rise before, a cluster is written once": (
        9, {"a": (4, 8), "b": (1, 1)}, {"a": (2, 4), "b": (1, 1)}, {}, [{"a": (2, 4)}],
    ),
    "a maximum below the minimum takes it along": (
        10, {"a": (6, 8), "b": (1, 2)}, {"a": (1, 3), "b": (6, 7)}, {},
        [{"a": (3, 3)}, {"b": (6, 7)}, {"a": (1, 3)}],
    ),
    "an HPA is deleted before others rise": (
        12, {"a": (1, 6), "b": (1, 6)}, {"a": None, "b": (1, 12)}, {}, [{"a": None}, {"b": (1, 12)}],
    ),
    "its maximum counts until the deletion is confirmed": (
        12, {"a": (1, 6), "b": (1, 6)}, {"a": None, "b": (1, 12)}, {"a": UNKNOWN}, [{"a": None}],
    ),
    "an unreachable cluster counts": (12, {"gone": (1, 6), "b": (1, 6)}, {"b": (1, 12)}, {}, []),
    "its maximum is not given away": (
        12, {"gone": (1, 6), "b": (1, 3)}, {"b": (2, 12)}, {}, [{"b": (2, 6)}],
    ),
    "above the total no minimum rises above it": (
        8, {"gone": (3, 9), "b": (1, 6)}, {"b": (6, 6)}, {}, [{"b": (5, 6)}],
    ),
    "Duplicated has no total, so each cluster is written at once": (
        None, {"a": (1, 5), "b": (1, 5)}, {"a": (3, 10), "b": (3, 10)}, {}, [{"a": (3, 10), "b": (3, 10)}],
    ),
    "clusters that should rise share the confirmed room in proportion": (
        17,
        {"a": (1, 8), "b": (1, 2), "c": (1, 2), "d": (1, 4)},
        {"a": (1, 1), "b": (1, 8), "c": (1, 6), "d": (1, 1)},
        {"a": REFUSED},
        [{"a": (1, 1), "d": (1, 1)}, {"b": (1, 5), "c": (1, 3)}],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_writes_have_an_order(case: str) -> None:
    """Maxima fall before others rise, and minima rise before others fall."""
    total, present, wanted, results, expected = CASES[case]

    assert steps(total, present, wanted, **results) == expected


LOWERED: tuple[Pairs, Pairs] = (
    {"a": (1, 6), "b": (1, 4), "c": (1, 2)},
    {"a": (1, 3), "b": (1, 3), "c": (1, 6)},
)
RAISED: tuple[Pairs, Pairs] = (
    {"a": (1, 2), "b": (1, 2), "c": (1, 6)},
    {"a": (1, 6), "b": (1, 6), "c": (1, 6)},
)
MINIMA: tuple[Pairs, Pairs] = (
    {"a": (5, 6), "b": (1, 6), "c": (1, 6)},
    {"a": (1, 6), "b": (3, 6), "c": (3, 6)},
)


@pytest.mark.parametrize(
    ("total", "bounds", "results", "expected"),
    [
        (12, LOWERED, {"a": REFUSED}, [{"a": (1, 3), "b": (1, 3)}, {"c": (1, 3)}]),
        (12, LOWERED, {"a": UNKNOWN}, [{"a": (1, 3), "b": (1, 3)}, {"c": (1, 3)}]),
        (12, LOWERED, {"a": REFUSED, "b": REFUSED}, [{"a": (1, 3), "b": (1, 3)}]),
        (12, RAISED, {"a": REFUSED}, [{"a": (1, 3), "b": (1, 3)}, {"b": (1, 4)}]),
        (12, RAISED, {"a": UNKNOWN}, [{"a": (1, 3), "b": (1, 3)}]),
        (18, MINIMA, {"b": REFUSED}, [{"b": (3, 6), "c": (3, 6)}, {"a": (3, 6)}]),
        (18, MINIMA, {"b": UNKNOWN}, [{"b": (3, 6), "c": (3, 6)}, {"a": (3, 6)}]),
    ],
)
def test_a_failed_write_leaves_its_room_only_where_it_is_certain(
    total: int, bounds: tuple[Pairs, Pairs], results: dict[str, Result], expected: list[Step]
) -> None:
    """A maximum whose lowering is not confirmed is not given away, and an unknown raise keeps its room.

    The sum of the minima falls no further than wanted.
    """
    present, wanted = bounds

    assert steps(total, present, wanted, **results) == expected


def test_room_that_a_late_write_may_take_is_not_given_away() -> None:
    """The unconfirmed raise to 8 counts until the present bounds are confirmed."""
    present, wanted = bounds({"a": (1, 4), "b": (1, 4)}), bounds({"b": (1, 8)})
    (again,) = next_writes(12, present, wanted, again={"a": 8})
    failed = [Outcome(write=again, result=Result.UNKNOWN)]
    done = [Outcome(write=again, result=Result.CONFIRMED)]
    (raised,) = next_writes(12, present, wanted, done, again={"a": 8})

    assert (again.cluster, again.after) == ("a", Bounds(minimum=1, maximum=4))
    assert next_writes(12, present, wanted, failed, again={"a": 8}) == ()
    assert (raised.cluster, raised.after) == ("b", Bounds(minimum=1, maximum=8))


def test_a_write_tells_what_it_replaces() -> None:
    """The bounds before are those that were confirmed last."""
    present = bounds({"a": (6, 8), "b": None})
    wanted = bounds({"a": (1, 3), "b": (5, 5)})
    (lowered,) = next_writes(8, present, wanted)
    (created,) = next_writes(8, present, wanted, [Outcome(write=lowered, result=Result.CONFIRMED)])

    assert lowered == SetBounds(
        cluster="a", before=Bounds(minimum=6, maximum=8), after=Bounds(minimum=3, maximum=3)
    )
    assert created == SetBounds(cluster="b", before=None, after=Bounds(minimum=5, maximum=5))
