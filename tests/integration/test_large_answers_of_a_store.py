"""No answer of a metrics store blocks the event loop while a thread decodes it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fedhpa.api.errors import MetricsUnavailable
from metrics_adapter.prometheus.client import CHUNK, MAX_RESULT_BYTES
from metrics_adapter.prometheus.results import QueryResult, decode_result
from tests.support.costs import least_hold_by_thread
from tests.support.nightly import NIGHTLY

NOW = 1_773_230_400.0
# The bound is of processor time, because a machine that shares its processors may stand still for longer.
MOST_SECONDS = 0.05
FIRST = b'{"status":"success","data":{"resultType":"vector","result":['
LAST = b"]}}"


def filled(one: bytes) -> bytes:
    """Returns the longest allowed answer that repeats one series."""
    count = (MAX_RESULT_BYTES - len(FIRST) - len(LAST)) // (len(one) + 1)
    return FIRST + b",".join([one] * count) + LAST


def series(number: int) -> bytes:
    return b'{"metric":{"cluster":"member1","pod":"web-%d"},"value":[1773230400.123,"0.25"]}' % number


def labels(count: int) -> bytes:
    return b'{"metric":{' + b",".join(b'"%d":""' % number for number in range(count)) + b"}}"


def sound() -> bytes:
    return FIRST + b",".join(map(series, range(100_000))) + LAST


HOSTILE: dict[str, Callable[[], bytes]] = {
    "empty series": lambda: filled(b'{"metric":{}}'),
    "nulls": lambda: filled(b"null"),
    "many labels": lambda: filled(labels(100_000)),
    "fewer labels": lambda: filled(labels(25_000)),
    "equal labels": lambda: filled(b'{"metric":{' + b'"":"",' * 40_000 + b'"":""}}'),
    "unknown fields": lambda: filled(b'{"metric":{},"x":[' + b"{}," * 20_000 + b"{}]}"),
    "one label": lambda: FIRST + b'{"metric":{"a":"' + b"x" * 31_000_000 + b'"}}' + LAST,
    "escapes": lambda: filled(b'{"metric":{"a":"' + b"\\u00e9" * 10_000 + b'"}}'),
    "false ends": lambda: filled(b'{"x":[{"metric":{"a":1},"y":1},{"metric":{"a":2},"y":2}],"metric":{}}'),
    "blanks": lambda: FIRST + b" " * 31_000_000 + LAST,
    "no end": lambda: filled(series(1))[:-3],
    "no list": lambda: (
        b'{"status":"success","data":{"resultType":"vector","result":{' + b'"":{},' * 5_000_000
    ),
    "warnings": lambda: FIRST + LAST[:-1] + b',"warnings":[' + b'"",' * 10_000_000 + b'""]}',
    "long warnings": lambda: FIRST + LAST[:-1] + b',"warnings":["' + b"x" * 3_900_000 + b'"]}',
    "many warnings": lambda: FIRST + LAST[:-1] + b',"warnings":[' + b'"",' * 145_000 + b'""]}',
}


# By day one of those that are decoded or refused alike.
BY_DAY = ("empty series", "many labels", "unknown fields", "escapes", "false ends", "no list", "warnings")


async def decoded(body: bytes) -> tuple[QueryResult | None, float]:
    """Returns the result, or None if the answer is refused, and the longest hold of the loop."""
    chunks = [body[at : at + CHUNK] for at in range(0, len(body), CHUNK)]

    def decode() -> QueryResult | None:
        try:
            return decode_result(chunks, NOW)
        except MetricsUnavailable:
            return None

    return await least_hold_by_thread(decode, MOST_SECONDS)


async def test_a_large_answer_is_decoded_in_pieces() -> None:
    """An answer with 100,000 series is read completely, and the event loop runs all the while."""
    result, longest = await decoded(sound())

    assert result is not None
    assert len(result.series) == 100_000
    assert longest < MOST_SECONDS


@pytest.mark.nightly
@pytest.mark.parametrize("kind", HOSTILE if NIGHTLY else BY_DAY)
async def test_a_hostile_answer_holds_no_loop(kind: str) -> None:
    """The event loop runs while an expensive answer of 32 MiB is decoded or refused."""
    _, longest = await decoded(HOSTILE[kind]())

    assert longest < MOST_SECONDS
