"""The HorizontalPodAutoscalers that mode Distributed writes to the members.

Source: distributed.md, "Member HPAs", in docs/explanation/distributed.md. Versions: the Kubernetes API has
autoscaling/v2 since 1.23, and v2beta2 from 1.12 to 1.25. Both have the same fields but for `tolerance`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec

from fedhpa.api import default_values
from fedhpa.api.autoscalers import HPA_KIND
from fedhpa.api.errors import InvalidQuantity
from fedhpa.api.quantity import Quantity
from fedhpa.api.texts import one_line
from fedhpa.api.wire import ObjectMeta

T = TypeVar("T")

PLURAL: Final = "horizontalpodautoscalers"
V2: Final = "autoscaling/v2"
V2BETA2: Final = "autoscaling/v2beta2"
# The best version is first.
API_VERSIONS: Final = (V2, V2BETA2)

MANAGED_BY: Final = "autoscaling.karmada.io/managed-by"
MANAGER: Final = "fedhpa"
# The annotation that tells the HPAs of several hubs apart. Two UIDs do not fit into a label.
OWNER: Final = "fedhpa.io/owner"
# Of an annotation of a member so much is shown: a UID, and the longest namespace and name.
MAX_OWNER: Final = 360
HUB_ID_FLAG: Final = "--hub-id"
# Stands on a FederatedHPA of mode Distributed, so that its deletion removes the member HPAs first.
FINALIZER: Final = "autoscaling.karmada.io/member-hpas"
# For the log, the doctor and `fedhpa explain`.
DELETION_WAITS: Final = (
    "a controller without --pause removes the member HPAs first, once their clusters answer; to leave "
    f"them in the members, where they go on scaling, remove the finalizer {FINALIZER}"
)

# v2beta2 does not have it, and v2 drops it where the feature gate HPAConfigurableTolerance is off. So an HPA
# that lacks it has not drifted.
_TOLERANCE: Final = "tolerance"
# An extension of the FederatedHPA that no member knows.
_AGGREGATION: Final = "aggregation"
_REFERENCE_FIELDS: Final = ("apiVersion", "kind", "name")
# The selectPolicy of a direction in which an HPA never scales.
_DISABLED: Final = "Disabled"
_QUANTITIES: Final = frozenset({"value", "averageValue"})


class HpaSpec(msgspec.Struct, frozen=True):
    """HorizontalPodAutoscalerSpec. `metrics` and `behavior` are passed on as they came."""

    scaleTargetRef: dict[str, Any] = {}
    minReplicas: int | None = None
    maxReplicas: int = 0
    metrics: list[dict[str, Any]] | None = None
    behavior: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Owner:
    """The FederatedHPA of a member HPA, which has its namespace and name; `hub` is its hub's identity."""

    hub: str
    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        """Returns the value of the annotation."""
        return f"{self.hub}/{self.namespace}/{self.name}/{self.uid}"


