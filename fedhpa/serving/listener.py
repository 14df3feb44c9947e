"""Accepts connections, and hands each one to HTTP once its peer is known.

asyncio's own servers begin a TLS handshake for every accepted socket, outside any bound, and uvloop does not
report that the process can open no more files.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager

import structlog
from aiohttp import web

from fedhpa.api.errors import FedHPAError
from fedhpa.serving.connections import Connection, begin_request, hide_software
from fedhpa.serving.peers import Peers
from fedhpa.serving.tls import peer_certificate

logger = structlog.get_logger(__name__)

# Connections that wait for `accept`. A thousand may arrive at the same moment.
BACKLOG = 1024
HANDSHAKE_SECONDS = 10.0
# For a peer that never confirms the end of TLS.
GOODBYE_SECONDS = 1.0
# Errors of `accept` that end only when the process or the machine has more room.
EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
PAUSE_SECONDS = 0.1
# The system's receive buffer of a connection; Linux takes twice as much. It bounds the piece that arrives at
# once, which TLS keeps four times; the rest of a flood waits with its sender. With 16 kB a request of 200 kB
# takes seconds over loopback, because one of its packets has 64 kB.
RECEIVE_BYTES = 32 * 1024


@asynccontextmanager
async def served(
    application: web.Application,
    address: tuple[str, int],
    peers: Peers,
    tls: ssl.SSLContext | None = None,
    *,
    grace: float = 60.0,
    remedy: str = "",
) -> AsyncIterator[int]:
    """Serves an application within the context, and yields the bound port.

    On exit no more connections are accepted, and requests have `grace` seconds to end. Raises FedHPAError if
    the address cannot be used; `remedy` ends its message.
    """
    application.middlewares.insert(0, begin_request)
    application.on_response_prepare.append(hide_software)
    runner = web.AppRunner(application, handle_signals=False, access_log=None, shutdown_timeout=grace)
    await runner.setup()
    try:
        assert runner.server is not None, "the runner is set up"
        listener = Listener(runner.server, peers, tls)
        with ExitStack() as stack:
            sockets = await asyncio.to_thread(bind, *address, remedy)
            for listening in sockets:
                stack.enter_context(listening)
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(listener.accept(group, listening)) for listening in sockets]
                tasks.append(group.create_task(peers.close_stalled()))
                try:
                    yield sockets[0].getsockname()[1]
                finally:
                    for task in tasks:
                        task.cancel()
                    listener.close()
    finally:
        await runner.cleanup()


class Handshake:
    """A connection whose peer is not known yet."""

    verified = False

    def __init__(self) -> None:
        self.since = asyncio.get_running_loop().time()
        self._task = asyncio.current_task()

    def waits_until(self) -> float:
        """Returns when TLS itself has given up."""
        return self.since + 2 * HANDSHAKE_SECONDS

    def abort(self) -> None:
        """Closes the connection at once."""
        assert self._task is not None, "it is made in a task"
        self._task.cancel()


class Doorway(asyncio.Protocol):
    """Makes the HTTP connection after the handshake, with the bounds of its peer."""

    def __init__(self, listener: Listener, handshake: Handshake) -> None:
        self._listener = listener
        self._handshake = handshake

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Implements asyncio.Protocol."""
        self._listener.peers.discard(self._handshake)
        verified = peer_certificate(transport.get_extra_info("ssl_object")) is not None
        connection = Connection(self._listener.server, self._listener.peers, verified=verified)
        transport.set_protocol(connection)
        connection.connection_made(transport)


class Listener:
    """Accepts connections of some sockets, and makes their protocols."""

    def __init__(self, server: web.Server, peers: Peers, tls: ssl.SSLContext | None) -> None:
        self.server = server
        self.peers = peers
        self._tls = tls
        self._handshakes: set[Handshake] = set()
        self._closed = False

    def close(self) -> None:
        """Ends all handshakes."""
        self._closed = True
        for handshake in self._handshakes:
            handshake.abort()

    async def accept(self, group: asyncio.TaskGroup, listening: socket.socket) -> None:
        """Accepts connections until cancelled."""
        while True:
            try:
                accepted = await accept(listening)
            except OSError as error:
                if error.errno in EXHAUSTED:
                    self.peers.no_files()
                # The client stays in the backlog.
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            group.create_task(self._connect(accepted))
            # Other tasks run between two connections, also in a flood.
            await asyncio.sleep(0)

    async def _connect(self, accepted: socket.socket) -> None:
        if self._closed:
            accepted.close()
            return
        handshake = Handshake()
        self._handshakes.add(handshake)
        self.peers.add(handshake)
        try:
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: Doorway(self, handshake),
                accepted,
                ssl=self._tls,
                ssl_handshake_timeout=None if self._tls is None else HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=None if self._tls is None else GOODBYE_SECONDS,
            )
        except OSError as error:
            logger.debug("connection failed", problem=type(error).__name__)
        except Exception:
            logger.exception("connection failed unexpectedly")
        finally:
            self._handshakes.discard(handshake)
            self.peers.discard(handshake)


def bind(host: str, port: int, remedy: str = "") -> list[socket.socket]:
    """Returns listening sockets for all addresses of a host ("": all of the machine). Raises FedHPAError."""
    sockets: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, address in dict.fromkeys((family, address) for family, *_, address in found):
            try:
                sockets.append(socket.create_server(address, family=family, backlog=BACKLOG))
            except OSError as error:
                if error.errno != errno.EAFNOSUPPORT:  # The machine has no IPv6.
                    raise
        for listening in sockets:
            listening.setblocking(False)
    except OSError as error:
        for listening in sockets:
            listening.close()
        # socket.create_server repeats the address in its message.
        reason = (error.strerror or "").partition(" (")[0]
        raise FedHPAError(f"cannot listen on {host or '*'}:{port}: {reason}{remedy}") from error
    return sockets


async def accept(listening: socket.socket) -> socket.socket:
    """Returns the next connection's socket. Raises OSError."""
    return (await asyncio.get_running_loop().sock_accept(listening))[0]
