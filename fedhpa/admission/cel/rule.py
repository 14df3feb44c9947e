"""The CEL rule of a CRD, and the rules about references that several types share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

INVALID: Final = "FieldValueInvalid"
REQUIRED: Final = "FieldValueRequired"
FORBIDDEN: Final = "FieldValueForbidden"


@dataclass(frozen=True)
class Cel:
    """A CEL rule.

    `path` is the field that an error names, relative to the type that holds the rule. `message_expression`
    is a CEL expression for the message; the API server falls back to `message` if it fails.
    """

    rule: str
    message: str
    path: str
    reason: str = INVALID
    message_expression: str = ""


def given(path: str) -> str:
    """Returns the CEL test for an optional field whose parents are present."""
    return f"has(self.{path})"


def literal(text: str) -> str:
    """Returns the text as a CEL string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def path_segment(path: str, missing: str) -> tuple[Cel, ...]:
    """Returns the rules for a name that becomes a segment of a URL path."""
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
    """Returns the rules for the kind and the name of a reference."""
    return (
        *path_segment(f"{path}.kind", "must be the kind of the object, such as Deployment"),
        *path_segment(f"{path}.name", "must be the name of the object"),
    )
