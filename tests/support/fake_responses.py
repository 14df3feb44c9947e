"""Parsing requests to a Kubernetes API, and building its objects and Status bodies."""

from __future__ import annotations

from typing import Any

from aiohttp import web

TOKEN_REVIEW, ACCESS_REVIEW = "TokenReview", "SubjectAccessReview"
Object = dict[str, Any]
# (apiVersion, plural)
Collection = tuple[str, str]


def parse(path: str) -> tuple[Collection, str, str | None, str]:
    """Returns (collection, namespace, name, subresource) of a URL path."""
    parts = path.strip("/").split("/")
    if parts[0] == "api":
        version, rest = parts[1], parts[2:]
    else:
        version, rest = f"{parts[1]}/{parts[2]}", parts[3:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    return (
        (version, rest[0]),
        namespace,
        rest[1] if len(rest) > 1 else None,
        rest[2] if len(rest) > 2 else "",
    )


def list_kind(collection: Collection) -> str:
    """Returns the kind of a collection's list, such as PodList."""
    version, plural = collection
    if version.startswith("metrics.k8s.io/"):
        return "PodMetricsList" if plural == "pods" else "NodeMetricsList"
    singular = plural[:-3] + "y" if plural.endswith("ies") else plural.removesuffix("s")
    return f"{singular.capitalize()}List"


_METRIC_LISTS = {
    "custom.metrics.k8s.io": "MetricValueList",
    "external.metrics.k8s.io": "ExternalMetricValueList",
}


def with_list_head(path: str, body: Any) -> Any:
    """Returns the body of a list or of discovery with the kind and apiVersion of its path, or its own."""
    if isinstance(body, dict) and ("resources" in body or "versions" in body) and path.startswith("/api"):
        return {"kind": "APIResourceList" if "resources" in body else "APIGroup", "apiVersion": "v1", **body}
    if not isinstance(body, dict) or "items" not in body or not path.startswith("/api"):
        return body
    (version, plural), *_ = parse(path)
    kind = _METRIC_LISTS.get(version.partition("/")[0]) or list_kind((version, plural))
    return {"kind": kind, "apiVersion": version, **body}


def review(kind: str, status: Object) -> Object:
    """Returns an answered TokenReview or SubjectAccessReview."""
    group = "authentication" if kind == TOKEN_REVIEW else "authorization"
    return {"kind": kind, "apiVersion": f"{group}.k8s.io/v1", "status": status}


def selected_name(request: web.Request) -> str | None:
    selector = request.query.get("fieldSelector", "")
    return selector.removeprefix("metadata.name=") if selector else None


def is_selected(request: web.Request, obj: Object) -> bool:
    """True if the object matches the request's label selector, which must be NAME=VALUE."""
    label, _, value = request.query.get("labelSelector", "").partition("=")
    return not label or obj["metadata"].get("labels", {}).get(label) == value


def merge(old: Object, patch: Object) -> Object:
    merged = dict(old)
    for key, value in patch.items():
        if isinstance(value, dict):
            known = merged.get(key)
            merged[key] = merge(known if isinstance(known, dict) else {}, value)
        elif value is None:
            merged.pop(key, None)
        else:
            merged[key] = value
    return merged


def scale_of(obj: Object) -> Object:
    labels = obj["spec"].get("selector", {}).get("matchLabels", {"app": "web"})
    selector = ",".join(f"{label}={value}" for label, value in labels.items())
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": obj["metadata"],
        "spec": {"replicas": obj["spec"]["replicas"]},
        "status": {"replicas": obj["spec"]["replicas"], "selector": selector},
    }


def failure(code: int, reason: str, message: str) -> web.Response:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code}
    return web.json_response({**body, "reason": reason, "message": message}, status=code)
