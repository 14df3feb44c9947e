"""The result of an instant query, decoded from the Prometheus HTTP API's JSON and validated.

A NaN, an infinity, a negative, too large or outdated value is an error. It never becomes zero.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

import msgspec

from fedhpa.api.errors import MetricsUnavailable
from fedhpa.api.json import InvalidJson, decode_json
from fedhpa.api.quantity import MAX_INT64, Quantity
from fedhpa.api.texts import cut_line

# Kubernetes computes with thousandths in 64 bits.
MAX_NANO = MAX_INT64 * 10**6
# Prometheus' default lookback for a sample. The clocks may differ by as much.
STALE_SECONDS = 300.0
SHOWN = 200
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
    resultType: str
    result: msgspec.Raw = msgspec.Raw(b"[]")


class _Envelope(msgspec.Struct, frozen=True):
    status: str = ""
    data: _Data | None = None
    warnings: list[str] | None = None
    errorType: str = ""
    error: str = ""


@dataclass(frozen=True)
class QueryResult:
    """All series of a query, and the store's first warnings. `asked_at` is the Unix time of the request."""

    series: tuple[Series, ...]
    warnings: tuple[str, ...]
    asked_at: float
    # Bytes in memory, estimated.
    size: int = 0


def decode_result(body: bytes, asked_at: float) -> QueryResult:
    """Decodes an instant vector. Raises MetricsUnavailable for an error or another type of result."""
    try:
        envelope = decode_json(body, _Envelope)
        if envelope.status != "success" or envelope.data is None:
            raise MetricsUnavailable(f"it answered {shown(envelope.status)}: {shown(envelope.error)}")
        if envelope.data.resultType != "vector":
            raise MetricsUnavailable(
                f"the query gives a {shown(envelope.data.resultType)}: write one that gives an instant vector"
            )
        series = tuple(decode_json(envelope.data.result, list[Series]))
    except InvalidJson as error:
        raise MetricsUnavailable(f"its answer cannot be read: {error}") from error
    warnings = (envelope.warnings or [])[:MAX_WARNINGS]
    size = MEMORY_FACTOR * len(body)
    return QueryResult(series, tuple(shown(text) for text in warnings), asked_at, size)


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
