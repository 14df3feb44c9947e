"""Generates the CustomResourceDefinitions of FederatedHPA and CronFederatedHPA from their pydantic models.

`make crds` writes them into the chart, and `fedhpa.admission.crd` reads them from there. The models
are walked here, because pydantic's JSON schema ($ref, anyOf with null) is not structural.

Defaults in the schema:

- The cpu metric, and the rules of both directions once `behavior` is present: /mutate writes the same values.
  The API server thus stores them while the webhook is down. It applies them before /mutate.
- No default for minReplicas: the field must stay absent beside a federated alias, and a schema default cannot
  depend on another field.
- No default for the scale-down window: it stays unset, and the controller's flag applies.
- Defaults for suspend and the history limits of cron rules, as in Karmada's CRD.
- No default for fields that Karmada does not have. A default would be written into every stored Karmada
  object at its next update, and a later version could not change it.

The schema has the enumerations and bounds of single fields, which cost the API server little. It has no rules
between fields: in CEL they took most of the time of a request with 1,000 cron rules, and their messages came
before the webhook's, which name the remedy. Every int32 carries the bounds of its type: Kubernetes 1.34 does
not check `format: int32`.
"""

from __future__ import annotations

import ast
import copy
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from fedhpa.api import cronfederatedhpa, default_values, federatedhpa
from fedhpa.api.autoscaling import Behavior
from fedhpa.api.meta import TypedObject
from fedhpa.api.model import ApiModel
from fedhpa.api.shape import Shape, properties
from fedhpa.api.yaml import print_yaml

Schema = dict[str, Any]
_QUANTITY: Final = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
_INT_OR_STRING: Final = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
}
# OpenAPI types by the names of scalars. All others are strings.
_TYPES: Final[Mapping[str, Schema]] = {
    "int32": {"type": "integer", "format": "int32", "minimum": -(2**31), "maximum": 2**31 - 1},
    "int64": {"type": "integer", "format": "int64"},
    "bool": {"type": "boolean"},
    "float64": {"type": "number"},
    "v1.Time": {"type": "string", "format": "date-time"},
    "resource.Quantity": {**_INT_OR_STRING, "pattern": _QUANTITY},
    "Duration": _INT_OR_STRING,
}


class Column(NamedTuple):
    """One column of `kubectl get`. It is shown only by `-o wide` if `priority` is above 0."""

    name: str
    type: str
    path: str
    priority: int = 0


@dataclass(frozen=True)
class Definition:
    """The parts of a CRD beside its schema."""

    model: type[TypedObject]
    plural: str
    short_name: str
    columns: tuple[Column, ...]


_REFERENCE = (
    Column("REFERENCE-KIND", "string", ".spec.scaleTargetRef.kind"),
    Column("REFERENCE-NAME", "string", ".spec.scaleTargetRef.name"),
)
_READY = Column("READY", "string", '.status.conditions[?(@.type=="Ready")].status')
_AGE = Column("AGE", "date", ".metadata.creationTimestamp")

FEDERATED_HPA: Final = Definition(
    federatedhpa.FederatedHPA,
    "federatedhpas",
    "fhpa",
    (
        Column("TARGETS", "string", ".status.summary.targets"),
        Column("MIN", "string", ".status.summary.min"),
        Column("MAX", "string", ".status.summary.max"),
        Column("REPLICAS", "integer", ".status.currentReplicas"),
        Column("CLUSTERS", "string", ".status.summary.clusters"),
        _READY,
        _AGE,
        *(column._replace(priority=1) for column in _REFERENCE),
        Column("PROPAGATION", "string", ".status.summary.propagation", 1),
        Column("REASON", "string", ".status.summary.reason", 1),
    ),
)
CRON_FEDERATED_HPA: Final = Definition(
    cronfederatedhpa.CronFederatedHPA,
    "cronfederatedhpas",
    "cronfhpa",
    (
        Column("TARGET", "string", ".status.summary.target"),
        Column("NEXT", "string", ".status.summary.next"),
        Column("LAST", "string", ".status.summary.last", 1),
        Column("SUSPENDED", "string", ".status.summary.suspended"),
        _READY,
        _AGE,
        *(column._replace(priority=1) for column in _REFERENCE),
    ),
)
GENERATED: Final = (FEDERATED_HPA, CRON_FEDERATED_HPA)


