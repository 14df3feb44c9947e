"""Checks custom objects against their schemas: prunes unknown fields, fills in defaults, finds wrong values.

Types, required fields, enumerations and bounds are checked. A value that only other rules of a schema refuse
is admitted here, so tests of such a refusal need a real plane.
"""

import json
import math
import re
from collections.abc import Iterator
from typing import Any, Final

from fedhpa.api.fielderror import FieldError, invalid, printed, required, too_long, too_many
from testbed.embedded.api.types import Object

PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"


def _child(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def prune(value: Any, schema: Object) -> Any:
    """Returns the value without unknown fields."""
    if isinstance(value, list):
        items = schema.get("items")
        if items is None and schema.get(PRESERVE):
            return value
        return [prune(item, items or {}) for item in value]
    if not isinstance(value, dict):
        return value
    properties, more = schema.get("properties", {}), schema.get("additionalProperties")
    open_ended = schema.get(PRESERVE) or more is True
    kept = {}
    for name, field in value.items():
        if name in properties or isinstance(more, dict):
            kept[name] = prune(field, properties.get(name, more))
        elif open_ended:
            kept[name] = field
    return kept


def default(value: Any, schema: Object) -> None:
    """Fill in a CRD's defaults, in place. Null means absent where the schema does not allow null."""
    if isinstance(value, list):
        for item in value:
            default(item, schema.get("items") or {})
    elif isinstance(value, dict):
        properties, more = schema.get("properties", {}), schema.get("additionalProperties")
        for name in [name for name, field in value.items() if field is None]:
            inner = properties.get(name, more)
            if isinstance(inner, dict) and not inner.get("nullable"):
                del value[name]
        for name, inner in properties.items():
            if "default" in inner and name not in value:
                value[name] = json.loads(json.dumps(inner["default"]))
        for name, field in value.items():
            default(field, properties.get(name) or (more if isinstance(more, dict) else {}))


def problems(value: Any, schema: Object, path: str = "") -> Iterator[FieldError]:
    """Yields the problems of an object or of a part of it."""
    if value is None and schema.get("nullable"):
        return
    wanted = _wrong_type(value, schema)
    if wanted:
        yield _type_error(path, value, wanted)
        return
    if "enum" in schema and value not in schema["enum"]:
        names = (printed(each if isinstance(each, str) else printed(each)) for each in schema["enum"])
        yield FieldError(path, "Unsupported value", f"supported values: {', '.join(names)}", value)
    if isinstance(value, dict):
        yield from _object_problems(value, schema, path)
    elif isinstance(value, list):
        if len(value) > schema.get("maxItems", math.inf):
            yield too_many(path, len(value), schema["maxItems"])
        for index, item in enumerate(value):
            yield from problems(item, schema.get("items") or {}, f"{path}[{index}]")
    elif isinstance(value, str):
        yield from _text_problems(value, schema, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _number_problems(value, schema, path)


def _type_error(path: str, value: Any, wanted: str) -> FieldError:
    name = f"{path} in body" if path else "body"
    return invalid(path or "<nil>", value, f'{name} must be of type {wanted}: "{_json_type(value)}"')


def _json_type(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        return "integer"
    names = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return names.get(type(value), "null")


def _wrong_type(value: Any, schema: Object) -> str:
    """Returns the required type if the value has another, or ""."""
    found = _json_type(value)
    if schema.get("x-kubernetes-int-or-string"):
        return "" if found in ("integer", "string") else "integer,string"
    wanted = schema.get("type", found)
    return "" if found == wanted or (wanted == "number" and found == "integer") else str(wanted)


def _object_problems(value: Object, schema: Object, path: str) -> Iterator[FieldError]:
    properties, more = schema.get("properties", {}), schema.get("additionalProperties")
    for name, field in value.items():
        inner = properties.get(name) or (more if isinstance(more, dict) else None)
        if inner is not None and (path or name != "metadata"):
            yield from problems(field, inner, _child(path, name))
    for name in schema.get("required", ()):
        if name not in value:
            yield required(_child(path, name))


def _text_problems(value: str, schema: Object, path: str) -> Iterator[FieldError]:
    if len(value) > schema.get("maxLength", math.inf):
        yield too_long(path, schema["maxLength"])
    if len(value) < schema.get("minLength", 0):
        yield invalid(path, value, f"{path} in body should be at least {schema['minLength']} chars long")
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield invalid(path, value, f"{path} in body should match '{schema['pattern']}'")


def _number_problems(value: float, schema: Object, path: str) -> Iterator[FieldError]:
    for bound, sign, words in (("minimum", 1, "greater than"), ("maximum", -1, "less than")):
        limit = schema.get(bound)
        if limit is not None and sign * value < sign * limit:
            yield invalid(path, value, f"{path} in body should be {words} or equal to {limit}")
