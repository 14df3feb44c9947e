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
# The values of a request whose deep levels are cut, which takes a microsecond a value.
MAX_DEEP_VALUES: Final = 600_000

# Objects of both kinds have at most ten levels, apart from managedFields.
MAX_LEVELS: Final = 64
# The API server writes the paths of an object's fields there, with one level for each list more.
MAX_MANAGED_FIELDS_LEVELS: Final = 150

# A message shows the first keys of a path, and only the start of a long key.
_SHOWN_KEYS: Final = 4
_MAX_KEY: Final = 60

# The path of a value: its parent's path and its own key or index.
_Path = tuple[Any, str] | None


class BadJSON(InvalidObject):
    """A body is not acceptable JSON. The message says what is wrong and where."""


def loads(body: bytes) -> Any:
    """Decodes one JSON value. Raises BadJSON."""
    if len(body) > MAX_VALUES and has_more_values(body, MAX_VALUES):
        return _with_fewer_values(body)
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
        return _without_deep_levels(body)
    except ValueError as error:
        # Python refuses integers of more than 4,300 digits.
        raise BadJSON("invalid JSON: a number has too many digits") from error


def _with_fewer_values(body: bytes) -> Any:
    """Decodes a body of which only the deep levels have too many values. Raises BadJSON for any other."""
    if not has_more_values(body, MAX_DEEP_VALUES):
        try:
            _SKIP.decode(body)
        except RecursionError:
            body = _cut_deep_levels(body)
            if not has_more_values(body, MAX_VALUES):
                return _without_deep_levels(body)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            pass
    raise BadJSON(f"invalid JSON: more than {MAX_VALUES} values")


def _without_deep_levels(body: bytes) -> Any:
    try:
        return _STRICT.decode(_cut_deep_levels(body).decode("utf-8"))
    except ValueError as error:
        # The place of the error would be one in the shorter text.
        raise BadJSON(_TOO_DEEP) from error


def _cut_deep_levels(body: bytes) -> bytes:
    """Returns the text with null in place of each value below MAX_NESTING levels, found without recursion."""
    kept: list[bytes] = []
    level = start = 0
    for match in _BRACKET.finditer(body):
        if match[1] in _OPENING:
            if level == MAX_NESTING:
                kept += (body[start : match.start(1)], b"null")
            level += 1
        elif match[1]:
            level -= 1
            if level < 0:
                break
            if level == MAX_NESTING:
                start = match.end()
    if level != 0:
        raise BadJSON(_TOO_DEEP)
    return b"".join((*kept, body[start:]))


def check_nesting(raw: dict[str, Any]) -> None:
    """Raises BadJSON if an object is nested too deeply. The message names the field and the remedy."""
    if not nested_deeper(raw, MAX_LEVELS):
        return
    metadata = raw.get("metadata")
    managed_fields = metadata.get("managedFields") if isinstance(metadata, dict) else None
    for field, limit in (
        (_deep_field(raw, MAX_LEVELS, skipped=managed_fields), MAX_LEVELS),
        (_deep_field(raw, MAX_MANAGED_FIELDS_LEVELS), MAX_MANAGED_FIELDS_LEVELS),
    ):
        if field:
            raise BadJSON(
                f"{field}: nested more than {limit} levels deep; remove levels until at most {limit} remain"
            )


def _deep_field(raw: dict[str, Any], levels: int, skipped: Any = None) -> str:
    """Returns the path of a value below more than `levels` levels, or "" if there is none."""
    level: list[tuple[Any, _Path]] = [(raw, None)]
    for _ in range(levels):
        level = [
            (child, (path, key))
            for parent, path in level
            for key, child in _children(parent)
            if isinstance(child, dict | list) and child is not skipped
        ]
        if not level:
            return ""
    return _shown(level[0][1])


def _children(parent: dict[str, Any] | list[Any]) -> list[tuple[str, Any]]:
    if isinstance(parent, dict):
        return [(f".{key}", child) for key, child in parent.items()]
    return [(f"[{index}]", child) for index, child in enumerate(parent)]


def _shown(path: _Path) -> str:
    keys: list[str] = []
    while path is not None:
        path, key = path
        keys.append(one_line(key, _MAX_KEY))
    return "".join(reversed(keys[-_SHOWN_KEYS:])).removeprefix(".") + "..."


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
_OPENING: Final = (b"[", b"{")
# All up to the next bracket outside strings, or up to the end. It matches everywhere and never gives back a
# character, so the time is linear.
_BRACKET: Final = re.compile(rb'(?:[^"\[\]{}]|"(?:[^"\\]|\\.)*+"?+)*+([\[\]{}]?)', re.DOTALL)
_FAST = msgspec.json.Decoder()
_SKIP = msgspec.json.Decoder(msgspec.Raw)
_STRICT = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant, parse_float=_float)
