"""Bodies of lists and Tables: generated in pieces, once for all clients, and sent one piece at a time.

A list of a million pods is half a gigabyte. Sent as one body it would be in memory three times for each slow
client, and generating it would block all other requests.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from operator import is_
from typing import cast

from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_writer import StreamWriter
from aiohttp.payload import Payload

from fedhpa.cache import copy_of
from fedhpa.kube import gzip_pieces
from metrics_adapter.apis import API_VERSION, MetricsKind
from metrics_adapter.members.resource_metrics import MemberItems, all_items, grouped
from metrics_adapter.server.negotiation import JSON
from metrics_adapter.server.tables import META_V1, Columns, column_names, metadata_parts, table_parts

# Limits of the cache. The list of one namespace has kilobytes, and that of all namespaces has megabytes.
MAX_CACHED_BODIES = 256
MAX_CACHED_BYTES = 32 * 2**20
# Bytes that the cells and the frame of a Table's row take.
ROW_BYTES = 128
TAIL = b"]}"
# A piece has hundreds of items, each of up to megabytes. What is written waits in memory for a slow client.
WRITE_BYTES = 512 * 1024


class Body(ABC):
    """The answer to a request for a list, made of some members' answers.

    `length` is its exact size in bytes, None if only generating it would tell. `weight` is about its size.
    """

    def __init__(
        self, kind: MetricsKind, answers: Sequence[MemberItems], *, weight: int, length: int | None
    ) -> None:
        self.kind = kind
        self.answers = answers
        self.weight = weight
        self.length = length
        # The pieces by whether they are compressed; None for a body that is not kept.
        self._kept: dict[bool, _KeptPieces] | None = None

    def made_of(self, answers: Sequence[MemberItems]) -> bool:
        """True if the body was made of exactly these answer objects."""
        return len(self.answers) == len(answers) and all(map(is_, self.answers, answers))

    def keep(self) -> None:
        """Generates each piece for the first client that gets so far, and keeps it for all others."""
        if self._kept is None:
            self._kept = {}

    def pieces(self, *, compressed: bool = False) -> Iterator[bytes]:
        """Returns the bytes in pieces of some hundred kilobytes, or these as gzip."""
        if self._kept is None:
            return self._made(compressed)
        if compressed not in self._kept:
            self._kept[compressed] = _KeptPieces(self._made(compressed))
        return iter(self._kept[compressed])

    def whole(self) -> bytes:
        """Returns all bytes."""
        return b"".join(self.pieces())

    def _made(self, compressed: bool) -> Iterator[bytes]:
        return gzip_pieces(self._generate()) if compressed else self._generate()

    @abstractmethod
    def _generate(self) -> Iterator[bytes]:
        """Yields the pieces."""


class ListBody(Body):
    """The JSON list of all items."""

    def __init__(self, kind: MetricsKind, answers: Sequence[MemberItems]) -> None:
        self._head = _head(kind)
        size = sum(answer.size for answer in answers)
        # The first item follows no comma.
        length = len(self._head) + size - bool(size) + len(TAIL)
        super().__init__(kind, answers, weight=length, length=length)

    def _generate(self) -> Iterator[bytes]:
        texts = chain.from_iterable(answer.texts for answer in self.answers)
        return grouped(chain((self._head + next(texts, b"")[1:],), texts, (TAIL,)))


class TableBody(Body):
    """The Table of all items. `include` is the request's includeObject, and `meta` the Table's apiVersion."""

    def __init__(
        self, kind: MetricsKind, answers: Sequence[MemberItems], include: str, meta: str = META_V1
    ) -> None:
        weight = sum(answer.size + ROW_BYTES * len(answer) for answer in answers)
        super().__init__(kind, answers, weight=weight, length=None)
        self._include = include
        self._meta = meta

    def _generate(self) -> Iterator[bytes]:
        names = column_names(item for part in all_items(self.answers) for item in part)
        columns = Columns(self.kind.kind, API_VERSION, self._include, names, self._meta)
        return table_parts(all_items(self.answers), columns, single=False)


class MetadataBody(Body):
    """The metadata of all items. `meta` is the apiVersion of the list."""

    def __init__(self, kind: MetricsKind, answers: Sequence[MemberItems], meta: str) -> None:
        super().__init__(kind, answers, weight=sum(answer.size for answer in answers), length=None)
        self._meta = meta

    def _generate(self) -> Iterator[bytes]:
        return metadata_parts(all_items(self.answers), self._meta)


class _KeptPieces:
    """The pieces of a body, of which the missing ones come from `source`."""

    def __init__(self, source: Iterator[bytes]) -> None:
        self._source = source
        self._made: list[bytes] = []
        self._error: Exception | None = None

    def __iter__(self) -> Iterator[bytes]:
        index = 0
        while True:
            if index == len(self._made) and not self._make():
                return
            yield self._made[index]
            index += 1

    def _make(self) -> bool:
        # Without the error, all later clients would take what was made before it for the whole body.
        if self._error is not None:
            raise copy_of(self._error)
        try:
            self._made.append(next(self._source))
        except StopIteration:
            return False
        except Exception as error:
            self._error = error
            raise
        return True


class BodyPayload(Payload):
    """Sends a body to one client. `done` is called once, at the end or when the client is gone.

    Each piece is generated and sent while the `turn` is held, so that any number of clients hold up the event
    loop by one piece at a time. Waiting for the client takes no turn.
    """

    _autoclose = True

    def __init__(
        self,
        body: Body,
        turn: asyncio.Lock,
        done: Callable[[], None] | None = None,
        *,
        compressed: bool = False,
    ) -> None:
        super().__init__(None, content_type=JSON)
        # The connection keeps a reference to its last payload, which must not keep the body in memory.
        self._body: Body | None = body
        self._turn = turn
        self._done = done
        self.compressed = compressed

    def __del__(self) -> None:
        self._end()

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Implements aiohttp's Payload."""
        try:
            if self._body is not None:
                await self._send(self._body.pieces(compressed=self.compressed), cast(StreamWriter, writer))
        finally:
            self._end()

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Implements aiohttp's Payload."""
        return "" if self._body is None else self._body.whole().decode(encoding, errors)

    async def _send(self, pieces: Iterator[bytes], writer: StreamWriter) -> None:
        piece, at = b"", 0
        while True:
            async with self._turn:
                if at >= len(piece):
                    following = next(pieces, None)
                    if following is None:
                        return
                    piece, at = following, 0
                await writer.write(piece[at : at + WRITE_BYTES], drain=False)
                at += WRITE_BYTES
                # Others get the turn in the next pass of the event loop, not in this one.
                await asyncio.sleep(0)
            await writer.drain()

    def _end(self) -> None:
        self._body = None
        done, self._done = self._done, None
        if done is not None:
            done()


class BodyCache:
    """Keeps bodies as long as the members' answers that they were made of stay the same."""

    def __init__(self) -> None:
        self._cached: OrderedDict[str, Body] = OrderedDict()
        self._bytes = 0

    def get(
        self,
        key: str,
        answers: Sequence[MemberItems],
        make: Callable[[Sequence[MemberItems]], Body],
    ) -> Body:
        """Returns the body of that key, which `make` makes of the answers."""
        cached = self._cached.pop(key, None)
        if cached is not None:
            self._bytes -= cached.weight
        body = cached if cached is not None and cached.made_of(answers) else make(answers)
        if body.weight <= MAX_CACHED_BYTES:
            body.keep()
            self._cached[key] = body
            self._bytes += body.weight
        while len(self._cached) > MAX_CACHED_BODIES or self._bytes > MAX_CACHED_BYTES:
            self._bytes -= self._cached.popitem(last=False)[1].weight
        return body


def _head(kind: MetricsKind) -> bytes:
    return f'{{"kind":"{kind.kind}List","apiVersion":"{API_VERSION}","metadata":{{}},"items":['.encode()
