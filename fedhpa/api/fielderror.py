"""Field errors and their texts, byte for byte as Kubernetes prints them.

One error is `<path>: <Type>[: <value>][: <detail>]`. Several become `[e1, e2]` in the order of the checks,
without duplicates. Source: Kubernetes 1.36, apimachinery field errors and aggregates. One difference: long
values and long lists of errors are truncated, so that the answer to any request is bounded.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fedhpa.api.quantity import Quantity

# Characters of one value, and of all errors of an object. Ordinary objects stay far below.
MAX_VALUE: Final = 4096
MAX_AGGREGATE: Final = 256 * 1024

_NO_VALUE: Final = object()
_HTML_ESCAPES: Final = {ord(c): f"\\u{ord(c):04x}" for c in "&<>\u2028\u2029"}
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_SHORT_ESCAPES: Final = {c: f"\\{name}" for c, name in zip('\a\b\f\n\r\t\v"\\', 'abfnrtv"\\', strict=True)}


class TypedText(str):
    """A string that has a named type or is a pointer in Karmada's code. Go prints it as JSON, not with %q."""

    __slots__ = ()


@dataclass(frozen=True)
class FieldError:
    """An error of one field. `type` is the text that users see, for example "Invalid value".

    `remedy` says what to write. It is no part of the text, which is Kubernetes'.
    """

    path: str
    type: str
    detail: str = ""
    value: Any = _NO_VALUE
    remedy: str = ""

    def __str__(self) -> str:
        parts = [self.path, self.type]
        if self.value is not _NO_VALUE:
            parts.append(printed(self.value))
        if self.detail:
            parts.append(self.detail)
        return ": ".join(parts)


def required(path: str, detail: str = "") -> FieldError:
    """Returns the error of a missing field."""
    return FieldError(path, "Required value", detail)


def invalid(path: str, value: Any, detail: str, remedy: str = "") -> FieldError:
    """Returns the error of a value that breaks a rule."""
    return FieldError(path, "Invalid value", detail, value, remedy)


def unsupported(path: str, value: Any, supported: Iterable[str]) -> FieldError:
    """Returns the error of a value outside an enumeration."""
    names = ", ".join(quoted(name) for name in sorted(supported))
    return FieldError(path, "Unsupported value", f"supported values: {names}", value)


def duplicate(path: str, value: Any) -> FieldError:
    """Returns the error of a repeated value that must be unique."""
    return FieldError(path, "Duplicate value", "", value)


def forbidden(path: str, detail: str) -> FieldError:
    """Returns the error of a field that must be absent."""
    return FieldError(path, "Forbidden", detail)


def too_long(path: str, limit: int) -> FieldError:
    """Returns the error of a text longer than `limit` bytes."""
    return FieldError(path, "Too long", f"may not be more than {limit} bytes")


def too_many(path: str, count: int, limit: int) -> FieldError:
    """Returns the error of a list with more than `limit` items."""
    return FieldError(path, "Too many", f"must have at most {limit} items", count)


def remedies(errors: Iterable[FieldError]) -> Iterator[str]:
    """Yields the remedies of errors that have one, with their paths."""
    return (f"{error.path}: {error.remedy}" for error in errors if error.remedy)


def aggregate(errors: Sequence[FieldError]) -> str:
    """Joins the errors into one text, each once. Past MAX_AGGREGATE characters, it only counts the rest."""
    texts: dict[str, None] = {}
    length = 0
    for index, error in enumerate(errors):
        if length > MAX_AGGREGATE:
            texts[f"and {len(errors) - index} more"] = None
            break
        text = str(error)
        if text not in texts:
            texts[text] = None
            length += len(text)
    shown = list(texts)
    return shown[0] if len(shown) == 1 else f"[{', '.join(shown)}]"


def printed(value: Any) -> str:
    """Formats a value for a field error: quoted texts, plain numbers, canonical quantities, else JSON."""
    if isinstance(value, TypedText):
        return _json(value)
    if isinstance(value, str):
        return _cut(quoted(value[:MAX_VALUE]), len(value))
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, Quantity):
        return quoted(str(value))
    return _json(value)


def _json(value: Any) -> str:
    """Returns compact JSON. Like Go, it escapes the characters that are special in HTML and JavaScript."""
    if isinstance(value, str):
        return _cut(_ENCODER.encode(value[:MAX_VALUE]).translate(_HTML_ESCAPES), len(value))
    text = ""
    # A list may have millions of items, so encoding stops at the limit.
    for part in _ENCODER.iterencode(value):
        text += part
        if len(text) > MAX_VALUE:
            return text[:MAX_VALUE].translate(_HTML_ESCAPES) + "..."
    return text.translate(_HTML_ESCAPES)


def _cut(shown: str, length: int) -> str:
    return shown if length <= MAX_VALUE else f"{shown}... ({length} characters)"


def quoted(text: str) -> str:
    """Returns the text as Go's %q prints it."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    short = _SHORT_ESCAPES.get(character)
    if short is not None:
        return short
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x80:
        return f"\\x{code:02x}"
    if 0xD800 <= code <= 0xDFFF:
        return "\ufffd"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
