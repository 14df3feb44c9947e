"""The bound of all connections of a process, by what their peers have proved.

A peer with a verified client certificate (the hub) has a place of its own. All others share the places of
strangers, so no number of strangers can take a place of the hub. One more than there are places closes those
that have waited longest for their client. Everything that one stranger can make the process keep is bounded,
so the places bound the memory too.
"""

from __future__ import annotations

import asyncio
import gc
import resource
from collections import Counter
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Protocol

import structlog
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

logger = structlog.get_logger(__name__)

# The hub opens a connection for each concurrent request, and there may be a thousand of them.
MAX_CONNECTIONS = 2048
# API servers without a client certificate are strangers to the webhook. Measured: with these, any data that
# all of them send at the same moment costs less than 64 MiB.
MAX_STRANGERS = 96
# Files that a process needs besides its connections: those to the hub, to members and to a store.
OTHER_FILES = 256
# A part of the places is freed at once, so that a flood does not sort all connections for each new one.
FREED_PART = 16
# TLS and HTTP connections are reference cycles. Those of a flood are young. Older ones would take longer.
YOUNG = 1
SWEEP_SECONDS = 1.0


class Reason(Enum):
    """The reason why a connection was closed: the label of fedhpa_connections_aborted_total."""

    TIMEOUT = "timeout"
    HEADER = "header"
    CONNECTIONS = "connections"
    FILES = "files"


# Operators must see these: a bound is too low, or somebody attacks the process.
LIMITS: Mapping[Reason, str] = {
    Reason.CONNECTIONS: "too many connections",
    Reason.FILES: "no more files can be opened (ulimit -n)",
    Reason.HEADER: "a header is too large",
}


class Peer(Protocol):
    """The other end of a connection, during its TLS handshake or after it."""

    # True if a client certificate proved who it is.
    verified: bool
    # Since when the connection waits for the same action of its client.
    since: float

    def waits_until(self) -> float | None:
        """Returns when the client must have acted; None while the server is at work."""

    def abort(self) -> None:
        """Closes the connection at once."""


class Peers(Collector):
    """All connections of a process, with their bounds and series."""

    def __init__(self, max_connections: int | None = None, max_strangers: int = MAX_STRANGERS) -> None:
        most = default_connections() if max_connections is None else max_connections
        strangers = min(max_strangers, (most + 1) // 2)
        self._places = {False: strangers, True: most - strangers}
        self._open: dict[bool, dict[Peer, None]] = {False: {}, True: {}}
        self._aborted: Counter[Reason] = Counter()

    def __len__(self) -> int:
        return sum(map(len, self._open.values()))

    def __iter__(self) -> Iterator[Peer]:
        return iter([peer for part in self._open.values() for peer in part])

    def add(self, peer: Peer) -> None:
        """Adds a connection. If there are too many, closes those that wait longest, or else this one."""
        places, part = self._places[peer.verified], self._open[peer.verified]
        part[peer] = None
        if len(part) > places:
            count = 1 if peer.verified else 1 + places // FREED_PART
            if not self._free(part, count, Reason.CONNECTIONS, kept=peer):
                self.abort(peer, Reason.CONNECTIONS)

    def discard(self, peer: Peer) -> None:
        """Removes a closed connection."""
        self._open[peer.verified].pop(peer, None)

    def abort(self, peer: Peer, reason: Reason) -> None:
        """Closes a connection at once, and counts why."""
        # Some transports report their end later. The next connection must not find this one counted.
        self.discard(peer)
        self.count(reason)
        logger.debug("connection aborted", reason=reason.value)
        peer.abort()

    def no_files(self) -> None:
        """Closes some connections of strangers, because the process may open no more files."""
        strangers = self._open[False]
        if not self._free(strangers, max(len(self) // FREED_PART, 1), Reason.FILES):
            self.count(Reason.FILES)

    async def close_stalled(self) -> None:
        """Closes connections whose client stalls, each second, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            for peer in self:
                until = peer.waits_until()
                if until is not None and until < loop.time():
                    self.abort(peer, Reason.TIMEOUT)

    def count(self, reason: Reason) -> None:
        """Counts a connection that the server closes, and logs it if a bound is the reason."""
        self._aborted[reason] += 1
        if reason in LIMITS:
            logger.warning("connection closed", reason=LIMITS[reason], open=len(self))

    def collect(self) -> Iterator[Metric]:
        """Yields the number of connections, and how many were closed for which reason."""
        yield GaugeMetricFamily("fedhpa_connections_open", "Open connections of clients.", len(self))
        aborted = CounterMetricFamily(
            "fedhpa_connections_aborted",
            "Connections closed by the server, by reason: timeout (the client stalled), header (too large),"
            " or a bound of the process: connections, files (ulimit -n).",
            labels=["reason"],
        )
        for reason in Reason:
            aborted.add_metric([reason.value], self._aborted[reason])
        yield aborted

    def _free(self, part: dict[Peer, None], count: int, reason: Reason, kept: Peer | None = None) -> bool:
        """Closes up to `count` connections that wait for their client, and all but `kept`."""
        waiting = [peer for peer in part if peer is not kept and peer.waits_until() is not None]
        for peer in sorted(waiting, key=lambda peer: peer.since)[:count]:
            self.abort(peer, reason)
        if waiting:
            asyncio.get_running_loop().call_soon(gc.collect, YOUNG)
        return bool(waiting)


def default_connections() -> int:
    """Returns the number of connections that the limit of open files (ulimit -n) allows, at most 2,048."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return max(min(MAX_CONNECTIONS, max(soft - OTHER_FILES, soft // 2)), 1)
