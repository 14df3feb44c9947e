"""A full cluster is remembered for 1, 2, 4, ... 30 minutes, so that its share does not come and go."""

from __future__ import annotations

from collections.abc import Iterator

from fedhpa.assignment.caps import Caps, caps
from fedhpa.assignment.shares import MemberState
from fedhpa.assignment.state import ClusterState, States
from tests.support.distributed import NOW


def member(running: int, pending: int = 0, capacity: int | None = None) -> MemberState:
    return MemberState(
        cluster="a", minimum=1, maximum=20, running=running, pending=pending, capacity=capacity
    )


def passes(*members: tuple[float, MemberState], states: States | None = None) -> Iterator[Caps]:
    """Yields the result of each pass, given as minutes since NOW and the member."""
    states = states or {}
    for minute, one in members:
        found = caps(states, [one], NOW + minute * 60)
        states = found.states
        yield found


def sizes(*members: tuple[float, MemberState]) -> list[int | None]:
    return [found.sizes.get("a") for found in passes(*members)]


def test_a_full_cluster_keeps_its_size_for_a_minute() -> None:
    """While pods are pending the size is what runs; after that it stays for a minute."""
    seen = sizes((0, member(8, 3)), (1, member(8, 3)), (2, member(8)), (2.9, member(8)), (3, member(8)))

    assert seen == [8, 8, 8, 8, None]


def test_the_memory_doubles_each_time_pods_are_pending_again() -> None:
    """1, 2, 4, ... 30 minutes, each counted from the pass without pending pods."""
    states: States = {}
    minutes, now = [], NOW
    for _ in range(7):
        for one in (member(8, 1), member(8)):
            states = caps(states, [one], now).states
            now += 60
        cap = states["a"].cap
        assert cap is not None
        assert cap.until is not None
        minutes.append(cap.minutes)
        now = cap.until

    assert minutes == [1, 2, 4, 8, 16, 30, 30]


def test_half_an_hour_without_pending_pods_resets_the_doubling() -> None:
    """The half hour begins with the end of the memory: within it the cluster could not have pending pods."""
    seen = list(
        passes(
            (0, member(8, 1)),
            (1, member(8)),
            (3, member(9, 1)),  # the second time: 2 minutes
            (4, member(9)),
            (6, member(12)),
            (35.9, member(12)),
            (36, member(12)),
            (37, member(12, 1)),
            (38, member(12)),
        )
    )
    minutes = [found.states["a"].cap and found.states["a"].cap.minutes for found in seen]

    assert minutes == [1, 1, 2, 2, 2, 2, None, 1, 1]


def test_pods_that_are_pending_within_the_memory_do_not_double_it() -> None:
    """The cluster was not offered more, so nothing shows that the memory was too short."""
    found = list(passes((0, member(8, 1)), (1, member(8)), (1.5, member(6, 2)), (2, member(6))))

    assert [found[2].sizes["a"], found[3].sizes["a"]] == [6, 6]
    assert found[3].states["a"].cap is not None
    assert found[3].states["a"].cap.minutes == 1


def test_new_nodes_raise_the_size_while_pods_are_pending() -> None:
    """The remembered size is never below the running replicas."""
    assert sizes((0, member(8, 4)), (1, member(10, 2))) == [8, 10]


def test_room_that_was_seen_twice_ends_the_memory_early() -> None:
    """availableReplicas of at least 1 in two passes without a break ends it."""
    full, room = member(8, 0, 8), member(8, 0, 9)
    states = {"a": ClusterState()}
    found = list(
        passes((0, member(8, 1)), (1, member(8)), (2, member(8, 1)), (3, full), (3.2, room), states=states)
    )

    broken = list(passes((3.3, full), (3.4, room), (3.5, full), (3.6, room), states=found[-1].states))
    ended = list(passes((3.7, room), states=broken[-1].states))

    assert [one.sizes.get("a") for one in broken] == [8, 8, 8, 8]
    assert ended[0].sizes == {}
    assert ended[0].reasons == ("a: it reports room, so its limit ends",)


def test_the_memory_ends_early_only_once() -> None:
    """A cluster that reports room and then has pending pods again is not believed a second time."""
    room = member(8, 0, 20)
    found = list(
        passes(
            (0, member(8, 1)),
            (1, room),
            (1.2, room),
            (1.4, room),
            (2, member(8, 1)),
            (3, room),
            (3.2, room),
            (3.4, room),
            (4.9, room),
            (5, room),
        )
    )

    assert [one.sizes.get("a") for one in found] == [8, 8, 8, None, 8, 8, 8, 8, 8, None]


def test_an_unknown_capacity_is_no_room() -> None:
    """None counts neither as room nor as none."""
    found = list(passes((0, member(8, 1)), (1, member(8)), (1.3, member(8)), (1.6, member(8))))

    assert found[-1].sizes == {"a": 8}


def test_the_memory_of_an_unreachable_cluster_ends_by_itself() -> None:
    """Nobody knows if pods are pending there, so its state stays, and time goes on."""
    states = list(passes((0, member(8, 1)), (1, member(8))))[-1].states
    away = MemberState(cluster="a", minimum=1, maximum=8, running=0, pending=5, reachable=False)

    assert caps(states, [away], NOW + 119).sizes == {"a": 8}
    later = caps(states, [away], NOW + 120)

    assert (later.sizes, later.states) == ({}, states)


def test_a_quiet_world_changes_nothing() -> None:
    """A cluster that never had pending pods has no state."""
    assert caps({}, [member(8, 0, 9)], NOW) == Caps({}, {}, ())
