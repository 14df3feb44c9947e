"""Decodes large lists in pieces, between which other tasks, or other threads, run.

The decoder holds Python's lock, so a list of 60 MB would stop the whole process for seconds, also in a
thread. A list is therefore cut between two items. Each piece becomes a small list with the same head (kind,
apiVersion, metadata), so the functions that decode whole lists decode pieces, too.

Reading every byte in Python to find where an item ends would cost more than decoding. A cut is guessed
instead, where the text looks like the end of one item and the beginning of the next. The guess is right if
and only if the piece is valid JSON: the piece begins where an item begins, and a cut inside an item or a
string leaves something open. After a wrong guess the exact end is searched byte by byte.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Sequence, Sized
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import msgspec

from fedhpa.api.errors import InvalidObject
from fedhpa.api.json import MAX_VALUES, InvalidJson, check_named, decode_json, has_more_values

P = TypeVar("P", bound=Sized)

# Bytes of a piece. The most expensive JSON (a list of empty objects) decodes at 6 MB a second: 11 ms a piece.
PIECE_BYTES: Final = 64 * 1024
# Other tasks get to run when this much time has passed, so that small pieces do not pay for it.
TURN_SECONDS: Final = 0.005
# Kubernetes supports 150,000 pods in a cluster.
MAX_ITEMS: Final = 150_000
# etcd stores objects of at most 1.5 MB.
MAX_ITEM_BYTES: Final = 2 * 2**20
# The kind, apiVersion and metadata of a list, with its continue token.
MAX_HEAD_BYTES: Final = 16 * 1024
# The text after the items, with the warnings of a metrics store.
MAX_TAIL_BYTES: Final = 4 * 2**20
# The bytes of one list in which item ends are searched byte by byte, which takes a second for 10 MB.
MAX_SEARCHED_BYTES: Final = 16 * 2**20

# A guessed cut is looked for within so many pieces. After that, the end of the item is searched. The owner of
# an object may fill its annotations with anything, up to 256 KiB.
GUESS_PIECES: Final = 8

# The beginning of an item up to its first key. In answers of one server every item begins alike.
_BEGINNING = re.compile(rb'\s*\{\s*(?:"[^"\\]{0,64}"\s*:)?')
_SEPARATION = re.compile(rb'\s*,\s*\{\s*(?:"[^"\\]{0,64}"\s*:)?')
_END = re.compile(rb"\s*\]")
# The closing quote is optional: a string without an end is passed over at once, not character by character.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{},]', re.DOTALL)
# Tokens between two looks at the clock.
_TOKENS_PER_TURN: Final = 2_000


class TooLarge(InvalidObject):
    """An answer has more items, or larger ones, than any Kubernetes API serves."""


@dataclass(frozen=True)
class ListForm:
    """Where a document has its list.

    - `opening`: matches the end of the text before the first item.
    - `closing`: completes the document after the last item.
    - `accepts`: True for a text with an empty list that begins as such a document does.
    - `max_item`: the bytes of the largest item whose end is searched for.
    """

    opening: re.Pattern[bytes]
    closing: bytes
    accepts: Callable[[bytes], bool]
    max_item: int


@dataclass(frozen=True)
class SplitList(Generic[P]):
    """The decoded pieces of a list, and the text of the document before and after its items."""

    pieces: Sequence[P]
    head: bytes
    tail: bytes


class Turns:
    """Lets other tasks run whenever the current task has used `seconds` of real time."""

    def __init__(self, seconds: float = TURN_SECONDS) -> None:
        self._seconds = seconds
        self._ends = time.perf_counter() + seconds

    async def pause(self) -> None:
        """Let other tasks run if it is their turn."""
        if time.perf_counter() >= self._ends:
            await asyncio.sleep(0)
            self._ends = time.perf_counter() + self._seconds


async def decode_in_pieces(
    chunks: Sequence[bytes],
    decode: Callable[[bytes], P],
    *,
    salvage: Callable[[Sequence[bytes], bytes], P] | None = None,
    max_items: int = MAX_ITEMS,
) -> list[P]:
    """Returns what `decode` makes of each piece of a list, in order; of a small body, of the whole.

    `decode` gets a JSON list as bytes, and returns something whose length is the number of items. A piece
    that it cannot decode is given to `salvage`: one text for each item, and the list without them. Raises
    what `decode` raises, InvalidJson and TooLarge. Without `salvage` it raises InvalidObject for a large list
    without kind or apiVersion, which `decode` cannot know of a piece.
    """
    size = sum(map(len, chunks))
    if size <= PIECE_BYTES:
        try:
            return [_limited(decode(b"".join(chunks)), max_items)]
        except InvalidJson:
            if salvage is None:
                raise
    splitter = _Splitter(chunks, KUBERNETES_LIST)
    if not splitter.is_list:
        body = _small(chunks)
        if salvage is None:
            check_named(body, body)
        return [_limited(decode(body), max_items)]
    return await _decoded(splitter, decode, salvage, max_items)


async def decode_items(
    chunks: Sequence[bytes], form: ListForm, decode: Callable[[bytes], P], *, max_items: int
) -> SplitList[P] | None:
    """Returns what `decode` makes of each piece of the list in a document of another form; None for no list.

    `decode` gets a JSON list of items without the document around it. A document without the list has at most
    MAX_ITEM_BYTES. Raises what `decode` raises, InvalidJson and TooLarge.
    """
    splitter = _Splitter(chunks, form, is_bare=True)
    if not splitter.is_list:
        _small(chunks)
        return None
    return SplitList(await _decoded(splitter, decode, None, max_items), splitter.head, splitter.tail)


async def _decoded(
    splitter: _Splitter,
    decode: Callable[[bytes], P],
    salvage: Callable[[Sequence[bytes], bytes], P] | None,
    max_items: int,
) -> list[P]:
    found: list[P] = []
    left, turns = max_items, Turns()
    while splitter.guess():
        if found and splitter.is_empty:
            raise InvalidJson("an item is missing after a comma")
        value = await _decode_piece(splitter, decode, salvage, turns)
        if splitter.is_bare and not len(value) and not splitter.is_last:
            raise InvalidJson("an item is missing before a comma")
        if splitter.is_last and salvage is None and not splitter.is_bare:
            check_named(splitter.head + b"]}", splitter.body())
        splitter.take()
        left -= len(value)
        if left < 0:
            raise TooLarge(f"answer has more than {max_items} items")
        found.append(value)
        await turns.pause()
    return found


async def _decode_piece(
    splitter: _Splitter,
    decode: Callable[[bytes], P],
    salvage: Callable[[Sequence[bytes], bytes], P] | None,
    turns: Turns,
) -> P:
    try:
        if not splitter.is_guessed:
            await splitter.search(turns)
        return decode(splitter.body())
    except TooLarge:
        raise
    except Exception:
        if not _is_json(splitter.body()) and splitter.is_guessed:
            await splitter.search(turns)
            try:
                return decode(splitter.body())
            except InvalidJson:
                if salvage is None:
                    raise
        elif salvage is None:
            raise
    return salvage(*await splitter.items(turns))


class _Splitter:
    """The bytes of a list from the present piece on: `guess` or `search` finds it, `take` removes it.

    A piece has the head of the document; with `is_bare` it is a list of items alone, and `tail` is the text
    after the last item.
    """

    def __init__(self, chunks: Sequence[bytes], form: ListForm, *, is_bare: bool = False) -> None:
        self._form = form
        self.is_bare = is_bare
        self._chunks = iter(chunks)
        self._text = bytearray()
        self._all_read = False
        self._searched = 0
        # The piece is text[:_end], and the next one begins at _next.
        self._end = self._next = 0
        self.tail = b""
        self.is_last = False
        self.is_guessed = False
        self._read(MAX_HEAD_BYTES)
        # The text up to the first item; empty if it is no list.
        self.head = self._find_head()
        self._separator = b""
        if self.head:
            del self._text[: len(self.head)]
            self._read(1024)
            beginning = _BEGINNING.match(self._text)
            self._separator = b"}," + beginning.group() if beginning is not None else b""

    @property
    def is_list(self) -> bool:
        """True if the text begins as a list does."""
        return bool(self.head)

    @property
    def is_empty(self) -> bool:
        """True if the list ends where the piece begins."""
        return _END.match(self._text) is not None

    def guess(self) -> bool:
        """Guess the end of the next piece; False after the last one. Without a guess it must be searched."""
        if self.is_last and not self._text:
            return False
        self._read(2 * PIECE_BYTES)
        if self._all_read and len(self._text) <= 2 * PIECE_BYTES:
            self._cut(len(self._text), len(self._text), last=True)
            # Only a search finds where the tail begins.
            self.is_guessed = not self.is_bare
            return True
        found = -1
        # Each piece copies all that was read ahead, so most pieces must do with the next one.
        for count in (2, GUESS_PIECES) if self._separator else ():
            self._read(count * PIECE_BYTES)
            found = self._text.find(self._separator, PIECE_BYTES)
            if found >= 0:
                break
        self.is_guessed = 0 <= found < GUESS_PIECES * PIECE_BYTES
        if self.is_guessed:
            self._cut(found + 1, found + 2, last=False)
        return True

    async def search(self, turns: Turns) -> None:
        """Find the end of the piece byte by byte."""
        self.is_guessed = False
        self._read(PIECE_BYTES + self._form.max_item)
        # A copy, because the buffer cannot change while the search refers to it.
        list_end = None
        async for end, is_last in _item_ends(bytes(self._text), turns):
            if is_last:
                list_end = end
                if self.is_bare:
                    self._read(end + MAX_TAIL_BYTES)
                break
            if end >= PIECE_BYTES:
                self._count_searched(end)
                separation = _SEPARATION.match(self._text, end)
                if separation is not None:
                    self._separator = bytes(self._text[end - 1 : separation.end()])
                self._cut(end, self._text.index(b",", end) + 1, last=False)
                return
        if not self._all_read:
            if list_end is not None:
                raise TooLarge("answer has too much text after its items")
            raise TooLarge(f"answer has an item that is larger than {self._form.max_item} bytes")
        self._count_searched(len(self._text))
        size = len(self._text)
        if not self.is_bare:
            self._cut(size, size, last=True)
        elif list_end is None:
            raise InvalidJson("the list has no end")
        else:
            self.tail = bytes(self._text[list_end:])
            _check_values(self.tail)
            self._cut(list_end, size, last=True)

    def body(self) -> bytes:
        """Returns the piece as a list of its own. Raises TooLarge if it has too many values."""
        before, after = self.head, b"" if self.is_last else self._form.closing
        if self.is_bare:
            before, after = b"[", b"]"
        with memoryview(self._text) as text:
            body = b"".join((before, text[: self._end], after))
        if self._end > GUESS_PIECES * PIECE_BYTES:
            _check_values(body)
        return body

    async def items(self, turns: Turns) -> tuple[list[bytes], bytes]:
        """Returns the text of each item of the piece, and a list that is empty but for its metadata."""
        found, begin, rest = [], 0, b"]}"
        piece = bytes(self._text[: self._end])
        self._count_searched(len(piece))
        async for end, is_last in _item_ends(piece, turns):
            found.append(piece[begin:end].strip())
            begin = end + 1
            if is_last:
                rest = piece[end:]
                break
        else:
            if self.is_last:
                raise InvalidJson("the list has no end")
            found.append(piece[begin:].strip())
        return [text for text in found if text], self.head + rest

    def take(self) -> None:
        """Go on after the piece."""
        del self._text[: self._next]

    def _cut(self, end: int, after: int, *, last: bool) -> None:
        self._end, self._next, self.is_last = end, after, last

    def _read(self, wanted: int) -> None:
        while not self._all_read and len(self._text) < wanted:
            chunk = next(self._chunks, None)
            self._all_read = chunk is None
            self._text += chunk or b""

    def _find_head(self) -> bytes:
        """Returns the text up to the first item; empty if it is no list."""
        for number, match in enumerate(self._form.opening.finditer(self._text, 0, MAX_HEAD_BYTES)):
            head = bytes(self._text[: match.end()])
            if self._form.accepts(head + self._form.closing):
                return head
            if number == GUESS_PIECES:
                break
        return b""

    def _count_searched(self, count: int) -> None:
        self._searched += count
        if self._searched > MAX_SEARCHED_BYTES:
            raise TooLarge("answer has items of too many different forms")


async def _item_ends(text: bytes, turns: Turns) -> AsyncIterator[tuple[int, bool]]:
    """Yields where each item of a list ends, and True if the list ends there, too."""
    depth = 0
    for count, token in enumerate(_TOKEN.finditer(text)):
        first = token[0][0]
        if first in b"{[":
            depth += 1
        elif first in b"}]":
            depth -= 1
            if depth < 0:
                yield token.start(), True
                return
        elif first == ord(",") and not depth:
            yield token.start(), False
        if count % _TOKENS_PER_TURN == 0:
            await turns.pause()


def _small(chunks: Sequence[bytes]) -> bytes:
    """Returns a body that is decoded at once. Raises TooLarge if that would take too long."""
    size = sum(map(len, chunks))
    if size > MAX_ITEM_BYTES:
        raise TooLarge(f"answer of {size} bytes is no list")
    return b"".join(chunks)


def _limited(value: P, most: int) -> P:
    if len(value) > most:
        raise TooLarge(f"answer has more than {most} items")
    return value


def _check_values(text: bytes) -> None:
    if has_more_values(text, MAX_VALUES):
        raise TooLarge(f"answer has an item with more than {MAX_VALUES} values")


def _is_json(text: bytes) -> bool:
    try:
        decode_json(text, msgspec.Raw)
    except InvalidJson:
        return False
    return True


KUBERNETES_LIST: Final = ListForm(re.compile(rb'"items"\s*:\s*\['), b"]}", _is_json, MAX_ITEM_BYTES)
