"""The hostile member: a TLS server that answers each request as a random generator says.

`python -m tests.support.hostile.server FOLDER PORT SEED` reads the certificates in the folder and counts its
answers in `counts.json` there. It tells the truth often enough to be used. After SIGUSR1 it tells only that.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import signal
import socket
import ssl
import sys
from collections import Counter
from pathlib import Path
from typing import Final

from tests.support.hostile.answers import ANSWERS, HOLD_SECONDS, Answer, Exchange, tell_truth
from tests.support.hostile.documents import true_document
from tests.support.hostile.watches import WATCHES

GOOD: Final = "good"
# The other certificates: expired, of another authority, for another host, and one that expires soon.
BAD: Final = ("expired", "foreign", "elsewhere", "brief")
# Shares of the connections and answers that are as they should be. A member that fails its probes is asked
# nothing else.
HONEST_CONNECTIONS, HONEST_PROBES, HONEST_ANSWERS = 0.85, 0.93, 0.4
COUNTS: Final = "counts.json"
# The time for a client to take the end of an answer.
CLOSE_SECONDS: Final = 5.0
# The longest header and body of a request.
MAX_REQUEST: Final = 2**20


def context(folder: Path) -> ssl.SSLContext:
    """Returns the context of a server with this pair."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    return made


class HostileMember:
    """The server. `calm` makes it honest."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.counts: Counter[str] = Counter()
        self._folder = folder
        self._chance = random.Random(seed)
        self._good = context(folder / GOOD)
        self._bad = [context(folder / name) for name in BAD]
        self._old = context(folder / GOOD)
        self._old.maximum_version = ssl.TLSVersion.TLSv1_2
        self._honest = False
        self._moods: dict[str, tuple[Answer, float]] = {}
        self._connections: set[asyncio.Task[None]] = set()

    def calm(self) -> None:
        """Ends all connections; from now on only true answers are sent."""
        self._honest = True
        for task in self._connections:
            task.cancel()

    async def run(self, port: int) -> None:
        """Serves until cancelled."""
        loop = asyncio.get_running_loop()
        with socket.create_server(("127.0.0.1", port), backlog=128) as listener:
            listener.setblocking(False)
            while True:
                client, _ = await loop.sock_accept(listener)
                task = loop.create_task(self._connection(client))
                self._connections.add(task)
                task.add_done_callback(self._connections.discard)

    def save(self) -> None:
        """Writes the counts."""
        path = self._folder / COUNTS
        new = path.with_suffix(".new")
        new.write_text(json.dumps(self.counts))
        new.replace(path)

    async def _connection(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError, ssl.SSLError, asyncio.IncompleteReadError, TimeoutError):
            client.setblocking(False)
            chosen = self._context()
            if chosen is None:
                async with asyncio.timeout(HOLD_SECONDS * 2):
                    await self._no_handshake(client)
                return
            reader = asyncio.StreamReader(limit=MAX_REQUEST)
            protocol = asyncio.StreamReaderProtocol(reader)
            loop = asyncio.get_running_loop()
            transport, _ = await loop.connect_accepted_socket(
                lambda: protocol, client, ssl=chosen, ssl_handshake_timeout=10.0
            )
            try:
                writer = asyncio.StreamWriter(transport, protocol, reader, loop)
                while await self._request(reader, writer):
                    pass
                writer.close()
                async with asyncio.timeout(CLOSE_SECONDS):
                    await writer.wait_closed()
            finally:
                transport.abort()

    def _context(self) -> ssl.SSLContext | None:
        """Returns the certificate of a connection; None for one without a handshake."""
        if self._honest or self._chance.random() < HONEST_CONNECTIONS:
            return self._good
        form = self._chance.randrange(len(BAD) + 3)
        if form < len(self._bad):
            self.counts[f"certificate {BAD[form]}"] += 1
            return self._bad[form]
        return self._old if form == len(self._bad) else None

    async def _no_handshake(self, client: socket.socket) -> None:
        """Closes, keeps silent, or sends something else than the server's part of the handshake."""
        self.counts["no handshake"] += 1
        loop = asyncio.get_running_loop()
        form = self._chance.randrange(5)
        if form == 1:
            await asyncio.sleep(HOLD_SECONDS)
        elif form > 1:
            await loop.sock_recv(client, 65_536)
            alert, hello = b"\x15\x03\x03\x00\x02\x02\x50", b"\x16\x03\x03\x3f\xff\x02\x00\x3f\xfb"
            await loop.sock_sendall(client, (alert, hello, self._chance.randbytes(2_000))[form - 2])
            await asyncio.sleep(self._chance.choice((0.0, HOLD_SECONDS)))

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answers one request. Returns True if the connection stays open."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        target = head.split(" ", 2)[1]
        length = next(
            (int(line[15:]) for line in head.splitlines() if line.lower().startswith("content-length:")), 0
        )
        await reader.readexactly(length)
        path, _, query = target.partition("?")
        status, document = true_document(path)
        watch = "watch=" in query
        answer = self._mood(path, watch)
        self.counts[answer.__name__] += 1
        exchange = Exchange(path, watch, status, document, writer, self._chance)
        async with asyncio.timeout(HOLD_SECONDS * 2):
            await answer(exchange)
        return answer is tell_truth

    def _mood(self, path: str, watch: bool) -> Answer:
        """Returns the answer for a path. It is kept for some seconds, so that pages follow each other."""
        now = asyncio.get_running_loop().time()
        key = f"{path} {watch}"
        answer, until = self._moods.get(key, (tell_truth, 0.0))
        if self._honest:
            return tell_truth
        if now >= until:
            honest = HONEST_PROBES if path.endswith("z") else HONEST_ANSWERS
            answer = tell_truth
            if self._chance.random() >= honest:
                answer = self._chance.choice(WATCHES if watch else ANSWERS)
            self._moods[key] = (answer, now + self._chance.uniform(0.0, 3.0))
        return answer


async def serve(folder: Path, port: int, seed: int) -> None:
    """Runs the server and saves its counts each second."""
    member = HostileMember(folder, seed)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, member.calm)
    async with asyncio.TaskGroup() as group:
        group.create_task(member.run(port))
        while True:
            member.save()
            await asyncio.sleep(1.0)


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