class MemberHpa(msgspec.Struct, frozen=True, dict=True):
    """A stored HorizontalPodAutoscaler of a member, of any version in API_VERSIONS.

    `status` is passed on as it came: `fedhpa.assignment.member_hpa` reads it. A watch gives the same object
    until the HPA changes, so what is `derived` of it is computed once for each version.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: HpaSpec = HpaSpec()
    status: dict[str, Any] = {}

    def derived(self, make: Callable[[MemberHpa], T]) -> T:
        """Returns `make(self)`, which depends on nothing else and is computed only once."""
        known: dict[object, T] = self.__dict__.setdefault("derived values", {})
        if make not in known:
            known[make] = make(self)
        return known[make]

    @functools.cached_property
    def ours(self) -> bool:
        """True if we created it. Nothing else may be changed or deleted."""
        return (self.metadata.labels or {}).get(MANAGED_BY) == MANAGER

    @property
    def owner(self) -> str:
        """The value of the owner annotation for people; "" without it."""
        return one_line((self.metadata.annotations or {}).get(OWNER, ""), MAX_OWNER)

    @property
    def remedy(self) -> str:
        """The way to make an HPA ours that is not, as a clause."""
        hub, _, place = self.owner.partition("/")
        if not self.owner:
            return f"delete it, or give it the label {MANAGED_BY}={MANAGER} to hand it over"
        theirs = f"its annotation {OWNER} is {self.owner}"
        hand_over = "remove the annotation to hand it over"
        if place.startswith(f"{self.metadata.namespace}/{self.metadata.name}/"):
            rebuilt = f"if this hub was rebuilt, start the controller with {HUB_ID_FLAG}={hub}"
            return f"{theirs}: {rebuilt}; else delete the FederatedHPA on that hub, or {hand_over}"
        return f"{theirs}, so it is a copy: delete it, or {hand_over}"

    def seen_by(self, hub: str) -> MemberHpa:
        """Returns the HPA as a hub sees it: with our label only if it is its own, else with the owner.

        An object of the same name that was deleted and created again owns it, too. Without the annotation, or
        for an unknown hub (""), the label decides.
        """
        if self.__dict__.get("unchanged for") == hub:
            return self
        metadata = self.metadata
        owner = (metadata.annotations or {}).get(OWNER, "")
        owned = not hub or owner.startswith(f"{hub}/{metadata.namespace}/{metadata.name}/")
        if not owner or (owned and self.ours):
            self.__dict__["unchanged for"] = hub
            return self
        # Without the label nobody owns it, whatever the annotation says.
        hidden, marks = ("labels", metadata.labels) if self.ours else ("annotations", metadata.annotations)
        left = {name: value for name, value in (marks or {}).items() if name not in (MANAGED_BY, OWNER)}
        return msgspec.structs.replace(self, metadata=msgspec.structs.replace(metadata, **{hidden: left}))


def served_version(group_versions: Iterable[str]) -> str | None:
    """Returns the best version that a member serves, of its discovery; None if it serves none of ours."""
    served = set(group_versions)
    return next((version for version in API_VERSIONS if version in served), None)


def wanted_spec(federated: Mapping[str, Any], minimum: int, maximum: int, api_version: str) -> dict[str, Any]:
    """Returns the spec of a member HPA: bounds, and target, metrics and behavior of a FederatedHPA's spec.

    Leaves out what an HPA of this version does not know.
    """
    reference = federated.get("scaleTargetRef") or {}
    spec: dict[str, Any] = {
        "scaleTargetRef": {name: reference[name] for name in _REFERENCE_FIELDS if reference.get(name)},
        "minReplicas": minimum,
        "maxReplicas": maximum,
        "metrics": [
            {field: _without(source, _AGGREGATION) for field, source in metric.items()}
            for metric in federated.get("metrics") or default_values.default_metrics()
        ],
    }
    if behavior := federated.get("behavior"):
        known = {direction: _without(rules, _TOLERANCE) for direction, rules in behavior.items() if rules}
        spec["behavior"] = behavior if api_version == V2 else known
    return spec


def with_hold(federated: Mapping[str, Any], *, down: bool, up: bool) -> Mapping[str, Any]:
    """Returns a FederatedHPA's spec whose behavior disables scaling in the held directions."""
    behavior = federated.get("behavior") or {}
    stopped = [direction for direction, held in (("scaleDown", down), ("scaleUp", up)) if held]
    disabled = {one: {**(behavior.get(one) or {}), "selectPolicy": _DISABLED} for one in stopped}
    return {**federated, "behavior": {**behavior, **disabled}} if disabled else federated


def _without(value: Any, name: str) -> Any:
    """Returns an object without a field, and any other value as it is."""
    if not isinstance(value, Mapping):
        return value
    return {each: part for each, part in value.items() if each != name}


def new_member_hpa(owner: Owner, spec: Mapping[str, Any], api_version: str = V2) -> dict[str, Any]:
    """Returns a member HPA to create, with the marks that make it ours."""
    return {
        "apiVersion": api_version,
        "kind": HPA_KIND,
        "metadata": {
            "name": owner.name,
            "namespace": owner.namespace,
            "labels": {MANAGED_BY: MANAGER},
            "annotations": {OWNER: str(owner)},
        },
        "spec": spec,
    }


def differing_fields(stored: HpaSpec, wanted: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the fields of spec in which a stored HPA differs from the wanted one, sorted.

    Defaults that an API server fills in, equal quantities in another notation, and a missing tolerance are no
    difference.
    """
    old, new = _canonical(msgspec.to_builtins(stored)), _canonical(wanted)
    for direction in default_values.default_scaling_rules():
        if _TOLERANCE not in old.get("behavior", {}).get(direction, {}):
            new.get("behavior", {}).get(direction, {}).pop(_TOLERANCE, None)
    return tuple(sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name)))


def _canonical(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a spec with all defaults, without empty fields, and with one notation for equal quantities.

    An API server fills in the defaults where `metrics` or `behavior` leave them out.
    """
    filled: dict[str, Any] = {"minReplicas": default_values.MIN_REPLICAS}
    filled |= _plain({**spec, "metrics": spec.get("metrics") or default_values.default_metrics()})
    behavior = spec.get("behavior")
    if isinstance(behavior, Mapping) and behavior:
        own = {one: rules for one, rules in _plain(behavior).items() if isinstance(rules, Mapping)}
        defaults = default_values.default_scaling_rules()
        filled["behavior"] = {one: {**rules, **own.get(one, {})} for one, rules in defaults.items()}
    return filled


def _plain(value: Any, parent: str = "") -> Any:
    if isinstance(value, Mapping):
        plain = {name: _plain(each, name) for name, each in value.items()}
        if parent == "target":
            plain.update({name: _exact(plain[name]) for name in _QUANTITIES & plain.keys()})
        return {name: each for name, each in plain.items() if each not in (None, {}, [], "")}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return _exact(value) if parent == _TOLERANCE else value


def _exact(value: Any) -> Any:
    """Returns a quantity in nano-units, or the value itself if it is no quantity."""
    try:
        return Quantity.parse(value).nano
    except InvalidQuantity:
        return value
