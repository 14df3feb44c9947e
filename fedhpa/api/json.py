"""Decodes JSON that comes from outside the process: one function, one error.

Outside is everything that a member, the hub, a user or a file sends. The library behind it raises several
errors, and how deep nesting may be before a RecursionError depends on the caller's stack. Callers of this
module see one error for all of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any, Final, TypeVar, cast, overload

import msgspec

from fedhpa.api.errors import InvalidObject

T = TypeVar("T")
Json = bytes | bytearray | memoryview | msgspec.Raw | str

# The levels of objects and lists within each other that a decoded value may have. Kubernetes' own objects
# have about 15. Code that walks a value calls itself for each level, and Python allows about 1,000 calls in
# all. Every reader bears this many levels, and admission refuses objects with fewer.
MAX_NESTING: Final = 200
TOO_DEEP: Final = "JSON is nested too deeply"
# The most values in a text that is decoded at once, because the decoder holds Python's lock. Keys and texts
# that are all different take 0.4 µs each. Kubernetes' own objects have some thousand values.
MAX_VALUES: Final = 80_000


_NO_SEPARATOR: Final = bytes(set(range(256)) - set(b'",{['))


class InvalidJson(InvalidObject):
    """Bytes are no JSON, do not fit the type, or are nested too deeply.

    The message names the path of the field, and never its content.
    """


@overload
def decode_json(data: Json, kind: type[T], *, max_values: int = MAX_VALUES) -> T: ...
@overload
def decode_json(data: Json, kind: Any, *, max_values: int = MAX_VALUES) -> Any: ...
def decode_json(data: Json, kind: Any, *, max_values: int = MAX_VALUES) -> Any:
    """Returns the JSON in `data` decoded as `kind`. Raises InvalidJson, and nothing else.

    A text with more than `max_values` values is refused.
    Values that are decoded as free JSON (Any, dict[str, Any] and the like) have at most MAX_NESTING levels.
    A struct may keep deeper values in a field of such a type.
    """
    size = len(data) if isinstance(data, bytes | str) else memoryview(data).nbytes
    # Each value takes two bytes or more, with its comma or its brackets, so few texts need the count.
    too_large = size > 2 * max_values and has_more_values(data, max_values)
    # The text is only passed over if it is too large, to find out if it is nested too deeply.
    decoder, is_free = _decoder(msgspec.Raw if too_large else cast(Hashable, kind))
    try:
        value = decoder.decode(cast(bytes, data))
    except RecursionError as error:
        raise InvalidJson(TOO_DEEP) from error
    except ValueError as error:  # msgspec's errors, and UnicodeDecodeError
        raise InvalidJson(str(error)) from error
    if too_large:
        raise InvalidJson(f"more than {max_values} values")
    if is_free and nested_deeper(value, MAX_NESTING):
        raise InvalidJson(TOO_DEEP)
    return value


def has_more_values(data: Json, most: int) -> bool:
    """True if a text has more than `most` values, counted by commas and opening brackets outside strings."""
    text = data.encode(errors="replace") if isinstance(data, str) else bytes(data)
    if _separators(text) <= most:
        return False
    # An annotation may consist of commas. Without escaped quotes every second part is outside strings, also
    # after strings that became empty are removed.
    text = text.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, _NO_SEPARATOR).replace(b'""', b"")
    return _separators(b"".join(text.split(b'"')[::2])) > most


def _separators(text: bytes) -> int:
    return text.count(b",") + text.count(b"{") + text.count(b"[")


def convert_json(value: Any, kind: type[T], *, dec_hook: Callable[[type, Any], Any] | None = None) -> T:
    """Returns decoded JSON converted to `kind`. Raises InvalidJson, and nothing else.

    `dec_hook` makes the values of types of our own, as in msgspec. Its TypeError or ValueError says why not.
    """
    try:
        return msgspec.convert(value, kind, dec_hook=dec_hook)
    except RecursionError as error:
        raise InvalidJson(TOO_DEEP) from error
    except ValueError as error:
        raise InvalidJson(str(error)) from error


def nested_deeper(value: object, levels: int) -> bool:
    """True if a decoded value has more than `levels` levels of objects and lists within each other."""
    level: list[Any] = [value] if isinstance(value, dict | list) else []
    for _ in range(levels):
        # Decoders make no subclasses, and isinstance takes twice as long.
        level = [
            child
            for parent in level
            for child in (parent.values() if type(parent) is dict else parent)
            if type(child) is dict or type(child) is list
        ]
        if not level:
            return False
    return True


@functools.lru_cache(maxsize=256)
def _decoder(kind: Hashable) -> tuple[msgspec.json.Decoder[Any], bool]:
    origin = getattr(kind, "__origin__", kind)
    is_free = kind is Any or (origin in (dict, list) and Any in getattr(kind, "__args__", (Any,)))
    return msgspec.json.Decoder(cast(Any, kind)), is_free
