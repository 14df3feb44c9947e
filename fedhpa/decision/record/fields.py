"""Reading fields of a record: an error names the path of the field."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

from fedhpa.api.errors import InvalidObject
from fedhpa.api.json import InvalidJson, convert_json
from fedhpa.api.times import parse_time

T = TypeVar("T")
R = TypeVar("R")


def read_at(path: str, read: Callable[[T], R], value: T) -> R:
    """Returns `read(value)`. An InvalidObject that it raises gets `path: ` in front."""
    try:
        return read(value)
    except InvalidObject as error:
        raise InvalidObject(f"{path}: {error}") from error


def convert_at(path: str, value: object, kind: type[T]) -> T:
    """Returns decoded JSON converted to `kind`. Raises InvalidObject that begins with the field's path."""
    try:
        return convert_json(value, kind)
    except InvalidJson as error:
        found = path_first(str(error), whole="")
        raise InvalidObject(f"{path}{'' if found.startswith(':') else '.'}{found}") from error


def read_each(path: str, read: Callable[[T], R], values: Sequence[T]) -> tuple[R, ...]:
    """Returns `read(value)` of each value.

    `read` names the field of the value in an InvalidObject; `path` and the index are put in front.
    """
    found: list[R] = []
    for index, value in enumerate(values):
        try:
            found.append(read(value))
        except InvalidObject as error:
            raise InvalidObject(f"{path}[{index}].{error}") from error
    return tuple(found)


def required_time(path: str, text: str) -> float:
    """Returns POSIX seconds; 0 for an empty text. Raises InvalidObject."""
    moment = read_at(path, parse_time, text)
    return 0.0 if moment is None else moment


def path_first(message: str, *, whole: str) -> str:
    """Returns a msgspec message with its path in front: `clusters[0].ready: Expected ...`.

    `whole` stands for the path if the message has none.
    """
    match = re.fullmatch(r"(.*?)(?: - at `(?:key in )?\$?\.?(.*)`)?", message, re.DOTALL)
    text, path = (match[1], match[2] or "") if match else (message, "")
    field = re.search(r"(?:unknown|missing required) field `([^`]*)`", text)
    if field:
        path = f"{path}.{field[1]}" if path else field[1]
        text = "unknown field" if "unknown field" in text else "required field is missing"
    return f"{path or whole}: {text}"
