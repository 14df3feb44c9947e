"""Lists as HTTP bodies, generated and sent in pieces, and cached while they are small.

A list of a million pods is half a gigabyte. Sent as one body it would be in memory three times for each slow
client, and generating it would block all other requests.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence

from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload

from metrics_adapter.apis import API_VERSION, MetricsKind
from metrics_adapter.members.resource_metrics import MemberItems, merge_in_slices
from metrics_adapter.server.negotiation import JSON

# Limits of the cache. The list of one namespace has kilobytes, and that of all namespaces has megabytes.
MAX_CACHED_BODIES = 256
MAX_CACHED_BYTES = 32 * 2**20
TAIL = b"]}"


class ListBody(Payload):
    """The JSON list of all items of some members' answers, as a payload of aiohttp."""

    _autoclose = True

    def __init__(self, kind: MetricsKind, answers: Sequence[MemberItems]) -> None:
        super().__init__(None, content_type=JSON)
        self._head = _head(kind)
        self._answers = answers
        self._generated: Sequence[bytes] | None = None
        self._kept = False
        count = sum(len(answer.items) for answer in answers)
        commas = max(count - 1, 0)
        self.length = len(self._head) + sum(answer.size for answer in answers) + commas + len(TAIL)

    def made_of(self, answers: Sequence[MemberItems]) -> bool:
        """True if the body was made of exactly these answer objects."""
        return len(self._answers) == len(answers) and all(map(_same, self._answers, answers))

    def keep(self) -> None:
        """Keeps the bytes for later requests once they were generated for one."""
        self._kept = True

    def pieces(self) -> Iterable[bytes]:
        """Returns the bytes in pieces of some hundred kilobytes."""
        return self._generated if self._generated is not None else self._generate()

    def whole(self) -> bytes:
        """Returns all bytes."""
        return b"".join(self.pieces())

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Implements aiohttp's Payload. After each piece it waits for the client and lets others run."""
        made: list[bytes] = []
        for piece in self.pieces():
            if self._kept and self._generated is None:
                made.append(piece)
            await writer.write(piece)
            await asyncio.sleep(0)  # For a fast client, write() returns without giving way to other tasks.
        if self._generated is not None:
            return
        if self._kept:
            self._generated = tuple(made)
        else:
            # The connection keeps a reference to its last payload, which must not keep the answers in memory.
            self._answers = ()

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Implements aiohttp's Payload."""
        return self.whole().decode(encoding, errors)

    def _generate(self) -> Iterator[bytes]:
        # Head, commas and tail are added to single items, so that large pieces are not copied.
        held = [self._head]
        for part in merge_in_slices(self._answers):
            if not part:
                continue
            new = [item.json for item in part]
            if held[0] is self._head:
                new[0] = self._head + new[0]
            else:
                held[-1] += b","
                yield b",".join(held)
            held = new
        held[-1] += TAIL
        yield b",".join(held)


class ListBodyCache:
    """Caches list bodies as long as the members' answers that they were made of stay the same."""

    def __init__(self) -> None:
        self._cached: OrderedDict[str, ListBody] = OrderedDict()
        self._bytes = 0

    def get(self, kind: MetricsKind, scope: str, answers: Sequence[MemberItems]) -> ListBody:
        """Returns the list of all items of `answers`. `scope` is part of the cache key."""
        key = f"{kind.plural} {scope}"
        cached = self._cached.pop(key, None)
        if cached is not None:
            self._bytes -= cached.length
        body = cached if cached is not None and cached.made_of(answers) else ListBody(kind, answers)
        if body.length <= MAX_CACHED_BYTES:
            body.keep()
            self._cached[key] = body
            self._bytes += body.length
        while len(self._cached) > MAX_CACHED_BODIES or self._bytes > MAX_CACHED_BYTES:
            self._bytes -= self._cached.popitem(last=False)[1].length
        return body


def _head(kind: MetricsKind) -> bytes:
    return f'{{"kind":"{kind.kind}List","apiVersion":"{API_VERSION}","metadata":{{}},"items":['.encode()


def _same(left: MemberItems, right: MemberItems) -> bool:
    return left is right
