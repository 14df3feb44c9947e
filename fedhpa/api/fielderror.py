"""Field errors and their texts, byte for byte as Kubernetes prints them.

`<path>: <Type>[: <value>][: <detail>]`; several become `[e1, e2]` in the order of the checks, each text once.
Source: Kubernetes 1.36, apimachinery field errors and aggregates; Karmada's webhook answers with them. One
difference: what is longer than anybody reads is cut, so that an answer has a bound whatever was sent.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fedhpa.api.quantity import Quantity

# Far beyond what an honest object holds: a value, and the errors of an object together.
MAX_VALUE: Final = 4096
MAX_AGGREGATE: Final = 256 * 1024

_NO_VALUE: Final = object()
_HTML_ESCAPES: Final = {ord(c): f"\\u{ord(c):04x}" for c in "&<>\u2028\u2029"}
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_SHORT_ESCAPES: Final = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    '"': '\\"',
    "\\": "\\\\",
}


class TypedText(str):
    """A text of a named type or behind a pointer in Karmada's code: Go prints it as JSON, not with %q."""

    __slots__ = ()


@dataclass(frozen=True)
class FieldError:
    """One thing wrong with one field; `type` is the words people read ("Invalid value")."""

    path: str
    type: str
    detail: str = ""
    value: Any = _NO_VALUE

    def __str__(self) -> str:
        parts = [self.path, self.type]
        if self.value is not _NO_VALUE:
            parts.append(printed(self.value))
        if self.detail:
            parts.append(self.detail)
        return ": ".join(parts)


def required(path: str, detail: str = "") -> FieldError:
    """A field must be given."""
    return FieldError(path, "Required value", detail)


def invalid(path: str, value: Any, detail: str) -> FieldError:
    """A value is outside its rule."""
    return FieldError(path, "Invalid value", detail, value)


def unsupported(path: str, value: Any, supported: Iterable[str]) -> FieldError:
    """A value is none of an enumeration."""
    names = ", ".join(quoted(name) for name in sorted(supported))
    return FieldError(path, "Unsupported value", f"supported values: {names}", value)


def duplicate(path: str, value: Any) -> FieldError:
    """A value that must be unique was there before."""
    return FieldError(path, "Duplicate value", "", value)


def forbidden(path: str, detail: str) -> FieldError:
    """A field must not be given."""
    return FieldError(path, "Forbidden", detail)


def too_long(path: str, limit: int) -> FieldError:
    """A text is longer than `limit` bytes."""
    return FieldError(path, "Too long", f"may not be more than {limit} bytes")


def too_many(path: str, count: int, limit: int) -> FieldError:
    """A list is longer than `limit`."""
    return FieldError(path, "Too many", f"must have at most {limit} items", count)


def aggregate(errors: Sequence[FieldError]) -> str:
    """One text for all of them; identical ones appear once. Past MAX_AGGREGATE the rest is only counted."""
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
    """A value as field errors show it: texts quoted, numbers bare, quantities canonical, the rest JSON."""
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
    """Compact JSON with the characters escaped that Go escapes for HTML and JavaScript."""
    if isinstance(value, str):
        return _cut(_ENCODER.encode(value[:MAX_VALUE]).translate(_HTML_ESCAPES), len(value))
    text = ""
    # A list may be millions long: no more of it is encoded than is shown.
    for part in _ENCODER.iterencode(value):
        text += part
        if len(text) > MAX_VALUE:
            return text[:MAX_VALUE].translate(_HTML_ESCAPES) + "..."
    return text.translate(_HTML_ESCAPES)


def _cut(shown: str, length: int) -> str:
    return shown if length <= MAX_VALUE else f"{shown}... ({length} characters)"


def quoted(text: str) -> str:
    """The text as Go's %q prints it."""
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
