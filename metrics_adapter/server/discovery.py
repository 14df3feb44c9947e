"""What the adapter serves, in the documents by which the hub and kubectl find out.

Groups and versions are constant, and the names of metrics come from memory: nothing here waits for a member.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata
from typing import Any

from fedhpa.members.metrics import CUSTOM, CUSTOM_VERSIONS, EXTERNAL
from metrics_adapter.kinds import GROUP, KINDS, VERSION
from metrics_adapter.members.catalogue import Catalogue, Listed

VERBS = ["get", "list"]
VALUE_VERBS = ["get"]
# Sorted; the first version of each is preferred.
SERVED = {CUSTOM: CUSTOM_VERSIONS, EXTERNAL: ("v1beta1",), GROUP: (VERSION,)}
VALUE_KINDS = {CUSTOM: "MetricValueList", EXTERNAL: "ExternalMetricValueList"}


def api_group(group: str) -> dict[str, Any]:
    """/apis/GROUP."""
    versions = [{"groupVersion": f"{group}/{version}", "version": version} for version in SERVED[group]]
    return {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": group,
        "versions": versions,
        "preferredVersion": versions[0],
    }


def api_group_list() -> dict[str, Any]:
    """/apis for those who do not ask for the aggregated document."""
    groups = [
        {key: value for key, value in api_group(group).items() if key not in ("kind", "apiVersion")}
        for group in SERVED
    ]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def api_resource_list(group: str, version: str, catalogue: Catalogue) -> dict[str, Any]:
    """/apis/GROUP/VERSION; the hub asks for it to see whether the API is available."""
    resources = _usage_resources() if group == GROUP else _value_resources(group, catalogue.names(group))
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}",
        "resources": resources,
    }


def aggregated_discovery(version: str, catalogue: Catalogue) -> dict[str, Any]:
    """/apis for those who ask for apidiscovery.k8s.io of `version`."""
    items = []
    for group, served in SERVED.items():
        resources = _usage_discovery() if group == GROUP else _value_discovery(group, catalogue.names(group))
        versions = [{"version": name, "resources": resources, "freshness": "Current"} for name in served]
        items.append({"metadata": {"name": group}, "versions": versions})
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": items,
    }


def version_info() -> dict[str, str]:
    """/version: ours, in the form of Kubernetes' servers."""
    release = metadata.version("fedhpa")
    major, minor, *_ = release.split(".")
    return {"major": major, "minor": minor, "gitVersion": f"v{release}", "platform": "python"}


def _usage_resources() -> list[dict[str, Any]]:
    return [
        {
            "name": kind.plural,
            "singularName": "",
            "namespaced": kind.namespaced,
            "kind": kind.kind,
            "verbs": VERBS,
        }
        for kind in sorted(KINDS, key=lambda kind: kind.plural)
    ]


def _value_resources(group: str, names: Sequence[Listed]) -> list[dict[str, Any]]:
    return [
        {
            "name": entry.name,
            "singularName": "",
            "namespaced": entry.namespaced,
            "kind": VALUE_KINDS[group],
            "verbs": VALUE_VERBS,
        }
        for entry in names
    ]


def _usage_discovery() -> list[dict[str, Any]]:
    return [
        _discovered(kind.plural, kind.kind, kind.namespaced, VERBS)
        for kind in sorted(KINDS, key=lambda kind: kind.plural)
    ]


def _value_discovery(group: str, names: Sequence[Listed]) -> list[dict[str, Any]]:
    """A metric of an object is a subresource there, below a resource that itself cannot be asked for."""
    found: dict[str, dict[str, Any]] = {}
    for entry in names:
        resource, _, metric = entry.name.partition("/")
        if not metric:
            found[resource] = _discovered(resource, VALUE_KINDS[group], entry.namespaced, VALUE_VERBS)
            continue
        parent = found.setdefault(resource, _discovered(resource, "", entry.namespaced, []))
        kind = {"group": "", "version": "", "kind": VALUE_KINDS[group]}
        parent.setdefault("subresources", []).append(
            {"subresource": metric, "responseKind": kind, "verbs": VALUE_VERBS}
        )
    return list(found.values())


def _discovered(resource: str, kind: str, namespaced: bool, verbs: list[str]) -> dict[str, Any]:
    return {
        "resource": resource,
        # The hub fills in group and version where they are empty, as metrics-server leaves them.
        "responseKind": {"group": "", "version": "", "kind": kind},
        "scope": "Namespaced" if namespaced else "Cluster",
        "singularResource": "",
        "verbs": verbs,
    }
