"""Checks objects against their schemas: prunes unknown fields, fills in defaults, reports wrong values.

Not evaluated: CEL rules, anyOf, oneOf, not, and formats other than date-time. A value that only these refuse
is admitted here, so tests of such a refusal need a real plane.
"""

import json
import math
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from fedhpa.api.fielderror import FieldError, invalid, printed, required, too_long, too_many
from testbed.embedded.api.types import Object
from testbed.embedded.objects.definitions import resolve

_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_INT32: Final = 2**31


def _child(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def prune(value: Any, schema: Object, unknown: list[str], *, builtin: bool, path: str = "") -> Any:
    """Returns the value without unknown fields, and adds their paths to `unknown`.

    For built-in kinds null means absent, as in Go.
    """
    schema = resolve(schema)
    if isinstance(value, list):
        items = schema.get("items")
        if items is None and schema.get(_PRESERVE):
            return value
        items = items or {}
        return [
            prune(item, items, unknown, builtin=builtin, path=f"{path}[{index}]")
            for index, item in enumerate(value)
        ]
    if not isinstance(value, dict):
        return value
    properties, more = schema.get("properties", {}), schema.get("additionalProperties")
    open_ended = schema.get(_PRESERVE) or (builtin and not properties) or more is True
    kept = {}
    for name, field in value.items():
        if builtin and field is None:
            continue
        if name in properties or isinstance(more, dict):
            inner = properties.get(name, more)
            kept[name] = prune(field, inner, unknown, builtin=builtin, path=_child(path, name))
        elif open_ended:
            kept[name] = field
        else:
            unknown.append(_child(path, name))
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
    schema = resolve(schema)
    if value is None and schema.get("nullable"):
        return
    wanted = _wrong_type(value, schema)
    if wanted:
        yield _type_error(path, _TypeName(_json_type(value)), wanted)
        return
    if "enum" in schema and value not in schema["enum"]:
        names = (printed(each if isinstance(each, str) else printed(each)) for each in schema["enum"])
        yield FieldError(path, "Unsupported value", f"supported values: {', '.join(names)}", value)
    if isinstance(value, dict):
        yield from _object_problems(value, schema, path)
    elif isinstance(value, list):
        yield from _list_problems(value, schema, path)
    elif isinstance(value, str):
        yield from _text_problems(value, schema, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _number_problems(value, schema, path)


class _TypeName(str):
    """The name of a JSON type, printed in place of a value."""

    __slots__ = ()


def _type_error(path: str, value: Any, wanted: str) -> FieldError:
    name = f"{path} in body" if path else "body"
    return invalid(path or "<nil>", value, f"{name} must be of type {wanted}: {printed(str(value))}")


def _json_type(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return "integer"
    names = {float: "number", str: "string", list: "array", dict: "object"}
    return names[type(value)]


def _wrong_type(value: Any, schema: Object) -> str:
    """Returns the required type if the value has another, or ""."""
    if schema.get("x-kubernetes-int-or-string"):
        return "" if _json_type(value) in ("integer", "string") else "integer,string"
    wanted = schema.get("type")
    found = _json_type(value)
    if wanted is None or found == wanted or (wanted == "number" and found == "integer"):
        return ""
    return str(wanted)


def _object_problems(value: Object, schema: Object, path: str) -> Iterator[FieldError]:
    if len(value) > schema.get("maxProperties", math.inf):
        yield too_many(path, len(value), schema["maxProperties"])
    properties, more = schema.get("properties", {}), schema.get("additionalProperties")
    for name, field in value.items():
        inner = properties.get(name) or (more if isinstance(more, dict) else None)
        if inner is not None and (path or name != "metadata"):
            yield from problems(field, inner, _child(path, name))
    for name in schema.get("required", ()):
        if name not in value:
            yield required(_child(path, name))


def _list_problems(value: list[Any], schema: Object, path: str) -> Iterator[FieldError]:
    if len(value) > schema.get("maxItems", math.inf):
        yield too_many(path, len(value), schema["maxItems"])
    if len(value) < schema.get("minItems", 0):
        yield invalid(path, len(value), f"{path} in body should have at least {schema['minItems']} items")
    keys, kind = schema.get("x-kubernetes-list-map-keys", ()), schema.get("x-kubernetes-list-type")
    seen: list[Any] = []
    for index, item in enumerate(value):
        yield from problems(item, schema.get("items") or {}, f"{path}[{index}]")
        if kind in ("map", "set"):
            by_keys = kind == "map" and isinstance(item, dict)
            key = {name: item.get(name) for name in keys} if by_keys else item
            if key in seen:
                yield FieldError(f"{path}[{index}]", "Duplicate value", "", key)
            seen.append(key)


def _text_problems(value: str, schema: Object, path: str) -> Iterator[FieldError]:
    if len(value) > schema.get("maxLength", math.inf):
        yield too_long(path, schema["maxLength"])
    if len(value) < schema.get("minLength", 0):
        yield invalid(path, value, f"{path} in body should be at least {schema['minLength']} chars long")
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield invalid(path, value, f"{path} in body should match '{schema['pattern']}'")
    if schema.get("format") == "date-time" and not _is_time(value):
        yield _type_error(path, value, "date-time")


def _is_time(value: str) -> bool:
    try:
        return datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


def _number_problems(value: float, schema: Object, path: str) -> Iterator[FieldError]:
    if schema.get("format") == "int32" and not -_INT32 <= value < _INT32:
        yield invalid(path, value, f"Checked value must be of type integer with format int32 in {path}")
    for bound, sign, words in (("minimum", 1, "greater than"), ("maximum", -1, "less than")):
        limit = schema.get(bound)
        exclusive = schema.get("exclusive" + bound.capitalize())
        if limit is not None and (sign * value < sign * limit or (exclusive and value == limit)):
            more = "" if exclusive else " or equal to"
            yield invalid(path, value, f"{path} in body should be {words}{more} {limit}")
