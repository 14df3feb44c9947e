"""Discovery, as far as both planes serve the same resources."""

from __future__ import annotations

from typing import Any

from tests.conformance.plane.registry import check
from tests.conformance.plane.talk import Talk
from tests.conformance.plane.things import GROUP, install_widgets

# The groups and resources that the product, the demo and the checks use.
RESOURCES = {
    "/api/v1": (
        "configmaps",
        "events",
        "namespaces",
        "namespaces/status",
        "nodes",
        "nodes/status",
        "pods",
        "pods/status",
        "secrets",
        "serviceaccounts",
        "serviceaccounts/token",
        "services",
    ),
    "/apis/apps/v1": (
        "deployments",
        "deployments/scale",
        "deployments/status",
        "replicasets",
        "replicasets/scale",
        "statefulsets",
        "statefulsets/scale",
    ),
    "/apis/autoscaling/v2": ("horizontalpodautoscalers", "horizontalpodautoscalers/status"),
    "/apis/coordination.k8s.io/v1": ("leases",),
    "/apis/rbac.authorization.k8s.io/v1": ("clusterroles", "clusterrolebindings", "roles", "rolebindings"),
    "/apis/authentication.k8s.io/v1": ("tokenreviews",),
    "/apis/authorization.k8s.io/v1": ("subjectaccessreviews", "selfsubjectaccessreviews"),
    "/apis/apiextensions.k8s.io/v1": ("customresourcedefinitions", "customresourcedefinitions/status"),
    "/apis/apiregistration.k8s.io/v1": ("apiservices", "apiservices/status"),
    "/apis/admissionregistration.k8s.io/v1": (
        "mutatingwebhookconfigurations",
        "validatingwebhookconfigurations",
    ),
    f"/apis/{GROUP}/v1": ("widgets", "widgets/scale", "widgets/status"),
}


@check()
async def resources(talk: Talk) -> None:
    """The names, kinds, scopes, short names and verbs of the resources."""
    await install_widgets(talk)
    for path, names in RESOURCES.items():
        answer = await talk.quietly("GET", path)
        found = {resource["name"]: resource for resource in answer.json["resources"]}
        head = {key: answer.json[key] for key in ("kind", "groupVersion")}
        shown = [_plain(found.get(name, {"name": name, "kind": "not there"})) for name in names]
        talk.note({"ask": f"GET {path}", **head, "resources": shown})

        assert set(names) <= set(found)


def _plain(resource: Any) -> Any:
    return {key: value for key, value in resource.items() if key != "storageVersionHash"}


@check()
async def openapi(talk: Talk) -> None:
    """OpenAPI v3 has an index of group versions; a schema has its group, version and kind."""
    await install_widgets(talk)

    async def published() -> Any:
        paths = (await talk.quietly("GET", "/openapi/v3")).json["paths"]
        return paths if f"apis/{GROUP}/v1" in paths else None

    index = await talk.eventually(published)
    for path, kind in (
        (f"apis/{GROUP}/v1", "Widget"),
        ("apis/apps/v1", "Deployment"),
        ("api/v1", "ConfigMap"),
    ):
        document = (await talk.quietly("GET", index[path]["serverRelativeURL"])).json
        found = [
            schema
            for schema in document["components"]["schemas"].values()
            for own in schema.get("x-kubernetes-group-version-kind", ())
            if own["kind"] == kind
        ]
        talk.note({"path": path, "kind": kind, "gvk": found[0]["x-kubernetes-group-version-kind"]})

        assert len(found) == 1
        if kind == "Widget":
            spec = found[0]["properties"]["spec"]
            talk.note({"spec": spec["description"], "name": spec["properties"]["name"]})
