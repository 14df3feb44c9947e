"""When changes of the size by other clients are a conflict, and when that is over."""

from __future__ import annotations

import pytest

from fedhpa.decision import MemoryState, Resets, SizeChange, resets_after
from fedhpa.decision.record.memory import decode_memory, encode_memory

CHANGE = SizeChange(left=12, found=3, cluster="m1", by="helm")
NOW = 1_800_000_000.0


def after(*changes_at: float, now: float) -> Resets | None:
    """The state at `now` of a controller that reconciles every 15 seconds."""
    known: Resets | None = None
    at, waiting = 0.0, sorted(changes_at)
    while at <= now:
        change = None
        if waiting and waiting[0] <= at:
            waiting.pop(0)
            change = CHANGE
        known = resets_after(known, change, NOW + at)
        at += 15
    return known


@pytest.mark.parametrize(
    ("changes", "now", "conflict"),
    [
        ((0,), 0, False),
        ((0, 300), 300, False),
        ((0, 300, 585), 585, True),
        ((0, 300, 600), 600, False),
        ((0, 240, 480), 900, True),
        ((0, 240, 480), 1065, True),
        ((0, 240, 480), 1080, False),
        ((0, 240, 480, 1065), 1650, True),
        ((0, 240, 480, 1065), 1665, False),
    ],
)
def test_three_changes_within_ten_minutes_are_a_conflict(
    changes: tuple[float, ...], now: float, conflict: bool
) -> None:
    """It lasts until nothing has changed for ten minutes."""
    known = after(*changes, now=now)

    assert (known is not None and known.is_conflict) is conflict


def test_old_changes_are_forgotten() -> None:
    """Ten minutes after a single change nothing of it is left."""
    assert after(0.0, now=585.0) is not None
    assert after(0.0, now=600.0) is None


def test_time_of_a_leader_whose_clock_was_ahead_counts_as_now() -> None:
    """A change in the future does not keep a conflict for longer than ten minutes."""
    ahead = Resets((NOW + 5000, NOW + 5000, NOW + 5000), CHANGE)

    known = resets_after(ahead, None, NOW)

    assert known is not None
    assert known.times == (NOW, NOW, NOW)
    assert resets_after(known, None, NOW + 600) is None


def test_conflict_is_in_the_record() -> None:
    """The memory of a conflict is read as it was written."""
    state = MemoryState(resets=Resets((NOW, NOW + 5), CHANGE))

    assert encode_memory(state)["resets"] == {
        "times": [NOW, NOW + 5],
        "last": {"left": 12, "found": 3, "cluster": "m1", "by": "helm"},
    }
    assert decode_memory(encode_memory(state)) == state
