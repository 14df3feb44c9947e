"""The hostile member's substitutes for answers: broken HTTP and bodies of any size."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import os
import random
import socket
import struct
import zlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from tests.support.hostile.documents import (
    LITERALS,
    SPOILERS,
    Document,
    is_lie,
    plain,
)

# The longest time that an answer takes; afterwards the connection is closed.
HOLD_SECONDS: Final = 15.0
MIB: Final = 2**20
STATUSES: Final = (200, 200, 200, 500, 503, 429, 404, 410, 409, 403, 401, 400, 418, 599)
REASONS: Final = {200: "OK", 404: "Not Found", 500: "Internal Server Error"}


@dataclass(frozen=True)
class Exchange:
    """One request, the connection to answer it on, and the true answer."""

    path: str
    watch: bool
    status: int
    document: Document
    writer: asyncio.StreamWriter
    chance: random.Random

    async def send(self, data: bytes) -> None:
        """Writes bytes and waits until they are taken."""
        self.writer.write(data)
        await self.writer.drain()

    async def flood(self, piece: bytes, size: int, *, pause: float = 0.01) -> None:
        """Writes a piece again and again, `size` bytes in all, with pauses."""
        for _ in range(max(size // len(piece), 1)):
            await self.send(piece)
            await asyncio.sleep(pause)

    def truth(self) -> bytes:
        """The true body."""
        return b"ok" if self.path.endswith("z") else plain(self.document)


Answer = Callable[[Exchange], Awaitable[None]]


def response(body: bytes, status: int = 200, *headers: str, kind: str = "application/json") -> bytes:
    """Returns a whole response."""
    lines = [
        f"HTTP/1.1 {status} {REASONS.get(status, 'Odd')}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(body)}",
        *headers,
    ]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def chunk(data: bytes) -> bytes:
    """Returns one chunk of a chunked body."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


CHUNKED: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


def event(kind: str, value: Any) -> bytes:
    """Returns one line of a watch."""
    return json.dumps({"type": kind, "object": value}).encode() + b"\n"


async def tell_truth(exchange: Exchange) -> None:
    """The true answer; a watch stays open for a while."""
    if not exchange.watch:
        await exchange.send(response(exchange.truth(), exchange.status))
        return
    await exchange.send(CHUNKED)
    await asyncio.sleep(exchange.chance.uniform(2, HOLD_SECONDS))
    await exchange.send(chunk(event("BOOKMARK", {"metadata": {"resourceVersion": "7"}})) + chunk(b""))


# -- bodies ----------------------------------------------------------------------------------------------
async def spoiled_body(exchange: Exchange) -> None:
    """A spoiled document with any status."""
    body = exchange.chance.choice(SPOILERS)(exchange.document, exchange.chance)
    status = exchange.chance.choice(STATUSES)
    retry = exchange.chance.choice(("0", "1", "99999", "-1", "x", "9" * 5_000))
    await exchange.send(response(b"{}" if is_lie(body) else body, status, f"Retry-After: {retry}"))


async def nested_body(exchange: Exchange) -> None:
    """JSON of a thousand levels and more, as a success or as an error."""
    levels = exchange.chance.choice((500, 1_000, 1_200, 100_000))
    body = exchange.chance.choice((b"[" * levels + b"]" * levels, b'{"a":' * levels + b"1" + b"}" * levels))
    body = exchange.chance.choice(
        (body, b'{"kind":"Status","message":' + body + b"}", b'{"items":' + body + b"}")
    )
    await exchange.send(response(body, exchange.chance.choice((200, 500, 404, 401))))


async def odd_body(exchange: Exchange) -> None:
    """No JSON at all: nothing, random bytes, HTML, another encoding, or a literal."""
    body = exchange.chance.choice(
        (
            b"",
            b"\x00",
            b"\xff\xfe{\x00}\x00",
            b"<html>",
            exchange.chance.randbytes(100_000),
            exchange.chance.choice(LITERALS).encode(),
            exchange.truth()[:-5],
            exchange.truth() * 2,
            b" " * MIB + exchange.truth(),
        )
    )
    await exchange.send(
        response(body, kind=exchange.chance.choice(("application/json", "text/html", "", "\x01")))
    )


