"""The shape of a model, derived from its annotations. CRDs, type messages and bounds use it."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, Union

from fedhpa.api.model import ApiModel, Checked, Crd, ScalarType, go_name

Form = Literal["scalar", "list", "map", "object", "any"]


@dataclass(frozen=True)
class Shape:
    """The type of a value.

    `go` is its name in messages. `crd` has the schema keywords, and `checked` those that admission enforces.
    `item` is the element of a list or the value of a map, and `model` the class of an object.
    """

    form: Form
    go: str
    crd: Mapping[str, Any]
    checked: Mapping[str, Any]
    item: Shape | None = None
    model: type[ApiModel] | None = None


@dataclass(frozen=True)
class Property:
    """One field of a model: its attribute, JSON name and type."""

    attribute: str
    name: str
    shape: Shape


@cache
def properties(model: type[ApiModel]) -> Mapping[str, Property]:
    """Returns the fields of a model by their JSON names."""
    hints = typing.get_type_hints(model, include_extras=True)
    found = {}
    for attribute, info in model.model_fields.items():
        name = info.alias or attribute
        found[name] = Property(attribute, name, _shape(hints[attribute]))
    return found


@cache
def fields_with(model: type[ApiModel], wanted: Callable[[Shape], bool]) -> tuple[Property, ...]:
    """Returns the fields of a model whose shape is wanted, or that lead to such a field."""
    return tuple([one for one in properties(model).values() if _leads_to(one.shape, wanted)])


def _leads_to(shape: Shape, wanted: Callable[[Shape], bool]) -> bool:
    """True if a shape is wanted, or that of its items or of a field below it."""
    return (
        wanted(shape)
        or (shape.item is not None and _leads_to(shape.item, wanted))
        or (shape.model is not None and bool(fields_with(shape.model, wanted)))
    )


def stored_json(value: Any) -> Any:
    """Returns a part of a model as JSON, as it was stored. pydantic's own way refuses texts without UTF-8."""
    if isinstance(value, tuple | list):
        return [stored_json(item) for item in value]
    if not isinstance(value, ApiModel):
        return value
    fields = {
        name: stored_json(getattr(value, property_.attribute))
        for name, property_ in properties(type(value)).items()
        if property_.attribute in value.model_fields_set
    }
    return {**fields, **(value.model_extra or {})}


def _shape(annotation: Any) -> Shape:
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        return _annotated(*typing.get_args(annotation))
    if origin in (Union, types.UnionType):
        parts = [part for part in typing.get_args(annotation) if part is not type(None)]
        if len(parts) == 1:
            return _shape(parts[0])
    if origin is tuple:
        item = _shape(typing.get_args(annotation)[0])
        return Shape("list", f"[]{item.go}", {}, {}, item=item)
    if origin is dict:
        item = _shape(typing.get_args(annotation)[1])
        return Shape("map", f"map[string]{item.go}", {}, {}, item=item)
    if isinstance(annotation, type) and issubclass(annotation, ApiModel):
        return Shape("object", f"{annotation.go_package}.{go_name(annotation)}", {}, {}, model=annotation)
    return Shape("any", "interface {}", {}, {})


def _annotated(inner: Any, *markers: Any) -> Shape:
    base = _shape(inner)
    crd, checked = dict(base.crd), dict(base.checked)
    scalar: ScalarType | None = None
    for marker in markers:
        if isinstance(marker, ScalarType):
            scalar = marker
        if isinstance(marker, Crd):
            crd.update(marker.keywords)
        if isinstance(marker, Checked):
            checked.update(marker.keywords)
    if scalar is not None and base.form in ("any", "scalar"):
        return Shape("scalar", scalar.go, crd, checked)
    return Shape(base.form, base.go, crd, checked, base.item, base.model)
