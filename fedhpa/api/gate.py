"""The gate before a decision: an object that would run as something else than it says is held.

Admission refuses such objects. One that bypassed it is met after a rollback of the processes, which then do
not know a value of a newer release, and on a hub without webhooks. Unknown fields never hold an object:
otherwise the next field of Kubernetes or Karmada would stop scaling on every hub.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from fedhpa.api.federatedhpa import FederatedHPASpec
from fedhpa.api.fielderror import FieldError, invalid, required, unsupported
from fedhpa.api.model import ApiModel
from fedhpa.api.shape import Shape, fields_with
from fedhpa.api.texts import cut_line

# An unknown value inside a metric makes only this metric fail, when it is evaluated.
_METRICS: Final = "spec.metrics"
_MAX_FIELD: Final = 64


class Judgement(msgspec.Struct, frozen=True):
    """The findings of the gate on a spec; the texts are "" if there is nothing.

    `refusal` says why an object with this spec must not run: `unknown_value`, the error of the first value
    that no release up to this one knows, or that of the first fields that exclude each other.
    `unknown_fields` are the paths of unknown fields.
    """

    refusal: str = ""
    unknown_value: str = ""
    unknown_fields: tuple[str, ...] = ()


def judge(spec: FederatedHPASpec) -> Judgement:
    """Returns what is wrong with a spec. An empty value of an enumeration counts as absent."""
    fields: list[str] = []
    values: list[FieldError] = []
    for path, value, shape in _of_model(spec, "spec"):
        if shape is None:
            fields.append(path)
        elif value and value not in shape.crd["enum"] and not path.startswith(_METRICS):
            values.append(unsupported(path, value, shape.crd["enum"]))
    contradiction = next(_contradictions(spec), "")
    unknown = str(values[0]) if values else ""
    return Judgement(unknown or str(contradiction), unknown, tuple(fields))


def _of_model(model: ApiModel, path: str) -> Iterator[tuple[str, Any, Shape | None]]:
    """Yields path, value and shape of each field that is unknown (shape None) or has an enumeration."""
    for name in model.model_extra or ():
        yield f"{path}.{cut_line(name, _MAX_FIELD)}", None, None
    # Faster than reading the attributes of a pydantic model.
    values = vars(model)
    for property_ in fields_with(type(model), _is_judged):
        value = values[property_.attribute]
        if value is not None:
            yield from _of_value(value, property_.shape, f"{path}.{property_.name}")


def _is_judged(shape: Shape) -> bool:
    return shape.model is not None or "enum" in shape.crd


def _of_value(value: Any, shape: Shape, path: str) -> Iterator[tuple[str, Any, Shape | None]]:
    if shape.item is not None and isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from _of_value(item, shape.item, f"{path}[{index}]")
    elif isinstance(value, ApiModel):
        yield from _of_model(value, path)
    elif "enum" in shape.crd:
        yield path, value, shape


def _contradictions(spec: FederatedHPASpec) -> Iterator[FieldError]:
    if not spec.scale_target_ref.kind:
        yield required("spec.scaleTargetRef.kind")
    if not spec.scale_target_ref.name:
        yield required("spec.scaleTargetRef.name")
    least, most = spec.min_replicas, spec.max_replicas
    if None not in (least, spec.federated_min_replicas) and least != spec.federated_min_replicas:
        yield invalid("spec.federatedMinReplicas", spec.federated_min_replicas, "differs from minReplicas")
    if None not in (most, spec.federated_max_replicas) and most != spec.federated_max_replicas:
        yield invalid("spec.federatedMaxReplicas", spec.federated_max_replicas, "differs from maxReplicas")
    least, most = spec.minimum, spec.maximum
    if least is not None and most is not None and least > most:
        yield invalid("spec.minReplicas", least, f"must not be above maxReplicas ({most})")
    if least == 0 and not spec.scales_from_zero:
        yield invalid("spec.minReplicas", 0, "needs an Object or External metric, which wakes the workload")
