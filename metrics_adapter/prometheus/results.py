"""The result of an instant query, decoded from the Prometheus HTTP API's JSON and validated.

A NaN, an infinity, a negative, too large or outdated value is an error. It never becomes zero.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

import msgspec

from fedhpa.api.errors import InvalidObject, MetricsUnavailable
from fedhpa.api.json import WHOLE_BYTES, InvalidJson, decode_json
from fedhpa.api.quantity import MAX_INT64, Quantity
from fedhpa.api.texts import cut_line
from fedhpa.kube import ListForm, decode_items

# Kubernetes computes with thousandths in 64 bits.
MAX_NANO = MAX_INT64 * 10**6
# Prometheus' default lookback for a sample. The clocks may differ by as much.
STALE_SECONDS = 300.0
SHOWN = 200
# The largest answer of a store that this adapter was measured with has 100,000 series.
MAX_SERIES = 500_000
# The values of 200 series over 11,000 steps, with their times.
MAX_MATRIX_VALUES = 8_000_000
# A series has tens of labels of at most some hundred bytes.
MAX_SERIES_BYTES = 256 * 1024
# A store may warn of each of its hundreds of failing backends, and the size of response headers is limited.
MAX_WARNINGS = 10

# Bytes in memory for each byte of an answer: measured with 1 to 10 short labels a series, and rounded up.
MEMORY_FACTOR = 6
# Characters of a number that is cached. Go writes a float in at most 24, unless it is very large or small.
MAX_CACHED = 32
# The form in which Go writes floats. Suffixes that Kubernetes accepts ("5Mi") are rejected.
_NUMBER = re.compile(r"[0-9]{1,400}(?:\.[0-9]{1,400})?(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)


class Series(msgspec.Struct, frozen=True, gc=False):
    """One series: its labels, and its value as evaluation time and text."""

    metric: dict[str, str]
    value: tuple[float, str] | None = None

    def labels(self) -> dict[str, str]:
        """Returns a copy of the labels, without the store's own (__name) and without an empty name."""
        found = dict(self.metric)
        for name in self.metric:
            if not name or name[:2] == "__":
                del found[name]
        return found


class _Data(msgspec.Struct, frozen=True):
    resultType: str = ""
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _Envelope(msgspec.Struct, frozen=True):
    status: str = ""
    data: _Data | None = None
    warnings: list[str] | None = None
    errorType: str = ""
    error: str = ""

    def result(self, kind: str = "vector") -> bytes:
        """Returns the text of an instant vector or a matrix. Raises MetricsUnavailable for anything else."""
        if self.status != "success" or self.data is None:
            raise MetricsUnavailable(f"it answered {shown(self.status)}: {shown(self.error)}")
        if self.data.resultType != kind:
            raise MetricsUnavailable(
                f"the query gives a {shown(self.data.resultType)}: write one that gives an instant vector"
            )
        if isinstance(self.data.result, msgspec.UnsetType):
            raise MetricsUnavailable("its answer has no result")
        return bytes(self.data.result)


@dataclass(frozen=True)
class QueryResult:
    """All series of a query, and the store's first warnings. `asked_at` is the Unix time of the request."""

    series: tuple[Series, ...]
    warnings: tuple[str, ...]
    asked_at: float
    # Bytes in memory, estimated.
    size: int = 0


class RangeSeries(msgspec.Struct, frozen=True, gc=False):
    """One series over a range of time: its labels, and its values as time and text."""

    metric: dict[str, str]
    values: list[tuple[float, str]] = []


@dataclass(frozen=True)
class MatrixResult:
    """All series of a query over a range of time, and the store's first warnings."""

    series: tuple[RangeSeries, ...]
    warnings: tuple[str, ...]


def decode_matrix(chunks: Sequence[bytes]) -> MatrixResult:
    """Decodes the result of a query over a range. Raises MetricsUnavailable for anything else."""
    try:
        envelope = decode_json(b"".join(chunks), _Envelope, max_values=MAX_MATRIX_VALUES)
        series = decode_json(envelope.result("matrix"), list[RangeSeries], max_values=MAX_MATRIX_VALUES)
    except InvalidObject as error:
        raise MetricsUnavailable(f"its answer cannot be read: {error}") from error
    warnings = (envelope.warnings or [])[:MAX_WARNINGS]
    return MatrixResult(tuple(series), tuple(shown(text) for text in warnings))


