"""JSON as a hostile client may send it: read within bounds, or refused with what is wrong.

Stricter than Python's reader (no NaN, no infinite numbers) and than Go's (a key twice in one object is
refused, because the two halves of the system might read different ones).

Two readers: a quick one for what API servers send, and a slow one that says what is wrong. The quick one is
believed only where writing what it read gives the same bytes again; for all else the slow one decides.
"""

from __future__ import annotations

import json
from typing import Any, Final, NoReturn

import msgspec

from fedhpa.api.errors import InvalidObject
from fedhpa.api.fielderror import quoted

# Each bracket and comma may stand for a value of 64 bytes in memory, whatever its size on the wire. Two
# objects' worth of annotations (256 KiB each) may consist of commas, and an API server takes no larger ones.
MAX_VALUES: Final = 600_000


class BadJSON(InvalidObject):
    """Bytes are not the JSON we take; the message says what and where."""


def loads(body: bytes) -> Any:
    """Reads one JSON value. Raises BadJSON."""
    if len(body) > MAX_VALUES and _values(body) > MAX_VALUES:
        raise BadJSON(f"invalid JSON: more than {MAX_VALUES} values")
    try:
        value = _QUICK.decode(body)
        # Of equal keys it keeps the last, so that what it read is shorter when written again.
        written = msgspec.json.encode(value)
        # API servers write without blanks, and end the line.
        if body.startswith(written) and body[len(written) :] in (b"", b"\n"):
            return value
        if written == msgspec.json.format(body, indent=-1):
            return value
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        # Whatever it has against the bytes: the slow one says it in words of its own, or takes them.
        pass
    return strict_loads(body)


def strict_loads(body: bytes) -> Any:
    """The slow reader: what `loads` takes and refuses, without a short cut."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadJSON(f"invalid UTF-8 at byte {error.start}") from error
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise BadJSON(f"invalid JSON at line {error.lineno}, column {error.colno}: {error.msg}") from error
    except RecursionError as error:
        raise BadJSON("invalid JSON: nested too deeply") from error
    except ValueError as error:
        # Python reads no integer of more than 4,300 digits, by its own limit.
        raise BadJSON("invalid JSON: a number has too many digits") from error


def _values(body: bytes) -> int:
    """At least as many as there are values, but for the outermost; those in texts count too."""
    return body.count(b",") + body.count(b"[") + body.count(b"{")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise BadJSON(f"duplicate field {quoted(key[:100])}")
            seen.add(key)
    return found


def _constant(name: str) -> NoReturn:
    raise BadJSON(f"invalid JSON: {name} is no number")


def _float(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise BadJSON(f"invalid JSON: the number {text[:40]} is too large")
    return number


_QUICK = msgspec.json.Decoder()
_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant, parse_float=_float)