def _bomb(size: int, unit: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    piece = unit * (MIB // len(unit))
    return b"".join(packer.compress(piece) for _ in range(size // len(piece))) + packer.flush()


@cache
def bombs() -> tuple[bytes, ...]:
    """Returns bodies of some 100 kB that grow to 100 MB each. They take half a second to make."""
    return _bomb(100 * MIB, b" "), _bomb(100 * MIB, b'{"a":'), gzip.compress(_bomb(100 * MIB, b"\0"))


async def packed_body(exchange: Exchange) -> None:
    """Compressed bodies: small ones that grow to 100 MB, broken ones, and false claims."""
    truth = gzip.compress(exchange.truth())
    body = exchange.chance.choice((*bombs(), truth[:-9], truth + b"x", b"\x1f\x8b", b"", truth * 50))
    encoding = exchange.chance.choice(("gzip", "gzip", "gzip", "gzip", "deflate", "br", "gzip, gzip", "x"))
    await exchange.send(response(body, 200, f"Content-Encoding: {encoding}"))


async def endless_body(exchange: Exchange) -> None:
    """A body that does not end: of items, of blanks, or inside a text."""
    await exchange.send(CHUNKED)
    piece = exchange.chance.choice((b"{},", b" ", b"[", b'{"metadata":{}},', b"x")) * 4_096
    kind, version = (str(exchange.document.get(key, "")) for key in ("kind", "apiVersion"))
    head = f'{{"kind":"{kind}","apiVersion":"{version}","items":['
    await exchange.send(chunk(head.encode()))
    await exchange.flood(chunk(piece), 24 * MIB)


async def slow_body(exchange: Exchange) -> None:
    """The true answer or its header, byte by byte."""
    whole = response(exchange.truth())
    start = exchange.chance.choice((0, len(whole) - len(exchange.truth())))
    await exchange.send(whole[:start])
    for byte in whole[start:]:
        await exchange.send(bytes((byte,)))
        await asyncio.sleep(0.2)


# -- HTTP ------------------------------------------------------------------------------------------------
async def no_http(exchange: Exchange) -> None:
    """Anything but HTTP, or the first part of a response, and perhaps silence after it."""
    await exchange.send(
        exchange.chance.choice(
            (
                b"",
                exchange.chance.randbytes(4_096),
                b"HTTP/1.1 2",
                b"HTTP/1.1 200 OK\r\nContent-Le",
                b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
                b"HTTP/9.9 200 OK\r\n\r\n",
                b"HTTP/1.1 -1 x\r\n\r\n",
                b"HTTP/1.1 99999999999999999999 x\r\n\r\n",
                b"GET / HTTP/1.1\r\n\r\n",
                b"\r\n" * 10_000,
                exchange.truth(),
            )
        )
    )
    await asyncio.sleep(exchange.chance.choice((0.0, 0.0, HOLD_SECONDS)))


async def old_http(exchange: Exchange) -> None:
    """HTTP/1.0, and statuses that have no body."""
    truth = exchange.truth()
    start = exchange.chance.choice(
        ("HTTP/1.0 200 OK", "HTTP/1.1 204 No", "HTTP/1.1 304 No", "HTTP/1.1 205 No")
    )
    await exchange.send(f"{start}\r\nContent-Length: {len(truth)}\r\n\r\n".encode() + truth)


async def wrong_length(exchange: Exchange) -> None:
    """A Content-Length that is too short, too long, invalid, or there twice."""
    truth = exchange.truth()
    lengths = exchange.chance.choice(
        (
            [str(len(truth) - 3)],
            [str(len(truth) + 50)],
            ["-1"],
            ["x"],
            ["9" * 5_000],
            ["1", "2"],
            ["0x10"],
            [""],
        )
    )
    lines = "".join(f"Content-Length: {length}\r\n" for length in lengths)
    await exchange.send(f"HTTP/1.1 200 OK\r\n{lines}\r\n".encode() + truth)
    await asyncio.sleep(exchange.chance.choice((0.0, 5.0)))


async def wrong_chunks(exchange: Exchange) -> None:
    """Chunks of wrong sizes."""
    body = exchange.chance.choice(
        (
            b"zz\r\n{}\r\n0\r\n\r\n",
            b"-1\r\n{}\r\n0\r\n\r\n",
            b"ffffffffffffffffffff\r\n{}",
            b"5\r\n{}\r\n0\r\n\r\n",
            b"2\r\n{}XX0\r\n\r\n",
            b"2;" + b"x" * 100_000 + b"\r\n{}\r\n0\r\n\r\n",
            b"0" * 100_000 + b"2\r\n{}\r\n0\r\n\r\n",
            b"2\r\n{}\r\n0\r\nTrailer: " + b"x" * 100_000 + b"\r\n\r\n",
            chunk(b"{") * 20_000,
        )
    )
    await exchange.send(CHUNKED + body)


async def large_header(exchange: Exchange) -> None:
    """10 MB of header in one line, or 100,000 lines."""
    await exchange.send(b"HTTP/1.1 200 OK\r\n")
    if exchange.chance.random() < 0.5:
        await exchange.send(b"X-Large: ")
        await exchange.flood(b"x" * 65_536, 10 * MIB, pause=0.002)
    else:
        await exchange.flood(b"X-Many: 1\r\n" * 1_000, 100 * 11_000, pause=0.002)
    await exchange.send(b"\r\nContent-Length: 2\r\n\r\n{}")


async def interim_answers(exchange: Exchange) -> None:
    """Thousands of 1xx responses before the true one."""
    status = exchange.chance.choice(("100 Continue", "103 Early Hints", "102 Processing", "101 Switching"))
    await exchange.flood(f"HTTP/1.1 {status}\r\n\r\n".encode() * 200, 200_000)
    await exchange.send(response(exchange.truth()))


async def redirect(exchange: Exchange) -> None:
    """A redirect to anywhere."""
    place = exchange.chance.choice(
        (
            exchange.path,
            "/",
            "//foo..bar",
            "https://127.0.0.1:1/",
            "file:///etc/passwd",
            "http://[::1",
            "\x00",
            "",
        )
    )
    await exchange.send(
        response(b"", exchange.chance.choice((301, 302, 303, 307, 308, 300)), f"Location: {place}")
    )


async def several_answers(exchange: Exchange) -> None:
    """Responses that nobody asked for, after the true one."""
    await exchange.send(
        response(exchange.truth()) + response(b'{"status":"ok"}') * exchange.chance.choice((1, 500))
    )
    await asyncio.sleep(exchange.chance.choice((0.0, 3.0)))


async def odd_headers(exchange: Exchange) -> None:
    """Headers with odd names, values, charsets and cookies."""
    odd = exchange.chance.choice(
        (
            "Content-Type: application/json; charset=x\ud7ff"[:-1],
            "Content-Encoding: ",
            "Transfer-Encoding: identity",
            "Transfer-Encoding: chunked",
            "Set-Cookie: a=b; Domain=.",
            " : x",
            "X\x00: y",
            "Retry-After: 1e9",
            "Warning: 299 - " + "w" * 5_000,
            "Connection: upgrade\r\nUpgrade: h2c",
        )
    )
    await exchange.send(response(exchange.truth(), exchange.chance.choice(STATUSES), odd))


# -- connections -----------------------------------------------------------------------------------------
async def silence(_: Exchange) -> None:
    """Nothing at all for a while."""
    await asyncio.sleep(HOLD_SECONDS)


async def broken_connection(exchange: Exchange) -> None:
    """A reset, or bytes outside of TLS: a fatal alert, a broken record, or plain text."""
    if exchange.chance.random() < 0.5:
        await exchange.send(response(exchange.truth())[: exchange.chance.randrange(200)])
    peer: socket.socket = exchange.writer.get_extra_info("socket")
    form = exchange.chance.randrange(4)
    if form == 0:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        exchange.writer.transport.abort()
        return
    outside = (
        b"\x15\x03\x03\x00\x02\x02\x28",
        b"\x17\x03\x03\x40\x00" + b"x" * 64,
        b"HTTP/1.1 200 OK\r\n\r\n",
    )
    with contextlib.suppress(OSError):
        os.write(peer.fileno(), outside[form - 1])


ANSWERS: Final[tuple[Answer, ...]] = (
    *(
        spoiled_body,
        spoiled_body,
        spoiled_body,
        spoiled_body,
        nested_body,
        odd_body,
        packed_body,
        endless_body,
    ),
    *(slow_body, no_http, old_http, wrong_length, wrong_chunks, large_header, interim_answers, redirect),
    *(several_answers, odd_headers, silence, broken_connection),
)
