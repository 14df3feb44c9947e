"""Decodes raw JSON into a model, with the messages of Karmada's webhook for values of a wrong type.

Example: `json: cannot unmarshal string into Go struct field CronFederatedHPARule.spec.rules.targetReplicas of
type int32`. The message names the struct of the field, its path without indices, and its type. The remedy of
the exception has the path with indices and says what to write. Sources: Go's encoding/json, Karmada v1.19.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import ValidationError

from fedhpa.api.errors import InvalidObject
from fedhpa.api.model import ApiModel, go_name
from fedhpa.api.shape import Shape, properties

Model = TypeVar("Model", bound=ApiModel)

_WHOLE = re.compile(r"-?[0-9]{1,9}", re.ASCII)
_EXPECTED = {
    "int32": "an integer from -2147483648 to 2147483647",
    "int64": "a 64-bit integer",
    "string": "a text in quotes",
    "bool": "true or false",
    "float64": "a number",
    "v1.Time": "a time such as 2026-03-11T13:23:17Z",
    "resource.Quantity": "a quantity such as 500m or 2Gi",
    "Duration": "a duration such as 8h, or a number of seconds",
}


class WrongType(InvalidObject):
    """A JSON value has the wrong type. `remedy` names the field with its indices and a valid value."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


def decode(model: type[Model], raw: Mapping[str, Any]) -> Model:
    """Returns the model of a raw object. Raises WrongType for the first value of a wrong type."""
    try:
        # JSON names only: in a raw object an attribute name is an unknown field.
        return model.model_validate(raw, by_alias=True, by_name=False)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        raise _wrong_type(model, first["loc"], first["input"], first["msg"]) from None


def _wrong_type(model: type[ApiModel], location: Sequence[int | str], value: Any, message: str) -> WrongType:
    holder, shape, path, indexed = _locate(model, location)
    go = shape.go if shape is not None else go_name(holder)
    remedy = f"{indexed or 'the object'}: write {_without_quotes(value, go) or _expected(shape)}"
    if go in ("resource.Quantity", "v1.Time") and isinstance(value, str):
        # In Go these types parse their own text and report their own error.
        return WrongType(f"{indexed}: {message.removeprefix('Value error, ')}", remedy)
    if go == "v1.Time":
        go = "string"
    where = f"Go struct field {go_name(holder)}.{path}" if path else "Go value"
    return WrongType(f"json: cannot unmarshal {json_type(value, go)} into {where} of type {go}", remedy)


def _without_quotes(value: Any, go: str) -> str:
    """Returns the remedy for a number or boolean in quotes, the most common mistake; "" for other values."""
    if not isinstance(value, str):
        return ""
    fits = (
        value in ("true", "false") if go == "bool" else go in ("int32", "int64") and _WHOLE.fullmatch(value)
    )
    return f"{value} without quotes" if fits else ""


def _locate(
    model: type[ApiModel], location: Sequence[int | str]
) -> tuple[type[ApiModel], Shape | None, str, str]:
    """Follows pydantic's location. Returns the struct, the shape, and the path without and with indices."""
    holder: type[ApiModel] = model
    here: type[ApiModel] | None = model
    shape: Shape | None = None
    path: list[str] = []
    indexed = ""
    for part in location:
        if here is not None and isinstance(part, str):
            found = properties(here).get(part)
            if found is None:
                break
            holder, shape = here, found.shape
            path.append(part)
            indexed += f".{part}"
        elif shape is not None and shape.item is not None:
            # The key of a map, or the index of a list.
            indexed += f"[{part}]"
            shape = shape.item
        else:
            # The name of a union branch that pydantic tried. It is no part of the path.
            break
        here = shape.model
    return holder, shape, ".".join(path), indexed.lstrip(".")


def json_type(value: Any, go: str = "") -> str:
    """Returns the JSON type of a value, in the words of Go's messages. `go` is the type that Go expects."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int | float):
        text = str(value)
        # Go prints the number where it expects one. Long numbers are left out.
        return f"number {text}" if go in ("int32", "int64") and len(text) <= 40 else "number"
    if isinstance(value, list | tuple):
        return "array"
    return "null" if value is None else "object"


def _expected(shape: Shape | None) -> str:
    if shape is None or shape.form == "object":
        return "an object"
    if shape.form == "list":
        return "a list"
    if shape.form == "map":
        return "a map"
    return _EXPECTED.get(shape.go, _EXPECTED["string"])
