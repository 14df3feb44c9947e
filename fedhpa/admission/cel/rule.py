"""What a CEL rule of a CRD consists of, and the rules about references that several types share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

INVALID: Final = "FieldValueInvalid"
REQUIRED: Final = "FieldValueRequired"
FORBIDDEN: Final = "FieldValueForbidden"


@dataclass(frozen=True)
class Cel:
    """A rule; `path` is relative to the type that holds it, `message_expression` makes a text if it can."""

    rule: str
    message: str
    path: str
    reason: str = INVALID
    message_expression: str = ""


def given(path: str) -> str:
    """Whether an optional field is there; all on the way to it are."""
    return f"has(self.{path})"


def literal(text: str) -> str:
    """A text as CEL writes it."""
    return "'" + text.replace("\\", "\\\\") + "'"


def path_segment(path: str, missing: str) -> tuple[Cel, ...]:
    """The rules for a name that becomes a part of a URL's path."""
    at, text = f".{path}", f"self.{path}"
    return (
        Cel(f"{text} != ''", missing, at, REQUIRED),
        Cel(
            f"!({text} in ['.', '..'])",
            "may not be '.' or '..'",
            at,
            message_expression=f'"may not be \'" + {text} + "\'"',
        ),
        Cel(f"!{text}.contains('/')", "may not contain '/'", at),
        Cel(f"!{text}.contains('%')", "may not contain '%'", at),
    )


def reference(path: str) -> tuple[Cel, ...]:
    """The rules for the kind and the name of an object pointed to."""
    return (
        *path_segment(f"{path}.kind", "must be the kind of the object, such as Deployment"),
        *path_segment(f"{path}.name", "must be the name of the object"),
    )
