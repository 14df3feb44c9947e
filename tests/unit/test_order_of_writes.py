"""Bounds of member HPAs are written in an order that a failed write cannot turn into too many replicas."""

from __future__ import annotations

from typing import Any

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


def test_equal_bounds_are_not_written() -> None:
    """Without a difference there is no write."""
    assert steps(9, {"a": (1, 4), "b": None}, {"a": (1, 4), "b": None}) == []


def test_lower_first_then_raise() -> None:
    """A maximum rises after the others were confirmed to be lower."""
    found = steps(12, {"a": (1, 8), "b": (1, 4)}, {"a": (1, 5), "b": (1, 7)})

    assert found == [{"a": (1, 5)}, {"b": (1, 7)}]


def test_free_room_needs_no_lowering() -> None:
    """Below the total a maximum rises at once, and a new HPA is created."""
    assert steps(12, {"a": (1, 4), "b": None}, {"a": (1, 7), "b": (1, 5)}) == [{"a": (1, 7), "b": (1, 5)}]


def test_a_refused_lowering_limits_the_raise() -> None:
    """Only what was confirmed lowered is given to others."""
    present: Pairs = {"a": (1, 6), "b": (1, 4), "c": (1, 2)}
    wanted: Pairs = {"a": (1, 3), "b": (1, 3), "c": (1, 6)}

    assert steps(12, present, wanted, a=Result.REFUSED) == [{"a": (1, 3), "b": (1, 3)}, {"c": (1, 3)}]
    assert steps(12, present, wanted, a=Result.UNKNOWN) == [{"a": (1, 3), "b": (1, 3)}, {"c": (1, 3)}]
    assert steps(12, present, wanted, a=Result.REFUSED, b=Result.REFUSED) == [{"a": (1, 3), "b": (1, 3)}]


def test_scarce_room_is_divided() -> None:
    """Clusters that should rise share the confirmed room in proportion."""
    present: Pairs = {"a": (1, 8), "b": (1, 2), "c": (1, 2), "d": (1, 4)}
    wanted: Pairs = {"a": (1, 1), "b": (1, 8), "c": (1, 6), "d": (1, 1)}

    assert steps(17, present, wanted, a=Result.REFUSED)[1:] == [{"b": (1, 5), "c": (1, 3)}]


def test_a_refused_raise_leaves_its_room_to_others() -> None:
    """An unknown outcome keeps the room."""
    present: Pairs = {"a": (1, 2), "b": (1, 2), "c": (1, 6)}
    wanted: Pairs = {"a": (1, 6), "b": (1, 6), "c": (1, 6)}

    assert steps(12, present, wanted, a=Result.REFUSED) == [{"a": (1, 3), "b": (1, 3)}, {"b": (1, 4)}]
    assert steps(12, present, wanted, a=Result.UNKNOWN) == [{"a": (1, 3), "b": (1, 3)}]


def test_minima_are_lowered_last() -> None:
    """Another cluster's minimum rises before."""
    found = steps(12, {"a": (5, 6), "b": (1, 6)}, {"a": (1, 6), "b": (5, 6)})

    assert found == [{"b": (5, 6)}, {"a": (1, 6)}]


def test_a_minimum_whose_replacement_failed_stays() -> None:
    """The sum of the minima falls no further than wanted."""
    present: Pairs = {"a": (5, 6), "b": (1, 6), "c": (1, 6)}
    wanted: Pairs = {"a": (1, 6), "b": (3, 6), "c": (3, 6)}

    assert steps(18, present, wanted, b=Result.REFUSED) == [{"b": (3, 6), "c": (3, 6)}, {"a": (3, 6)}]
    assert steps(18, present, wanted, b=Result.UNKNOWN) == [{"b": (3, 6), "c": (3, 6)}, {"a": (3, 6)}]


def test_one_write_lowers_both() -> None:
    """If no minimum has to rise before, a cluster is written once."""
    assert steps(9, {"a": (4, 8), "b": (1, 1)}, {"a": (2, 4), "b": (1, 1)}) == [{"a": (2, 4)}]


def test_a_minimum_falls_with_its_maximum() -> None:
    """A maximum below the minimum takes it along, even if another minimum rises later."""
    found = steps(10, {"a": (6, 8), "b": (1, 2)}, {"a": (1, 3), "b": (6, 7)})

    assert found == [{"a": (3, 3)}, {"b": (6, 7)}, {"a": (1, 3)}]


def test_an_hpa_is_deleted_before_others_rise() -> None:
    """Its maximum counts until the deletion is confirmed."""
    present: Pairs = {"a": (1, 6), "b": (1, 6)}
    wanted: Pairs = {"a": None, "b": (1, 12)}

    assert steps(12, present, wanted) == [{"a": None}, {"b": (1, 12)}]
    assert steps(12, present, wanted, a=Result.UNKNOWN) == [{"a": None}]


def test_a_cluster_that_keeps_its_bounds_counts() -> None:
    """An unreachable cluster is in no write, and its maximum is not given away."""
    assert steps(12, {"gone": (1, 6), "b": (1, 6)}, {"b": (1, 12)}) == []
    assert steps(12, {"gone": (1, 6), "b": (1, 3)}, {"b": (2, 12)}) == [{"b": (2, 6)}]


def test_above_the_total_no_minimum_rises_above_it() -> None:
    """While an unreachable cluster holds too much, minima rise only up to the total together."""
    assert steps(8, {"gone": (3, 9), "b": (1, 6)}, {"b": (6, 6)}) == [{"b": (5, 6)}]


def test_duplicated_has_no_total() -> None:
    """Nothing is divided, so each cluster is written at once; what falls is written before what rises."""
    assert steps(None, {"a": (1, 5), "b": (1, 5)}, {"a": (3, 10), "b": (3, 10)}) == [
        {"a": (3, 10), "b": (3, 10)}
    ]


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
