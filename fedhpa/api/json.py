"""Decodes JSON that comes from outside the process: one function, one error.

Outside is everything that a member, the hub, a user or a file sends. The library behind it raises several
errors, and how deep nesting may be before a RecursionError depends on the caller's stack. Callers of this
module see one error for all of them.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable
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


class InvalidJson(InvalidObject):
    """Bytes are no JSON, do not fit the type, or are nested too deeply.

    The message names the path of the field, and never its content.
    """


@overload
def decode_json(data: Json, kind: type[T]) -> T: ...
@overload
def decode_json(data: Json, kind: Any) -> Any: ...
def decode_json(data: Json, kind: Any) -> Any:
    """Returns the JSON in `data` decoded as `kind`. Raises InvalidJson, and nothing else.

    Values that are decoded as free JSON (Any, dict[str, Any] and the like) have at most MAX_NESTING levels.
    A struct may keep deeper values in a field of such a type.
    """
    decoder, is_free = _decoder(cast(Hashable, kind))
    try:
        value = decoder.decode(cast(bytes, data))
    except RecursionError as error:
        raise InvalidJson(TOO_DEEP) from error
    except ValueError as error:  # msgspec's errors, and UnicodeDecodeError
        raise InvalidJson(str(error)) from error
    if is_free and nested_deeper(value, MAX_NESTING):
        raise InvalidJson(TOO_DEEP)
    return value


def convert_json(value: Any, kind: type[T]) -> T:
    """Returns decoded JSON converted to `kind`. Raises InvalidJson, and nothing else."""
    try:
        return msgspec.convert(value, kind)
    except RecursionError as error:
        raise InvalidJson(TOO_DEEP) from error
    except ValueError as error:
        raise InvalidJson(str(error)) from error


def nested_deeper(value: object, levels: int) -> bool:
    """True if a decoded value has more than `levels` levels of objects and lists within each other."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(levels):
        level = [
            child
            for parent in level
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(child, dict | list)
        ]
        if not level:
            return False
    return True


@functools.lru_cache(maxsize=256)
def _decoder(kind: Hashable) -> tuple[msgspec.json.Decoder[Any], bool]:
    origin = getattr(kind, "__origin__", kind)
    is_free = kind is Any or (origin in (dict, list) and Any in getattr(kind, "__args__", (Any,)))
    return msgspec.json.Decoder(cast(Any, kind)), is_free
