"""A JSON decoder for hostile clients, with bounded work and errors that say what is wrong.

Unlike Python's decoder it refuses NaN and infinite numbers. Unlike Go's decoder it refuses an object with the
same key twice, because the API server and the webhook might use different values.

There are two decoders. The fast one handles the requests of API servers. Its result is used only if encoding
it gives the same bytes again. In every other case the strict one decides, and finds the error.

Values that are nested deeper than a decoder can read become null, because the request around them must be
answered. They are far deeper than an admitted object may be: every process that reads stored objects must be
able to decode them, and decoders fail at some depth.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn

import msgspec

from fedhpa.api.errors import InvalidObject
from fedhpa.api.fielderror import quoted
from fedhpa.api.json import MAX_NESTING, has_more_values, nested_deeper
from fedhpa.api.texts import one_line

# An update has an object twice. Stored objects are read with half of this limit, so an object with
# 2,500 rules is admitted and read. The decoder holds Python's lock, for 0.4 µs a value.
MAX_VALUES: Final = 120_000
# Objects of both kinds have at most ten levels, apart from managedFields.
MAX_LEVELS: Final = 64
# The API server writes the paths of an object's fields there, with one level for each list more.
MAX_MANAGED_FIELDS_LEVELS: Final = 150

# A message shows the first keys of a path, and only the start of a long key.
_SHOWN_KEYS: Final = 4
_MAX_KEY: Final = 60


class BadJSON(InvalidObject):
    """A body is not acceptable JSON. The message says what is wrong and where."""


def loads(body: bytes) -> Any:
    """Decodes one JSON value. Raises BadJSON."""
    if len(body) > MAX_VALUES and has_more_values(body, MAX_VALUES):
        raise BadJSON(f"invalid JSON: more than {MAX_VALUES} values")
    try:
        value = _FAST.decode(body)
        # The fast decoder keeps the last of equal keys, so the encoded value is then shorter than the body.
        encoded = msgspec.json.encode(value)
        # API servers write no blanks, and one line break at the end.
        if body.startswith(encoded) and body[len(encoded) :] in (b"", b"\n"):
            return value
        if encoded == msgspec.json.format(body, indent=-1):
            return value
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        # The strict decoder finds the error, or accepts the body.
        pass
    return strict_loads(body)


def strict_loads(body: bytes) -> Any:
    """Decodes one JSON value with the strict decoder only. Gives the same results as `loads`."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadJSON(f"invalid UTF-8 at byte {error.start}") from error
    try:
        return _STRICT.decode(text)
    except json.JSONDecodeError as error:
        raise BadJSON(f"invalid JSON at line {error.lineno}, column {error.colno}: {error.msg}") from error
    except RecursionError:
        try:
            return _STRICT.decode(_cut_deep_levels(text))
        except ValueError as error:
            # The place of the error would be one in the shorter text.
            raise BadJSON(_TOO_DEEP) from error
    except ValueError as error:
        # Python refuses integers of more than 4,300 digits.
        raise BadJSON("invalid JSON: a number has too many digits") from error


def _cut_deep_levels(text: str) -> str:
    """Returns the text with null in place of each value below MAX_NESTING levels, found without recursion."""
    kept: list[str] = []
    level = start = 0
    for match in _BRACKET.finditer(text):
        if match[1] in ("[", "{"):
            if level == MAX_NESTING:
                kept += (text[start : match.start(1)], "null")
            level += 1
        elif match[1]:
            level -= 1
            if level == MAX_NESTING:
                start = match.end()
    if level != 0:
        raise BadJSON(_TOO_DEEP)
    return "".join((*kept, text[start:]))


def check_nesting(raw: dict[str, Any]) -> None:
    """Raises BadJSON if an object is nested too deeply. The message names the field and the remedy."""
    if not nested_deeper(raw, MAX_LEVELS):
        return
    level: list[tuple[tuple[str | int, ...], Any]] = [((), raw)]
    for depth in range(1, MAX_MANAGED_FIELDS_LEVELS + 1):
        level = [
            (path if len(path) == _SHOWN_KEYS else (*path, key), child)
            for path, parent in level
            for key, child in (parent.items() if isinstance(parent, dict) else enumerate(parent))
            if isinstance(child, dict | list)
        ]
        for path, _ in level:
            limit = MAX_MANAGED_FIELDS_LEVELS if path[:2] == ("metadata", "managedFields") else MAX_LEVELS
            if depth >= limit:
                raise BadJSON(
                    f"{_shown(path)}: nested more than {limit} levels deep; remove levels until at most "
                    f"{limit} remain"
                )


def _shown(path: tuple[str | int, ...]) -> str:
    keys = (f"[{key}]" if isinstance(key, int) else one_line(f".{key}", _MAX_KEY) for key in path)
    return "".join(keys).removeprefix(".") + "..."


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
    raise BadJSON(f"invalid JSON: {name} is not a number")


def _float(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise BadJSON(f"invalid JSON: the number {text[:40]} is too large")
    return number


_TOO_DEEP: Final = "invalid JSON: nested too deeply"
# All up to the next bracket outside strings, or up to the end. It matches everywhere and never gives back a
# character, so the time is linear.
_BRACKET: Final = re.compile(r'(?:[^"\[\]{}]|"(?:[^"\\]|\\.)*+"?+)*+([\[\]{}]?)', re.DOTALL)
_FAST = msgspec.json.Decoder()
_STRICT = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant, parse_float=_float)
