"""The gate before a decision: an object that would run as something else than it says is held.

Admission refuses such objects. One that bypassed it is met after a rollback of the processes, which then do
not know a value of a newer release, and on a hub without webhooks. Unknown fields never hold an object:
otherwise the next field of Kubernetes or Karmada would stop scaling on every hub.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from fedhpa.api.autoscaling import POLICY_TYPES, SELECT_POLICIES
from fedhpa.api.decode import WrongType, decode
from fedhpa.api.federatedhpa import (
    ASSIGNMENT_TYPES,
    MINIMUM_POLICIES,
    MODES,
    PARTIAL_METRICS_POLICIES,
    FederatedHPA,
    FederatedHPASpec,
)
from fedhpa.api.fielderror import FieldError, invalid, required, unsupported
from fedhpa.api.metric_types import metric_type

# The enumerations that decide how an object runs. Those of a metric only make this metric fail.
_ENUMERATIONS: Final = (
    ("mode", MODES),
    ("federatedHPAAssignment.federatedHPAAssignmentType", ASSIGNMENT_TYPES),
    ("federatedHPAAssignment.minimumPolicy", MINIMUM_POLICIES),
    ("partialMetrics.policy", PARTIAL_METRICS_POLICIES),
    *(
        (f"behavior.{direction}.{field}", values)
        for direction in ("scaleUp", "scaleDown")
        for field, values in (("selectPolicy", SELECT_POLICIES), ("policies[].type", POLICY_TYPES))
    ),
)


def refusal(raw: Mapping[str, Any]) -> str:
    """Returns why a stored FederatedHPA must not run, with the field's path and its value; "" if it may."""
    spec = raw.get("spec")
    try:
        decoded = decode(FederatedHPA, {"spec": spec}).spec
    except WrongType as error:
        return f"{error.remedy} ({error})"
    found = unknown_value(spec) or next(_contradictions(decoded), None)
    return "" if found is None else str(found)


def unknown_value(spec: object) -> FieldError | None:
    """Returns the error of the first value that no release up to this one knows.

    `spec` is JSON, or a structure whose attributes are named as in JSON. An empty value counts as absent.
    """
    for path, known in _ENUMERATIONS:
        for place, value in _values(spec, path.split("."), "spec"):
            if value and value not in known:
                return unsupported(place, value, known)
    return None


def _values(holder: object, path: Sequence[str], place: str) -> Iterator[tuple[str, Any]]:
    """Yields each value at a path, with its place; `[]` behind a name stands for each item of a list."""
    name, is_list = path[0].removesuffix("[]"), path[0].endswith("[]")
    value = holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)
    place = f"{place}.{name}"
    if is_list:
        for index, item in enumerate(value or ()):
            yield from _values(item, path[1:], f"{place}[{index}]")
    elif len(path) > 1:
        yield from _values(value, path[1:], place)
    else:
        yield place, value


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
    least = spec.federated_min_replicas if least is None else least
    most = spec.federated_max_replicas if most is None else most
    if most is None:
        yield required("spec.maxReplicas")
    elif least is not None and least > most:
        yield invalid("spec.minReplicas", least, f"must not be above maxReplicas ({most})")
    if least == 0 and not any(metric_type(metric.type).scales_from_zero for metric in spec.metrics):
        yield invalid("spec.minReplicas", 0, "needs an Object or External metric, which wakes the workload")
