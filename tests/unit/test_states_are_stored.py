"""The record keeps every field of the state of mode Distributed."""

from __future__ import annotations

import msgspec

from fedhpa.assignment.state import Cap, ClusterState
from tests.support.distributed import NOW

FULL = ClusterState(
    minimum=1,
    maximum=2,
    given=3,
    given_since=NOW,
    given_share=4,
    ready_since=NOW,
    deficit_before=5,
    ineffective_since=NOW,
    held=6,
    held_since=NOW,
    lower_replicas=7,
    cap=Cap(replicas=8, since=NOW - 60, until=NOW, minutes=4, room_seen=1, ended_early=True),
    zero_since=NOW,
    at_min_since=NOW,
    lost=True,
    over_since=NOW,
    away=True,
    starting=True,
    spare=True,
    idle_since=NOW,
)


def test_the_example_sets_every_field() -> None:
    """A new field needs a value above, so that the other tests see it."""
    default = ClusterState()

    assert [name for name in FULL.__struct_fields__ if getattr(FULL, name) == getattr(default, name)] == []


def test_every_field_is_stored() -> None:
    """JSON keeps them, and leaves out what is not set."""
    assert msgspec.json.decode(msgspec.json.encode(FULL), type=ClusterState) == FULL
    assert msgspec.json.encode(ClusterState()) == b"{}"


def test_times_from_a_leader_whose_clock_was_ahead_count_as_now() -> None:
    """A remembered full cluster ends after its own minutes at the latest."""
    earlier = FULL.at(NOW - 100)

    assert (earlier.given_since, earlier.zero_since) == (NOW - 100, NOW - 100)
    assert earlier.cap == Cap(
        replicas=8, since=NOW - 100, until=NOW, minutes=4, room_seen=1, ended_early=True
    )
    assert FULL.at(NOW) is FULL
    endless = ClusterState(cap=Cap(replicas=8, since=NOW, until=NOW + 9999, minutes=2))
    assert endless.at(NOW).cap == Cap(replicas=8, since=NOW, until=NOW + 120, minutes=2)
