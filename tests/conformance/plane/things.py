"""The objects of the checks and their paths."""

from __future__ import annotations

import copy
from typing import Any

from tests.conformance.plane.talk import Object, Talk

GROUP = "conformance.test"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def core(resource: str, namespace: str, name: str = "") -> str:
    """Returns the path of a core/v1 collection, or of an object in it."""
    return f"/api/v1/namespaces/{namespace}/{resource}" + (f"/{name}" if name else "")


def configmaps(namespace: str, name: str = "") -> str:
    """Returns the path of the ConfigMaps, or of one."""
    return core("configmaps", namespace, name)


def deployments(namespace: str, name: str = "") -> str:
    """Returns the path of the Deployments, or of one."""
    return f"/apis/apps/v1/namespaces/{namespace}/deployments" + (f"/{name}" if name else "")


def widgets(namespace: str, name: str = "") -> str:
    """Returns the path of the Widgets, or of one."""
    return f"/apis/{GROUP}/v1/namespaces/{namespace}/widgets" + (f"/{name}" if name else "")


def configmap(name: str, labels: dict[str, str] | None = None, **data: str) -> Object:
    """Returns a ConfigMap."""
    metadata: Object = {"name": name} | ({"labels": labels} if labels else {})
    made: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    return made | ({"data": data} if data else {})


def widget(name: str, /, **spec: Any) -> Object:
    """Returns a Widget."""
    return {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec}


def deployment(name: str, *, replicas: int = 2, **pod: Any) -> Object:
    """Returns a Deployment whose pods have one container."""
    container = {"name": "web", "image": "registry.invalid/web:1"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [container], **pod},
            },
        },
    }


def pod(name: str, labels: dict[str, str] | None = None, **spec: Any) -> Object:
    """Returns a Pod without a ServiceAccount token."""
    container = {"name": "web", "image": "registry.invalid/web:1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"automountServiceAccountToken": False, "containers": [container], **spec},
    }


_SPEC: Object = {
    "type": "object",
    "description": "What the widget should be.",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "maxLength": 10, "pattern": "^[a-z]*$", "description": "Its name."},
        "size": {"type": "integer", "minimum": 1, "maximum": 10, "default": 3},
        "colour": {"type": "string", "enum": ["red", "green"]},
        "ratio": {"type": "number"},
        "wanted": {"type": "boolean"},
        "replicas": {"type": "integer", "format": "int32", "minimum": 0},
        "amount": {"x-kubernetes-int-or-string": True},
        "note": {"type": "string", "nullable": True},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "parts": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["kind"],
                "properties": {
                    "kind": {"type": "string"},
                    "count": {"type": "integer", "default": 1},
                },
            },
        },
    },
}
_STATUS: Object = {
    "type": "object",
    "properties": {
        "replicas": {"type": "integer"},
        "selector": {"type": "string"},
        "phase": {"type": "string", "enum": ["New", "Old"]},
        "observedGeneration": {"type": "integer"},
    },
}


def crd(plural: str, kind: str, *, group: str = GROUP, **version: Any) -> Object:
    """Returns a CRD of namespaced objects with one version."""
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": names,
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema, **version}],
        },
    }


def widgets_crd() -> Object:
    """Returns the CRD of Widgets: many kinds of fields, status, scale, columns."""
    properties = {"spec": copy.deepcopy(_SPEC), "status": copy.deepcopy(_STATUS)}
    made = crd(
        "widgets",
        "Widget",
        schema={
            "openAPIV3Schema": {
                "type": "object",
                "description": "A widget is for checks.",
                "required": ["spec"],
                "properties": properties,
            }
        },
        subresources={
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
        additionalPrinterColumns=[
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
            {"name": "Colour", "type": "string", "jsonPath": ".spec.colour", "description": "Its colour."},
            {"name": "Phase", "type": "string", "jsonPath": ".status.phase", "priority": 1},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ],
    )
    made["spec"]["names"] |= {"shortNames": ["wi"], "categories": ["conformances"]}
    return made


async def install_widgets(talk: Talk) -> None:
    """Install the CRD of Widgets; it stays installed."""
    await install(talk, widgets_crd())


async def install(talk: Talk, definition: Object) -> None:
    """Create a CRD unless it exists, and wait until its kind is served and discovered."""
    answer = await talk.quietly("POST", CRDS, definition)
    assert answer.status in (201, 409), answer.json
    spec = definition["spec"]
    group, plural = f"/apis/{spec['group']}", spec["names"]["plural"]
    version = f"{group}/{spec['versions'][0]['name']}"

    async def served() -> bool:
        # A real server updates each of these separately.
        answers = [
            await talk.quietly("GET", path) for path in (f"{version}/{plural}", version, group, "/apis")
        ]
        if any(answer.status != 200 for answer in answers):
            return False
        _, resources, _, groups = (answer.json for answer in answers)
        return plural in {resource["name"] for resource in resources["resources"]} and spec["group"] in {
            one["name"] for one in groups["groups"]
        }

    await talk.eventually(served)


def names_of(body: Any) -> Any:
    """Returns a list with the names of its items in place of the items."""
    items = [item["metadata"]["name"] for item in body["items"]]
    return {**{key: value for key, value in body.items() if key != "items"}, "items": items}
