"""Karmada's CRDs, as far as tests need them: the fields that they keep, and a hub that drops all others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.hub_check import CRD_PATH
from tests.support.controller import HPAS, Plane
from tests.support.fakeapi import Collection, Object

CRONS: Collection = ("autoscaling.karmada.io/v1alpha1", "cronfederatedhpas")


def fields(*names: str, **nested: Object) -> Object:
    """A schema of an object with these fields, of which those by keyword have schemas of their own."""
    return {"type": "object", "properties": {name: {} for name in names} | nested}


def items(schema: Object) -> Object:
    """A schema of a list."""
    return {"type": "array", "items": schema}


CONDITION = fields("type", "status", "reason", "message", "lastTransitionTime")
# pkg/apis/autoscaling/v1alpha1/federatedhpa_types.go of Karmada v1.19
FEDERATED_HPA: Object = fields(
    spec=fields("scaleTargetRef", "minReplicas", "maxReplicas", "metrics", "behavior"),
    status=fields(
        "observedGeneration",
        "lastScaleTime",
        "currentReplicas",
        "desiredReplicas",
        "currentMetrics",
        conditions=items(CONDITION),
    ),
)
# pkg/apis/autoscaling/v1alpha1/cronfederatedhpa_types.go of Karmada v1.19
CRON_FEDERATED_HPA: Object = fields(
    spec=fields(
        "scaleTargetRef",
        rules=items(
            fields(
                "name",
                "schedule",
                "targetReplicas",
                "targetMinReplicas",
                "targetMaxReplicas",
                "suspend",
                "timeZone",
                "successfulHistoryLimit",
                "failedHistoryLimit",
            )
        ),
    ),
    status=fields(
        executionHistories=items(
            fields(
                "ruleName",
                "nextExecutionTime",
                successfulExecutions=items(
                    fields(
                        "scheduleTime",
                        "executionTime",
                        "appliedReplicas",
                        "appliedMinReplicas",
                        "appliedMaxReplicas",
                    )
                ),
                failedExecutions=items(fields("scheduleTime", "executionTime", "message")),
            )
        ),
    ),
)
SCHEMAS = {HPAS: FEDERATED_HPA, CRONS: CRON_FEDERATED_HPA}


def definition(schema: Object) -> Object:
    """A CustomResourceDefinition with a schema."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "spec": {"versions": [{"name": "v1alpha1", "served": True, "schema": {"openAPIV3Schema": schema}}]},
    }


def pruned(value: Any, schema: Object) -> Any:
    """Returns a value without the fields that a schema does not have."""
    known, each = schema.get("properties"), schema.get("items")
    if known is not None and isinstance(value, dict):
        return {name: pruned(part, known[name]) for name, part in value.items() if name in known}
    if each is not None and isinstance(value, list):
        return [pruned(entry, each) for entry in value]
    return value


def install(hub: Plane, others: Mapping[Collection, Object] | None = None) -> None:
    """From now on the hub has Karmada's CRDs: it drops all other fields of each object that is written.

    `others` replaces the schemas of kinds.
    """
    store = hub.put
    schemas = {**SCHEMAS, **(others or {})}

    def put(collection: Collection, obj: Object) -> Object:
        schema = schemas.get(collection)
        if schema is not None:
            obj = {**obj, **{part: pruned(obj[part], schema["properties"][part]) for part in _parts(obj)}}
        return store(collection, obj)

    hub.put = put  # type: ignore[method-assign]  # the hub's API server prunes
    hub.answers[CRD_PATH] = lambda: definition(schemas[HPAS])
    hub.answers[CRD_PATH.replace(HPAS[1], CRONS[1])] = lambda: definition(_preserving(schemas[CRONS]))


def _preserving(schema: Object) -> Object:
    """Returns a schema whose parts without properties say that they keep all fields."""
    keeps = {"x-kubernetes-preserve-unknown-fields": True}
    return {"properties": {name: part or keeps for name, part in schema["properties"].items()}}


def _parts(obj: Object) -> list[str]:
    return [part for part in ("spec", "status") if obj.get(part) is not None]


COLUMNS = [
    {"jsonPath": ".spec.scaleTargetRef.kind", "name": "REFERENCE-KIND", "type": "string"},
    {"jsonPath": ".spec.scaleTargetRef.name", "name": "REFERENCE-NAME", "type": "string"},
    {"jsonPath": ".metadata.creationTimestamp", "name": "AGE", "type": "date"},
]


def as_karmada_has_it(ours: Object) -> Object:
    """Returns our CRD of a kind with Karmada's fields and columns only."""
    spec = ours["spec"]
    version = spec["versions"][0]
    schema = version["schema"]["openAPIV3Schema"]
    known = SCHEMAS[(f"{spec['group']}/{version['name']}", spec["names"]["plural"])]["properties"]
    properties = {name: _narrowed(part, known.get(name, {})) for name, part in schema["properties"].items()}
    narrow = {
        **version,
        "schema": {"openAPIV3Schema": {**_narrowed(schema, {}), "properties": properties}},
        "additionalPrinterColumns": COLUMNS,
    }
    return {**ours, "spec": {**spec, "versions": [narrow]}}


def _narrowed(schema: Object, known: Object) -> Object:
    """Returns a schema with the fields of another one, all if that has none."""
    found = dict(schema)
    if "properties" in found:
        fields_kept = known.get("properties", found["properties"])
        found["properties"] = {
            name: _narrowed(part, fields_kept[name])
            for name, part in found["properties"].items()
            if name in fields_kept
        }
    if "items" in found:
        found["items"] = _narrowed(found["items"], known.get("items", {}))
    return found


_ANY: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_INTEGER: Object = {"type": "integer", "format": "int32"}
_TEXT: Object = {"type": "string"}


def _structural(**properties: Object) -> Object:
    return {"type": "object", "properties": properties}


# pkg/apis/work/v1alpha1/work_types.go and pkg/apis/work/v1alpha2/binding_types.go of Karmada v1.19, as far as
# mode Distributed reads or writes them.
WORK: Object = _structural(
    spec=_structural(workload=_structural(manifests=items(_ANY))),
    status=_structural(conditions=items(_ANY), manifestStatuses=items(_ANY)),
)
RESOURCE_BINDING: Object = _structural(
    spec=_structural(
        resource=_structural(apiVersion=_TEXT, kind=_TEXT, namespace=_TEXT, name=_TEXT),
        replicas=_INTEGER,
        clusters=items(_structural(name=_TEXT, replicas=_INTEGER)),
        placement=_ANY,
        suspension=_structural(dispatching={"type": "boolean"}, scheduling={"type": "boolean"}),
    ),
    status=_ANY,
)


def of_work_group(kind: str, plural: str, version: str, schema: Object) -> Object:
    """Returns the CRD of a kind of Karmada's group work.karmada.io."""
    served = {
        "name": version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.work.karmada.io"},
        "spec": {"group": "work.karmada.io", "scope": "Namespaced", "names": names, "versions": [served]},
    }
