"""JSON as a hostile client may send it: read within bounds, or refused with what is wrong.

Stricter than Python's reader (no NaN, no infinite numbers) and than Go's (a key twice in one object is
refused, because the two halves of the system might read different ones).
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from fedhpa.api.errors import InvalidObject
from fedhpa.api.fielderror import quoted


class BadJSON(InvalidObject):
    """Bytes are not the JSON we take; the message says what and where."""


def loads(body: bytes) -> Any:
    """Reads one JSON value. Raises BadJSON."""
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


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant, parse_float=_float)