def generated(definition: Definition) -> dict[str, Any]:
    """Returns the CustomResourceDefinition (apiextensions.k8s.io/v1) of one kind."""
    kind = definition.model.__name__
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{definition.plural}.{federatedhpa.GROUP}"},
        "spec": {
            "group": federatedhpa.GROUP,
            "names": {
                "categories": ["karmada-io"],
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": definition.plural,
                "shortNames": [definition.short_name],
                "singular": kind.lower(),
            },
            "scope": "Namespaced",
            "versions": [
                {
                    "name": federatedhpa.VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": _root_schema(definition.model)},
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [
                        {"name": column.name, "type": column.type, "jsonPath": column.path}
                        | ({"priority": column.priority} if column.priority else {})
                        for column in definition.columns
                    ],
                }
            ],
        },
    }


def write() -> None:
    """Writes the CRDs into the chart."""
    path = Path("charts/fedhpa/files/crds") / f"{federatedhpa.GROUP}.yaml"
    path.write_text(print_yaml(map(generated, GENERATED)), encoding="utf-8")


def _root_schema(model: type[TypedObject]) -> Schema:
    schema = _object_schema(model)
    schema["properties"] = {
        "apiVersion": {"type": "string", "description": "API group and version of the object."},
        "kind": {"type": "string", "description": f"Kind of the object: {model.__name__}."},
        "metadata": {"type": "object"},
        "spec": schema["properties"]["spec"],
        "status": schema["properties"]["status"],
    }
    return schema


def _object_schema(model: type[ApiModel]) -> Schema:
    schema: Schema = {"type": "object", "description": _first_line(model)}
    schema["properties"] = {
        name: _with_default(model, name, _schema(property_.shape) | _description(model, property_.attribute))
        for name, property_ in properties(model).items()
    }
    if model.required:
        schema["required"] = sorted(model.required)
    return schema


def _description(model: type[ApiModel], attribute: str) -> Schema:
    """Returns the description of a field: a given one, or the text below it.

    Names of default values in that, such as {TOLERANCE}, stand for the values.
    """
    texts = {name: text for one in reversed(model.__mro__) for name, text in _texts_below(one).items()}
    text = model.model_fields[attribute].description or texts.get(attribute, "")
    text = re.sub(r"\{([A-Z_]+)\}", lambda name: f"{getattr(default_values, name[1]):g}", text)
    return {"description": text} if text else {}


@cache
def _texts_below(model: type) -> dict[str, str]:
    """Returns the texts that stand below the fields in the source of a class."""
    try:
        source = textwrap.dedent(inspect.getsource(model))
    except (OSError, TypeError):  # made at run time, or not in Python
        return {}
    body = cast(ast.ClassDef, ast.parse(source).body[0]).body
    return {
        field.target.id: " ".join(below.value.value.split())
        for field, below in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
        if isinstance(below.value.value, str)
    }


def _schema(shape: Shape) -> Schema:
    if "x-kubernetes-preserve-unknown-fields" in shape.crd:
        # The API server does not validate such a value. One-or-a-list has no type that a schema can express.
        typed: Schema = {"type": "object"} if shape.form == "map" else {}
        return typed | {"x-kubernetes-preserve-unknown-fields": True}
    if shape.model is not None:
        schema = _object_schema(shape.model)
    elif shape.form == "list":
        assert shape.item is not None
        kind = "map" if "x-kubernetes-list-map-keys" in shape.crd else "atomic"
        schema = {"type": "array", "items": _schema(shape.item), "x-kubernetes-list-type": kind}
    elif shape.form == "map":
        assert shape.item is not None
        schema = {"type": "object", "additionalProperties": _schema(shape.item)}
    else:
        schema = copy.deepcopy(_TYPES.get(shape.go, {"type": "string"})) if shape.form == "scalar" else {}
    return schema | dict(_keywords(shape.crd))


def _keywords(keywords: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in keywords.items():
        # The API server lists an enumeration in this order. The webhook sorts its lists alphabetically.
        yield key, sorted(value) if key == "enum" else list(value) if isinstance(value, tuple) else value


def _first_line(model: type[ApiModel]) -> str:
    return (model.__doc__ or "").strip().split("\n\n", maxsplit=1)[0]


def _with_default(model: type[ApiModel], name: str, schema: Schema) -> Schema:
    if model is federatedhpa.FederatedHPASpec and name == "metrics":
        schema["default"] = default_values.default_metrics()
    if model is Behavior:
        for field, value in default_values.default_scaling_rules()[name].items():
            schema["properties"][field]["default"] = value
        # The API server creates an absent direction as {} and then applies the defaults of its fields.
        schema["default"] = {}
    return schema


if __name__ == "__main__":
    write()
