"""The answer of a metrics store to an instant query, read with suspicion.

An answer is JSON of the Prometheus HTTP API. A series whose value is no number that can be meant (NaN, an
infinity, a negative or absurd one, one that is long out of date) has none: it never becomes zero.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

import msgspec

from fedhpa.api.errors import MetricsUnavailable
from fedhpa.api.quantity import MAX_INT64, Quantity
from fedhpa.api.texts import cut_line

# Thousandths of a value are what Kubernetes reckons with, in 64 bits.
MAX_NANO = MAX_INT64 * 10**6
# Prometheus looks back so far for a sample; clocks may differ by as much.
STALE_SECONDS = 300.0
SHOWN = 200
# A store behind which hundreds fail names each; one answer's headers hold only so much.
MOST_WARNINGS = 10

# How Go writes floats. What Kubernetes reads beside that ("5Mi") no store sends that means well.
_NUMBER = re.compile(r"[0-9]{1,400}(?:\.[0-9]{1,400})?(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)


class Series(msgspec.Struct, frozen=True, gc=False):
    """One series: its labels, and when its value was looked at with the value as text."""

    metric: dict[str, str]
    value: tuple[float, str] | None = None

    def labels(self) -> dict[str, str]:
        """The labels that are not the store's own, to be changed at will; none is called ""."""
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


_DECODE = msgspec.json.Decoder(_Envelope).decode
_DECODE_VECTOR = msgspec.json.Decoder(list[Series]).decode


@dataclass(frozen=True)
class Answer:
    """All series of a query, and what the store itself says is wrong with them; `asked_at` is Unix time.

    Of many warnings there are the first.
    """

    series: tuple[Series, ...]
    warnings: tuple[str, ...]
    asked_at: float


def decode_answer(body: bytes, asked_at: float) -> Answer:
    """The vector of a store's answer. Raises MetricsUnavailable for anything else."""
    try:
        envelope = _DECODE(body)
        if envelope.status != "success" or envelope.data is None:
            raise MetricsUnavailable(f"it answered {shown(envelope.status)}: {shown(envelope.error)}")
        if envelope.data.resultType != "vector":
            raise MetricsUnavailable(
                f"the query gives a {shown(envelope.data.resultType)}: write one that gives an instant vector"
            )
        series = tuple(_DECODE_VECTOR(envelope.data.result))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MetricsUnavailable(f"its answer cannot be read: {error}") from error
    warnings = (envelope.warnings or [])[:MOST_WARNINGS]
    return Answer(series, tuple(shown(text) for text in warnings), asked_at)


def error_text(body: bytes) -> str:
    """What a store says of an error, "" if that cannot be read."""
    try:
        envelope = _DECODE(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    return shown(": ".join(text for text in (envelope.errorType, envelope.error) if text))


def amount_of(series: Series, asked_at: float) -> Quantity:
    """The value of a series. Raises MetricsUnavailable saying what is wrong with it."""
    if series.value is None:
        raise MetricsUnavailable("it is no number")
    at, text = series.value
    # A comparison with a NaN is false: it is out of date, too.
    if not abs(asked_at - at) <= STALE_SECONDS:
        raise MetricsUnavailable(f"its time is more than {STALE_SECONDS:.0f} s off")
    return Quantity(_nano(text))


# Of tens of thousands of pods many have the same value.
@lru_cache(maxsize=65_536)
def _nano(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise MetricsUnavailable(f"{shown(text)!r} is no number that can be meant")
    nano = Quantity.parse(text).nano
    if nano > MAX_NANO:
        raise MetricsUnavailable(f"{shown(text)!r} is too large")
    return nano


def shown(text: str) -> str:
    """A store's text, for a message: one line, bounded."""
    return cut_line(text, SHOWN)
