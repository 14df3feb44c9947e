"""What the adapter serves, in the documents by which the hub and kubectl find out.

All of it is constant: a hub that cannot discover one aggregated API slows every client down, so nothing
here depends on a member.
"""

from __future__ import annotations

from importlib import metadata
from typing import Any

from metrics_adapter.kinds import API_VERSION, GROUP, KINDS, VERSION

VERBS = ["get", "list"]


def api_group() -> dict[str, Any]:
    """/apis/metrics.k8s.io."""
    version = {"groupVersion": API_VERSION, "version": VERSION}
    return {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": GROUP,
        "versions": [version],
        "preferredVersion": version,
    }


def api_group_list() -> dict[str, Any]:
    """/apis for those who do not ask for the aggregated document."""
    group = {key: value for key, value in api_group().items() if key not in ("kind", "apiVersion")}
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [group]}


def api_resource_list() -> dict[str, Any]:
    """/apis/metrics.k8s.io/v1beta1; the hub asks for it to see whether the API is available."""
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": API_VERSION,
        "resources": [
            {
                "name": kind.plural,
                "singularName": "",
                "namespaced": kind.namespaced,
                "kind": kind.kind,
                "verbs": VERBS,
            }
            for kind in sorted(KINDS, key=lambda kind: kind.plural)
        ],
    }


def aggregated_discovery(version: str) -> dict[str, Any]:
    """/apis for those who ask for apidiscovery.k8s.io of `version`."""
    resources = [
        {
            "resource": kind.plural,
            # The hub fills in group and version where they are empty, as metrics-server leaves them.
            "responseKind": {"group": "", "version": "", "kind": kind.kind},
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "singularResource": "",
            "verbs": VERBS,
        }
        for kind in sorted(KINDS, key=lambda kind: kind.plural)
    ]
    item = {
        "metadata": {"name": GROUP},
        "versions": [{"version": VERSION, "resources": resources, "freshness": "Current"}],
    }
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": [item],
    }


def version_info() -> dict[str, str]:
    """/version: ours, in the form of Kubernetes' servers."""
    release = metadata.version("fedhpa")
    major, minor, *_ = release.split(".")
    return {"major": major, "minor": minor, "gitVersion": f"v{release}", "platform": "python"}
