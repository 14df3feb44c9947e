"""The bounds of all connections of a process: their number and the memory that they hold.

A process has one `Peers` for all its listeners. Beyond a bound, connections that wait for their client are
closed: those of unknown peers first, and among them the one that has waited longest. A peer that proved who
it is, by a client certificate or a token, is closed only if no unknown one is left. So nobody can crowd out
the hub without its certificate.
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

from fedhpa.serving.telemetry import LogLimit

logger = structlog.get_logger(__name__)

# The hub opens a connection for each concurrent request, and there may be a thousand of them.
MAX_CONNECTIONS = 2048
# Files that a process needs besides its connections: those to the hub, to members and to a store.
OTHER_FILES = 256
# Bytes of received headers and bodies, and of connections of unknown peers. The process
# grows by less than 64 MB: it frees closed connections a moment later, and judges requests.
MAX_MEMORY = 32 * 2**20
# Memory of one connection, measured and rounded up: without data, with HTTP, and with TLS.
SOCKET_BYTES = 4 * 1024
PLAIN_BYTES = 16 * 1024
# An idle TLS connection has 52 kB. The rest is for its next piece of data, because many may arrive before the
# process can close a connection.
TLS_BYTES = 128 * 1024
# The usual size of such a piece. It has four copies: as it was read, two in OpenSSL, and decrypted.
PIECE_BYTES = 16 * 1024
BUFFER_COPIES = 4
# A part of the bounds is freed at once, so that a flood does not sort all connections for each new one.
FREED_PART = 16
GARBAGE_PART = 8
# The generation of objects that is collected: those of a flood are young. Older ones would take longer.
YOUNG = 1


class Waiting(Enum):
    """The action of the client that a connection waits for."""

    FIRST_BYTE = "the first byte"
    HANDSHAKE = "the TLS handshake"
    IDLE = "the next request"
    HEADER = "the rest of a header"
    BODY = "the rest of a body"
    READ = "the client to read the response"


# Seconds. An admission request may take 30 s in total. Kubernetes' servers end a response after 60 s.
WAIT_LIMITS = {
    Waiting.FIRST_BYTE: 10.0,
    Waiting.HEADER: 15.0,
    Waiting.BODY: 30.0,
    Waiting.READ: 60.0,
}


class Reason(Enum):
    """The reason why a connection was closed: the label of fedhpa_connections_aborted_total."""

    TIMEOUT = "timeout"
    HEADER = "header"
    CONNECTIONS = "connections"
    MEMORY = "memory"
    FILES = "files"


# Operators must see these: a bound is too low, or somebody attacks the process.
LIMITS: Mapping[Reason, str] = {
    Reason.CONNECTIONS: "too many connections",
    Reason.MEMORY: "the connections hold too much memory",
    Reason.FILES: "no more files can be opened (ulimit -n)",
    Reason.HEADER: "a header is too large",
}


class Stage(Protocol):
    """The present stage of a connection: an accepted socket, a handshake, or HTTP."""

    def waiting(self) -> Waiting | None:
        """Returns the awaited action of the client; None while the server is at work."""

    def check_timeout(self, now: float) -> None:
        """Closes the connection if it has waited too long for the same action."""

    def abort(self) -> None:
        """Closes the connection at once."""


class Peer:
    """The other end of one connection, from `accept` to its end."""

    __slots__ = ("_base", "_peers", "_received", "since", "stage", "verified")

    def __init__(self, peers: Peers, stage: Stage, now: float) -> None:
        self._peers = peers
        self._base = SOCKET_BYTES
        self._received = 0
        self.stage = stage
        # Since when it waits for the same action of the client.
        self.since = now
        # True if a client certificate or a token proved who it is.
        self.verified = False
        peers.add(self)

    @property
    def held(self) -> int:
        """The bytes that count towards the bound: received ones, and the connection of an unknown peer."""
        return self._received + (0 if self.verified else self._base)

    def weigh(self, base: int) -> None:
        """Sets what the connection costs without what it received."""
        self._change(base, self._received)

    def received(self, size: int) -> None:
        """Adds received bytes of the present request."""
        self._change(self._base, self._received + size)

    def answered(self) -> None:
        """Forgets the bytes of a request that was answered."""
        self._change(self._base, 0)

    def verify(self) -> None:
        """Records that the peer proved who it is."""
        before, self.verified = self.held, True
        self._peers.grow(self, self.held - before)

    def abort(self, reason: Reason) -> None:
        """Closes the connection at once."""
        self._peers.aborted(self, reason)

    def refuse(self, reason: Reason) -> None:
        """Counts that the connection was refused; it closes once its client has the response."""
        self._peers.refused(reason)

    def remove(self) -> None:
        """Ends the accounting; the connection is closed."""
        self._peers.remove(self)

    def _change(self, base: int, received: int) -> None:
        before = self.held
        self._base, self._received = base, received
        self._peers.grow(self, self.held - before)


class Peers(Collector):
    """All connections of a process, with their bounds and series."""

    def __init__(self, max_connections: int | None = None, max_memory: int = MAX_MEMORY) -> None:
        self._max_connections = default_connections() if max_connections is None else max_connections
        self._max_memory = max_memory
        self._open: dict[Peer, None] = {}
        self._memory = 0
        # Bytes of unknown peers since garbage was last collected.
        self._uncollected = 0
        self._aborted: Counter[Reason] = Counter()
        self._log_limit: LogLimit | None = None

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Peer]:
        return iter(tuple(self._open))

    @property
    def memory(self) -> int:
        """The bytes that all connections hold."""
        return self._memory

    def add(self, peer: Peer) -> None:
        """Adds a connection, and closes others if there are too many."""
        self._open[peer] = None
        self._memory += peer.held
        if len(self._open) > self._max_connections:
            self._free(Reason.CONNECTIONS, peer)

    def grow(self, peer: Peer, size: int) -> None:
        """Adds what a connection holds more, or less, and closes some if all hold too much."""
        if peer not in self._open:
            return
        self._memory += size
        if size > 0 and not peer.verified:
            self._collect_garbage(size)
        if size > 0 and self._memory > self._max_memory:
            self._free(Reason.MEMORY, peer)

    def remove(self, peer: Peer) -> None:
        """Removes a closed connection."""
        if peer in self._open:
            del self._open[peer]
            self._memory -= peer.held

    def aborted(self, peer: Peer, reason: Reason) -> None:
        """Closes a connection at once, and counts why."""
        if peer not in self._open:
            return
        # Some transports report their end later. The next connection must not find this one counted.
        self.remove(peer)
        self._count(reason)
        waiting = peer.stage.waiting()
        logger.debug("connection aborted", reason=reason.value, waited_for=waiting.value if waiting else None)
        peer.stage.abort()

    def refused(self, reason: Reason) -> None:
        """Counts a connection that closes after its last response, and why."""
        self._count(reason)

    def no_files(self) -> None:
        """Closes some connections of unknown peers, because the process may open no more files."""
        self._count(Reason.FILES)
        self._abort_waiting(Reason.FILES, max(len(self._open) // FREED_PART, 1))

    def collect(self) -> Iterator[Metric]:
        """Yields the number of connections, their memory, and how many were closed for which reason."""
        yield GaugeMetricFamily("fedhpa_connections_open", "Open connections of clients.", len(self._open))
        yield GaugeMetricFamily(
            "fedhpa_connections_memory_bytes",
            "Bytes of received headers and bodies, and of connections of clients that have not proved who"
            " they are. At 32 MiB such connections are closed.",
            self._memory,
        )
        aborted = CounterMetricFamily(
            "fedhpa_connections_aborted",
            "Connections closed by the server, by reason: timeout (the client stalled), header (too large),"
            " or a bound of the process: connections, memory, files (ulimit -n).",
            labels=["reason"],
        )
        for reason in Reason:
            aborted.add_metric([reason.value], self._aborted[reason])
        yield aborted

    def _collect_garbage(self, size: int) -> None:
        """Free what closed connections left, each time that unknown peers have sent a part of the bound.

        TLS and HTTP connections are reference cycles, which Python frees late: after many more connections.
        """
        self._uncollected += size
        if self._uncollected > self._max_memory // GARBAGE_PART:
            self._uncollected = 0
            asyncio.get_running_loop().call_soon(gc.collect, YOUNG)

    def _free(self, reason: Reason, newest: Peer) -> None:
        """Closes connections until the bounds hold with some room; the newest one if no other waits."""
        room = self._max_connections // FREED_PART
        excess = len(self._open) - self._max_connections
        freed = self._abort_waiting(reason, excess + room if excess > 0 else 0)
        if not freed and (excess > 0 or self._memory > self._max_memory):
            self.aborted(newest, reason)

    def _abort_waiting(self, reason: Reason, count: int) -> int:
        """Closes `count` connections that wait for unknown peers, and more while the memory is exceeded.

        Of verified peers as few as possible are closed.
        """
        spare = self._max_memory - self._max_memory // FREED_PART
        waiting = [peer for peer in self._open if peer.stage.waiting() is not None]
        waiting.sort(key=lambda peer: (peer.verified, peer.since))
        freed = 0
        for peer in waiting:
            if peer.verified:
                wanted = len(self._open) > self._max_connections or self._memory > self._max_memory
            else:
                wanted = freed < count or (reason is Reason.MEMORY and self._memory > spare)
            if not wanted:
                break
            self.aborted(peer, reason)
            freed += 1
        return freed

    def _count(self, reason: Reason) -> None:
        self._aborted[reason] += 1
        if reason not in LIMITS:
            return
        if self._log_limit is None:
            self._log_limit = LogLimit(asyncio.get_running_loop().time)
        left_out = self._log_limit.left_out(reason.value)
        if left_out is not None:
            logger.warning(
                "connection closed",
                reason=LIMITS[reason],
                open=len(self._open),
                bytes=self._memory,
                since_last_line=left_out,
            )


def default_connections() -> int:
    """Returns the number of connections that the limit of open files (ulimit -n) allows, at most 2,048."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return max(min(MAX_CONNECTIONS, max(soft - OTHER_FILES, soft // 2)), 1)
