"""Whole lists as HTTP bodies: made and sent piece by piece, and kept where that pays.

A list of a million pods is half a gigabyte. Sent in one go it would be in memory three times, for each client
that reads slowly, and nobody else would be served meanwhile.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence

from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload

from metrics_adapter.kinds import API_VERSION, MetricsKind
from metrics_adapter.members.items import Item, MemberItems, merged_slices
from metrics_adapter.server.negotiation import JSON

# Lists that are kept ready to be sent again: a namespace is some kilobytes, all namespaces are megabytes.
KEPT_BODIES = 256
KEPT_BYTES = 32 * 2**20
TAIL = b"]}"


class ListBody(Payload):
    """The JSON list of all items of some members' answers."""

    _autoclose = True

    def __init__(self, kind: MetricsKind, answers: Sequence[MemberItems]) -> None:
        super().__init__(None, content_type=JSON)
        self._head = _head(kind)
        self._answers = answers
        self._ready: Sequence[bytes] | None = None
        count = sum(len(answer.items) for answer in answers)
        commas = max(count - 1, 0)
        self.length = len(self._head) + sum(answer.size for answer in answers) + commas + len(TAIL)

    def made_of(self, answers: Sequence[MemberItems]) -> bool:
        """Whether these are the very answers that it lists."""
        return len(self._answers) == len(answers) and all(map(_same, self._answers, answers))

    def keep(self) -> None:
        """Be ready for the next one who asks."""
        if self._ready is None:
            self._ready = tuple(self._made())

    def pieces(self) -> Iterable[bytes]:
        """The bytes, some hundreds of kilobytes at a time."""
        return self._ready if self._ready is not None else self._made()

    def whole(self) -> bytes:
        """All bytes."""
        return b"".join(self.pieces())

    async def write(self, writer: AbstractStreamWriter) -> None:
        """As aiohttp's payloads: between two pieces it waits for the client, and others get their turn."""
        for piece in self.pieces():
            await writer.write(piece)
            await asyncio.sleep(0)  # a client that reads as fast as we write is never waited for
        if self._ready is None:
            # The connection holds on to its last answer; what is not kept must not stay for that long.
            self._answers = ()

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """As aiohttp's payloads."""
        return self.whole().decode(encoding, errors)

    def _made(self) -> Iterator[bytes]:
        # Head, commas and tail are added to single items: pieces are not copied.
        held = [self._head]
        for part in merged_slices(self._answers):
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


class Bodies:
    """Whole lists, for as long as the members' answers they were made of are the same."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, ListBody] = OrderedDict()
        self._bytes = 0

    def list_body(self, kind: MetricsKind, place: str, answers: Sequence[MemberItems]) -> ListBody:
        """The list of all items of `answers`; `place` tells lists of different scopes apart."""
        key = f"{kind.plural} {place}"
        known = self._kept.pop(key, None)
        if known is not None:
            self._bytes -= known.length
        body = known if known is not None and known.made_of(answers) else ListBody(kind, answers)
        if body.length <= KEPT_BYTES:
            body.keep()
            self._kept[key] = body
            self._bytes += body.length
        while len(self._kept) > KEPT_BODIES or self._bytes > KEPT_BYTES:
            self._bytes -= self._kept.popitem(last=False)[1].length
        return body


def list_json(kind: MetricsKind, items: Iterable[Item]) -> bytes:
    """A PodMetricsList or NodeMetricsList."""
    return b"".join((_head(kind), b",".join([item.json for item in items]), TAIL))


def _head(kind: MetricsKind) -> bytes:
    return f'{{"kind":"{kind.kind}List","apiVersion":"{API_VERSION}","metadata":{{}},"items":['.encode()


def _same(left: MemberItems, right: MemberItems) -> bool:
    return left is right
