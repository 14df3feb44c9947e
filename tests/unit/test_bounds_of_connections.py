"""Which connections are closed when a process has too many of them, or they hold too much memory."""

from __future__ import annotations

import asyncio
import itertools
import resource

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from fedhpa.serving import peers as module
from fedhpa.serving.peers import Peer, Peers, Reason, Waiting, default_connections

MEGABYTE = 2**20


class Stage:
    """A connection that waits for one action of its client, or for none."""

    def __init__(self, waits_for: Waiting | None) -> None:
        self.waits_for = waits_for
        self.aborted = False

    def waiting(self) -> Waiting | None:
        return self.waits_for

    def check_timeout(self, now: float) -> None:
        raise NotImplementedError

    def abort(self) -> None:
        self.aborted = True


class Connections:
    """Connections that were made one after another."""

    def __init__(self, peers: Peers) -> None:
        self.peers = peers
        self._clock = itertools.count()

    def make(self, waits_for: Waiting | None, *, verified: bool = False) -> tuple[Peer, Stage]:
        stage = Stage(waits_for)
        peer = Peer(self.peers, stage, next(self._clock))
        if verified:
            peer.verify()
        return peer, stage

    def many(self, count: int, waits_for: Waiting | None, *, verified: bool = False) -> list[Stage]:
        return [self.make(waits_for, verified=verified)[1] for _ in range(count)]


def closed(stages: list[Stage]) -> int:
    """Returns how many were closed."""
    return sum(stage.aborted for stage in stages)


async def test_unknown_peers_make_room_for_verified_ones() -> None:
    """Those that hold half a body, too; that was how strangers crowded out the hub's front proxy."""
    made = Connections(Peers(max_connections=32))
    proxies = made.many(8, Waiting.IDLE, verified=True)
    strangers = made.many(24, Waiting.BODY)
    more = made.many(16, None, verified=True)

    assert closed(proxies) == closed(more) == 0
    assert closed(strangers) >= 16
    assert len(made.peers) <= 32


async def test_a_flood_of_unknown_peers_closes_its_own_connections() -> None:
    """The connections of verified peers stay, whatever the others wait for, and the newest unknown peer is
    accepted.
    """
    made = Connections(Peers(max_connections=32))
    proxies = made.many(16, Waiting.IDLE, verified=True)
    strangers = [stage for _ in range(200) for waits_for in Waiting for stage in made.many(1, waits_for)]

    assert closed(proxies) == 0
    assert not strangers[-1].aborted
    assert len(made.peers) <= 32


async def test_the_longest_wait_ends_first() -> None:
    """Among equal connections the newest stay."""
    made = Connections(Peers(max_connections=32))
    stages = made.many(40, Waiting.HEADER)

    assert [stage.aborted for stage in stages] == sorted((stage.aborted for stage in stages), reverse=True)


async def test_requests_in_work_are_not_cut() -> None:
    """If all connections are at work, the newest is closed."""
    made = Connections(Peers(max_connections=4))
    working = made.many(4, None)
    (newest,) = made.many(1, Waiting.FIRST_BYTE)

    assert closed(working) == 0
    assert newest.aborted


async def test_verified_peers_are_closed_one_by_one() -> None:
    """Only if no other waits, and no more of them than necessary."""
    made = Connections(Peers(max_connections=32))
    verified = made.many(33, Waiting.IDLE, verified=True)

    assert closed(verified) == 1


async def test_memory_is_one_bound_for_all() -> None:
    """Large input closes the connections that waited longest, and the bound always holds."""
    made = Connections(Peers(max_connections=10_000, max_memory=8 * MEGABYTE))
    stages = []
    for _ in range(100):
        peer, stage = made.make(Waiting.BODY)
        peer.received(MEGABYTE // 2)
        stages.append(stage)

        assert made.peers.memory <= 8 * MEGABYTE
    assert not stages[-1].aborted
    assert closed(stages) > 80


async def test_an_answered_request_holds_nothing() -> None:
    """A connection is weighed by its present request, and leaves nothing behind."""
    made = Connections(Peers())
    before = made.peers.memory
    peer, _ = made.make(Waiting.BODY)
    idle = made.peers.memory
    peer.received(MEGABYTE)
    full = made.peers.memory
    peer.answered()
    answered = made.peers.memory
    peer.verify()
    peer.remove()
    peer.received(MEGABYTE)

    assert full - idle == MEGABYTE
    assert answered == idle
    assert made.peers.memory == before == 0


async def test_a_bound_is_logged_and_counted() -> None:
    """One line a minute says which bound it is; the counter has each connection."""
    registry = CollectorRegistry()
    peers = Peers(max_connections=32)
    registry.register(peers)
    with capture_logs() as logs:
        Connections(peers).many(100, Waiting.HEADER)
    lines = [entry for entry in logs if entry["log_level"] == "warning"]

    assert [(entry["event"], entry["reason"]) for entry in lines] == [
        ("connection closed", module.LIMITS[Reason.CONNECTIONS])
    ]
    aborted = registry.get_sample_value("fedhpa_connections_aborted_total", {"reason": "connections"})
    assert aborted == 100 - len(peers)
    assert registry.get_sample_value("fedhpa_connections_open") == len(peers)


async def test_no_more_files_closes_waiting_connections() -> None:
    """Their files let the process accept others, and the log names ulimit -n."""
    made = Connections(Peers(max_connections=1000))
    strangers = made.many(160, Waiting.HEADER)
    with capture_logs() as logs:
        made.peers.no_files()

    assert closed(strangers) == 10
    assert "ulimit -n" in next(entry["reason"] for entry in logs if entry["log_level"] == "warning")


@pytest.mark.parametrize(
    ("files", "connections"),
    [(1024, 768), (300, 150), (1, 1), (20_000, 2048), (resource.RLIM_INFINITY, 2048)],
)
def test_the_number_of_files_bounds_the_connections(
    files: int, connections: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some files remain for the hub and the members."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))

    assert default_connections() == connections


async def test_a_flood_is_cheap() -> None:
    """Connections are sorted for one new connection in a hundred, not for each."""
    sorts = 0
    made = Connections(Peers(max_connections=2048))
    free = made.peers._abort_waiting

    def counted(reason: Reason, count: int) -> int:
        nonlocal sorts
        sorts += 1
        return free(reason, count)

    made.peers._abort_waiting = counted  # type: ignore[method-assign]  # to count the calls
    made.many(20_000, Waiting.FIRST_BYTE)
    await asyncio.sleep(0)

    assert sorts <= 20_000 / 100
