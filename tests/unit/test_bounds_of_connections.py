"""Which connections are closed when a process has too many of them."""

from __future__ import annotations

import asyncio
import itertools
import resource

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from fedhpa.serving import peers as module
from fedhpa.serving.peers import Peers, Reason, default_connections


class Connection:
    """A connection that waits for its client, or not."""

    def __init__(self, since: float, *, waits: bool, verified: bool) -> None:
        self.since = since
        self.verified = verified
        self.aborted = False
        self.asked = 0
        self._waits = waits

    def waits_until(self) -> float | None:
        self.asked += 1
        return self.since + 15 if self._waits else None

    def abort(self) -> None:
        self.aborted = True


class Connections:
    """Connections that were made one after another."""

    def __init__(self, peers: Peers) -> None:
        self.peers = peers
        self._clock = itertools.count()

    def many(self, count: int, *, waits: bool = True, verified: bool = False) -> list[Connection]:
        made = []
        for _ in range(count):
            connection = Connection(next(self._clock), waits=waits, verified=verified)
            self.peers.add(connection)
            made.append(connection)
        return made


def closed(connections: list[Connection]) -> int:
    """Returns how many were closed."""
    return sum(connection.aborted for connection in connections)


async def test_strangers_take_no_place_of_verified_peers() -> None:
    """Neither those that wait nor those at work; that was how strangers crowded out the hub's front proxy."""
    made = Connections(Peers(max_connections=64, max_strangers=32))
    proxies = made.many(16, verified=True)
    strangers = made.many(100) + made.many(100, waits=False)
    more = made.many(16, waits=False, verified=True)

    assert closed(proxies) == closed(more) == 0
    assert closed(strangers) >= 168
    assert len(made.peers) <= 64


async def test_a_flood_of_strangers_closes_its_own_connections() -> None:
    """The newest stranger is accepted."""
    made = Connections(Peers(max_connections=64, max_strangers=32))
    strangers = made.many(1000)

    assert not strangers[-1].aborted
    assert len(made.peers) <= 32


async def test_the_longest_wait_ends_first() -> None:
    """Among equal connections the newest stay."""
    connections = Connections(Peers(max_connections=64, max_strangers=32)).many(40)
    aborted = [connection.aborted for connection in connections]

    assert aborted == sorted(aborted, reverse=True)


async def test_requests_in_work_are_not_cut() -> None:
    """If all connections are at work, the newest is closed."""
    made = Connections(Peers(max_connections=8, max_strangers=4))
    working = made.many(4, waits=False)
    (newest,) = made.many(1)

    assert closed(working) == 0
    assert newest.aborted


async def test_verified_peers_are_closed_one_by_one() -> None:
    """No more of them than necessary."""
    made = Connections(Peers(max_connections=64, max_strangers=32))
    verified = made.many(33, verified=True)

    assert closed(verified) == 1


async def test_a_bound_is_logged_and_counted() -> None:
    """Each line says which bound it is, and the log bounds their number; the counter has each connection."""
    registry = CollectorRegistry()
    peers = Peers(max_connections=64, max_strangers=32)
    registry.register(peers)
    with capture_logs() as logs:
        Connections(peers).many(100)
    lines = [entry for entry in logs if entry["log_level"] == "warning"]

    assert {(entry["event"], entry["reason"]) for entry in lines} == {
        ("connection closed", module.LIMITS[Reason.CONNECTIONS])
    }
    aborted = registry.get_sample_value("fedhpa_connections_aborted_total", {"reason": "connections"})
    assert aborted == 100 - len(peers)
    assert registry.get_sample_value("fedhpa_connections_open") == len(peers)


async def test_no_more_files_closes_waiting_connections() -> None:
    """Their files let the process accept others, and the log names ulimit -n."""
    made = Connections(Peers(max_connections=1000, max_strangers=500))
    strangers = made.many(160)
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
    """Each connection is looked at a few times, not once for each that comes after it."""
    connections = Connections(Peers(max_connections=512, max_strangers=256)).many(5_000)
    await asyncio.sleep(0)

    assert sum(connection.asked for connection in connections) <= 20 * 5_000
