"""The field tables of a kind, from its CustomResourceDefinition."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from testbed.reference.definitions import Definition, generated
from testbed.reference.markdown import code, table

Schema = Mapping[str, Any]

_INT32: Final = {"minimum": -(2**31), "maximum": 2**31 - 1}
_BOUNDS: Final = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "maxProperties": "at most {} keys",
}
_PRESERVED: Final = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"
# Fields whose inner fields are those of Kubernetes, each with the ones that Kubernetes lacks.
_OF_KUBERNETES: Final[Mapping[str, tuple[str, ...]]] = {
    "spec.metrics[]": ("spec.metrics[].object.aggregation", "spec.metrics[].external.aggregation"),
    "spec.behavior": (),
    "status.currentMetrics[]": (),
    "status.conditions[]": (),
}
# The pattern of quantities would fill the column and says less than the word.
_QUANTITY_START: Final = "^(\\+|-)?(([0-9]+"


def field_tables(definition: Definition) -> list[str]:
    """A table for `spec` and one for `status`."""
    version = generated(definition)["spec"]["versions"][0]
    parts = version["schema"]["openAPIV3Schema"]["properties"]
    lines: list[str] = []
    shown: dict[str, str] = {}
    for part in ("spec", "status"):
        header = ("field", "type", "default", "allowed", "meaning")
        lines += [f"## Fields of `{part}`", "", *table(header, _rows(parts[part], part, shown)), ""]
    lines += ["## Columns of `kubectl get`", ""]
    columns = version["additionalPrinterColumns"]
    usual = _columns([each for each in columns if not each.get("priority")])
    wide = _columns([each for each in columns if each.get("priority")])
    return [*lines, f"{usual}. With `-o wide` also {wide}.", ""]


def _columns(columns: list[Any]) -> str:
    return ", ".join(f"{column['name']} {code(column['jsonPath'])}" for column in columns)


def _rows(schema: Schema, path: str, shown: dict[str, str]) -> Iterator[tuple[str, ...]]:
    """A row for each field below `path`. Equal objects are shown once: `shown` has their first paths."""
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        inner, suffix = _element(field)
        below = f"{path}.{name}{suffix}"
        default = json.dumps(field["default"]) if "default" in field else ""
        sentences = ["Required."] if name in required else []
        sentences.append(field.get("description", ""))
        own = _OF_KUBERNETES.get(below)
        if own is not None:
            explain = code(f"kubectl explain fhpa.{below.replace('[]', '')}")
            sentences.append(f"Its fields are those of Kubernetes; {explain} lists them.")
        first = below if inner is None or own is not None else shown.setdefault(_fields_text(inner), below)
        if first != below:
            sentences.append(f"Its fields are those of {code(first)}.")
        yield code(below), _type(field), code(default), _bounds(field), " ".join(filter(None, sentences))
        if inner is not None and own is not None:
            yield from (row for row in _rows(inner, below, {}) if row[0].strip("`") in own)
        elif inner is not None and first == below:
            yield from _rows(inner, below, shown)


def _fields_text(schema: Schema) -> str:
    """The fields of an object as a text to compare."""
    return json.dumps({"properties": schema["properties"], "required": schema.get("required")})


def _element(field: Schema) -> tuple[Schema | None, str]:
    """The schema with the fields below this one, and the end of its path."""
    if "properties" in field:
        return field, ""
    items = field.get("items")
    if items is not None:
        return (items if "properties" in items else None), "[]"
    return None, ""


def _type(field: Schema) -> str:
    if field.get(_INT_OR_STRING):
        return "quantity" if _is_quantity(field) else "integer or string"
    if "items" in field:
        return f"list of {_plural(_type(field['items']))}"
    if "additionalProperties" in field:
        return f"map of {_plural(_type(field['additionalProperties']))}"
    kind = field.get("type")
    if kind is None:
        return "any" if field.get(_PRESERVED) else ""
    return str(field.get("format", kind))


def _plural(kind: str) -> str:
    return f"{kind[:-1]}ies" if kind.endswith("y") and kind != "any" else f"{kind}s"


def _bounds(field: Schema) -> str:
    if "enum" in field:
        return ", ".join(code(str(value)) for value in field["enum"])
    # The type of the field says these already.
    typed = _INT32 if field.get("format") == "int32" else {}
    found = [
        _bound(text, field[key])
        for key, text in _BOUNDS.items()
        if key in field and field[key] != typed.get(key)
    ]
    if field.get("exclusiveMinimum"):
        found = [text.replace(f"at least {field['minimum']}", f"above {field['minimum']}") for text in found]
    items = field.get("items", {})
    found += [f"each {text}" for text in (_bounds(items).split("; ") if items else ()) if text]
    if "pattern" in field and not _is_quantity(field):
        found.append(f"matches {code(field['pattern'])}")
    return "; ".join(found)


def _bound(text: str, value: Any) -> str:
    return "not empty" if text.startswith("at least {} ") and value == 1 else text.format(value)


def _is_quantity(field: Schema) -> bool:
    return str(field.get("pattern", "")).startswith(_QUANTITY_START)
