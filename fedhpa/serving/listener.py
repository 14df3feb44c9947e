"""Accepts connections. A socket costs little until its client sends a byte; only then TLS begins.

asyncio's own servers begin a TLS handshake for every accepted socket, outside any bound, and uvloop does not
report that the process can open no more files.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable, Sequence
from functools import partial

import structlog

from fedhpa.serving.peers import PLAIN_BYTES, TLS_BYTES, WAIT_LIMITS, Peer, Peers, Reason, Waiting

logger = structlog.get_logger(__name__)

# Connections that wait for `accept`. A thousand may arrive at the same moment.
BACKLOG = 1024
# Connections accepted before other tasks run.
ACCEPTED_AT_ONCE = 64
HANDSHAKE_SECONDS = 10.0
# Errors of `accept` that end only when the process or the machine has more room.
EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
PAUSE_SECONDS = 0.1
# The system's receive buffer of a connection; Linux takes twice as much. A TLS buffer grows to the largest
# piece that arrives at once, up to 256 KB. The rest of a flood waits with its sender.
RECEIVE_BYTES = 16 * 1024

MakeProtocol = Callable[[Peer], asyncio.Protocol]


class Listener:
    """Listens on some sockets, and makes a protocol for each connection that sends its first byte."""

    def __init__(
        self, sockets: Sequence[socket.socket], tls: ssl.SSLContext | None, peers: Peers, make: MakeProtocol
    ) -> None:
        self.sockets = tuple(sockets)
        self.peers = peers
        self.early: set[EarlyStage] = set()
        self._tls = tls
        self._make = make
        self._loop = asyncio.get_running_loop()
        self._closed = False
        for listening in self.sockets:
            self._loop.add_reader(listening, self._accept, listening)

    def close(self) -> None:
        """Accepts no more connections, and closes those that have not finished their handshake."""
        if self._closed:
            return
        self._closed = True
        for listening in self.sockets:
            self._loop.remove_reader(listening)
            listening.close()
        for early in tuple(self.early):
            early.peer.remove()
            early.abort()

    async def connect(self, peer: Peer, accepted: socket.socket) -> None:
        """Makes the protocol of a connection; with TLS, waits for the end of the handshake."""
        peer.weigh(PLAIN_BYTES if self._tls is None else TLS_BYTES)
        try:
            await self._loop.connect_accepted_socket(
                partial(self._make, peer),
                accepted,
                ssl=self._tls,
                ssl_handshake_timeout=None if self._tls is None else HANDSHAKE_SECONDS,
            )
        except OSError as error:
            logger.debug("connection failed", problem=type(error).__name__)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                accepted = accept(listening)
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in EXHAUSTED:
                    raise
                self.peers.no_files()
                # The client stays in the backlog, and the socket stays readable.
                self._loop.remove_reader(listening)
                self._loop.call_later(PAUSE_SECONDS, self._resume, listening)
                return
            EarlyStage(self, accepted)

    def _resume(self, listening: socket.socket) -> None:
        if not self._closed:
            self._loop.add_reader(listening, self._accept, listening)


class EarlyStage:
    """A connection before its protocol is connected: an accepted socket, then a handshake."""

    def __init__(self, listener: Listener, accepted: socket.socket) -> None:
        self._listener = listener
        self._socket = accepted
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._connecting = False
        accepted.setblocking(False)
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
        self._loop.add_reader(accepted, self._readable)
        listener.early.add(self)
        # If the process has too many connections, this calls `abort`.
        self.peer = Peer(listener.peers, self, self._loop.time())

    def waiting(self) -> Waiting:
        """Returns the awaited action of the client."""
        return Waiting.FIRST_BYTE if self._task is None else Waiting.HANDSHAKE

    def check_timeout(self, now: float) -> None:
        """Closes the connection if its client sends nothing."""
        if now - self.peer.since > WAIT_LIMITS[Waiting.FIRST_BYTE] and self._task is None:
            self.peer.abort(Reason.TIMEOUT)

    def abort(self) -> None:
        """Closes the connection at once."""
        self._listener.early.discard(self)
        if self._task is None:
            self._loop.remove_reader(self._socket)
            self._socket.close()
        else:
            self._task.cancel()

    def _readable(self) -> None:
        self._loop.remove_reader(self._socket)
        self._task = self._loop.create_task(self._connect())
        self._task.add_done_callback(self._connected)

    async def _connect(self) -> None:
        self._connecting = True
        await self._listener.connect(self.peer, self._socket)

    def _connected(self, task: asyncio.Task[None]) -> None:
        self._listener.early.discard(self)
        if self.peer.stage is self:
            # There is no protocol, because the handshake failed.
            self.peer.remove()
        if not self._connecting:
            self._socket.close()  # Later the transport owns it.
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("connection failed unexpectedly", exc_info=error)


def bind(host: str, port: int) -> list[socket.socket]:
    """Returns listening sockets for all addresses of a host ("": all of the machine). Raises OSError."""
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            try:
                listening = socket.socket(family, kind, protocol)
            except OSError:
                continue  # The machine has no IPv6.
            sockets.append(listening)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listening.setblocking(False)
            listening.bind(address)
            listening.listen(BACKLOG)
    except OSError:
        for listening in sockets:
            listening.close()
        raise
    return sockets


def accept(listening: socket.socket) -> socket.socket:
    """Returns the next connection's socket. Raises OSError."""
    return listening.accept()[0]
