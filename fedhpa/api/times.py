"""Parses and formats times (POSIX seconds) and durations (seconds) in the API's notation.

Nothing here reads a clock. A float keeps microseconds of this century through parsing and formatting.
Kubernetes' own times are whole seconds.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

import msgspec

from fedhpa.api.errors import InvalidObject

# A stored time in POSIX seconds, until the year 2984.
Seconds = Annotated[float, msgspec.Meta(ge=0, lt=3.2e10)]

# Go's zero time, 0001-01-01T00:00:00Z: the value of an absent metav1.Time. An absent *metav1.Time, such as
# the start time of a pod that never started, is None instead.
ZERO_TIME: Final = -62135596800.0
# 9999-12-31T23:59:59Z, in the last year of RFC 3339.
LAST_TIME: Final = 253402300799.0

# Longer than any RFC 3339 time.
MAX_TIME: Final = 64

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(?:Z|[+-][0-9]{2}:[0-9]{2})", re.ASCII
)
_DURATION_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_UNIT_SECONDS: Final = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
}


def parse_time(text: str | None) -> float | None:
    """Returns the POSIX seconds of an RFC 3339 time, with fractions; None for None. Raises InvalidObject."""
    return None if text is None else (read_time(text) - _EPOCH).total_seconds()


def known_time(text: object) -> float | None:
    """Returns the POSIX seconds of a value from outside; None unless it is an RFC 3339 time."""
    try:
        return parse_time(text) if isinstance(text, str) and len(text) <= MAX_TIME else None
    except InvalidObject:
        return None


def read_time(text: str) -> datetime:
    """Returns the aware datetime of an RFC 3339 time. Raises InvalidObject."""
    # fromisoformat accepts more than RFC 3339. Only Kubernetes' own form skips the pattern.
    plain = len(text) == 20 and text[19] == "Z" and text[10] == "T"
    if not plain and not _TIME.fullmatch(text):
        raise InvalidObject(f"{text!r} is not an RFC 3339 time such as '2026-03-11T13:23:17Z'")
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidObject(f"{text!r} is not an RFC 3339 time: {error}") from error
    if moment.tzinfo is None:
        raise InvalidObject(f"{text!r} is not an RFC 3339 time: it has no zone")
    return moment


def format_time(seconds: float) -> str:
    """Returns RFC 3339 in UTC, with a fraction of up to six digits if there is one.

    Times before Go's zero time or after the last year become these limits.
    """
    moment = _EPOCH + timedelta(seconds=min(max(seconds, ZERO_TIME), LAST_TIME))
    # Not strftime("%Y"), which does not pad years before 1000, such as that of Go's zero time.
    text = moment.replace(tzinfo=None, microsecond=0).isoformat()
    if moment.microsecond:
        text += f".{moment.microsecond:06}".rstrip("0")
    return text + "Z"


def parse_duration(value: str | float) -> float:
    """Returns the seconds of a Go duration ("1h30m", "15.5s", "0") or of a number. Raises InvalidObject."""
    if isinstance(value, bool):
        raise InvalidObject(f"{value!r} is not a duration: write '5m' or a number of seconds")
    if isinstance(value, int | float):
        if value != value or value in (float("inf"), float("-inf")):
            raise InvalidObject(f"{value!r} is not a finite number of seconds")
        return float(value)
    sign = -1.0 if value.startswith("-") else 1.0
    rest = value[1:] if value[:1] in ("-", "+") else value
    if rest == "0":
        return 0.0
    seconds = 0.0
    position = 0
    while position < len(rest):
        part = _DURATION_PART.match(rest, position)
        if part is None:
            break
        seconds += float(part[1]) * _UNIT_SECONDS[part[2]]
        position = part.end()
    if not rest or position != len(rest):
        raise InvalidObject(
            f"{value!r} is not a duration: write a Go duration such as '5m', '1h30m' or '15.5s'"
        )
    return sign * seconds


def format_duration(seconds: float) -> str:
    """Returns a duration as Go prints it: "5m0s", "1h0m0s", "1.5s", "250ms", "0s"."""
    nanoseconds = round(abs(seconds) * 1e9)
    sign = "-" if seconds < 0 and nanoseconds else ""
    if nanoseconds < 1_000_000_000:
        return sign + _below_a_second(nanoseconds)
    minutes, rest = divmod(nanoseconds, 60_000_000_000)
    text = _trimmed(rest, 9) + "s"
    if minutes:
        text = f"{minutes % 60}m{text}"
    if minutes >= 60:
        text = f"{minutes // 60}h{text}"
    return sign + text


def _below_a_second(nanoseconds: int) -> str:
    if nanoseconds == 0:
        return "0s"
    if nanoseconds < 1_000:
        return f"{nanoseconds}ns"
    if nanoseconds < 1_000_000:
        return _trimmed(nanoseconds, 3) + "µs"
    return _trimmed(nanoseconds, 6) + "ms"


def _trimmed(value: int, digits: int) -> str:
    whole, fraction = divmod(value, 10**digits)
    if not fraction:
        return str(whole)
    return f"{whole}." + f"{fraction:0{digits}}".rstrip("0")