def number_of(text: str) -> float | None:
    """Returns the number of a sample; None for one that is no usable number (NaN, infinite, negative)."""
    return float(text) if len(text) <= MAX_CACHED and _NUMBER.fullmatch(text) else None


def decode_result(chunks: Sequence[bytes], asked_at: float) -> QueryResult:
    """Decodes an instant vector, which comes in parts. Raises MetricsUnavailable for anything else.

    A large answer is decoded in pieces, because the decoder holds Python's lock. Call this in a thread.
    """
    size = sum(map(len, chunks))
    try:
        if size <= WHOLE_BYTES:
            envelope, series = _decode_whole(b"".join(chunks))
        else:
            # The thread's own loop gives other threads their turn between two pieces.
            envelope, series = asyncio.run(_decode_large(chunks))
    except InvalidObject as error:
        raise MetricsUnavailable(f"its answer cannot be read: {error}") from error
    warnings = (envelope.warnings or [])[:MAX_WARNINGS]
    return QueryResult(series, tuple(shown(text) for text in warnings), asked_at, MEMORY_FACTOR * size)


def _decode_whole(body: bytes) -> tuple[_Envelope, tuple[Series, ...]]:
    envelope = decode_json(body, _Envelope)
    return envelope, tuple(_decode_series(envelope.result()))


async def _decode_large(chunks: Sequence[bytes]) -> tuple[_Envelope, tuple[Series, ...]]:
    found = await decode_items(chunks, _VECTOR, _decode_series, max_items=MAX_SERIES)
    if found is None:
        return _decode_whole(b"".join(chunks))
    # A mark takes the place of the series. It is longer than the tail, so the tail cannot have it.
    mark = b'"' + b"." * len(found.tail) + b'"'
    envelope = decode_json(found.head + mark + found.tail, _Envelope)
    if envelope.result() != b"[" + mark + b"]":
        raise MetricsUnavailable("its answer has two results")
    return envelope, tuple(chain.from_iterable(found.pieces))


def _decode_series(result: bytes) -> list[Series]:
    return decode_json(result, list[Series])


def _is_answer(text: bytes) -> bool:
    """True if a text with an empty list has this list as its result."""
    try:
        data = decode_json(text, _Envelope).data
    except InvalidJson:
        return False
    return data is not None and data.result is not msgspec.UNSET and bytes(data.result) == b"[]"


_VECTOR = ListForm(re.compile(rb'"result"\s*:\s*\['), b"]}}", _is_answer, MAX_SERIES_BYTES)


def error_text(body: bytes) -> str:
    """Returns the store's error message, or "" if the body cannot be decoded."""
    try:
        envelope = decode_json(body, _Envelope)
    except InvalidJson:
        return ""
    return shown(": ".join(text for text in (envelope.errorType, envelope.error) if text))


def amount_of(series: Series, asked_at: float) -> Quantity:
    """Returns the value of a series. Raises MetricsUnavailable for an unusable one."""
    if series.value is None:
        raise MetricsUnavailable("it is no number")
    at, text = series.value
    # A comparison with NaN is false, so a NaN time counts as outdated.
    if not abs(asked_at - at) <= STALE_SECONDS:
        raise MetricsUnavailable(f"its time is more than {STALE_SECONDS:.0f} s off")
    return Quantity(_cached_nano(text) if len(text) <= MAX_CACHED else _nano(text))


def _nano(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise MetricsUnavailable(f"{shown(text)!r} is not a usable number")
    nano = Quantity.parse(text).nano
    if nano > MAX_NANO:
        raise MetricsUnavailable(f"{shown(text)!r} is too large")
    return nano


# Many of tens of thousands of pods have the same value.
_cached_nano = lru_cache(maxsize=65_536)(_nano)


def shown(text: str) -> str:
    """Returns a store's text for a message: one line of bounded length."""
    return cut_line(text, SHOWN)
