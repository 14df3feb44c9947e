"""URL paths of the Kubernetes API, percent-encoded: a name from an object never changes the path's shape."""

from __future__ import annotations

import functools
from urllib.parse import quote


def group_path(api_version: str) -> str:
    """The root of an apiVersion: `v1` is /api/v1, `apps/v1` is /apis/apps/v1."""
    group, _, version = api_version.rpartition("/")
    if not group:
        return f"/api/{segment(version)}"
    return f"/apis/{segment(group)}/{segment(version)}"


@functools.lru_cache(maxsize=16_384)
def resource_path(
    api_version: str, plural: str, namespace: str = "", name: str = "", subresource: str = ""
) -> str:
    """A collection ("" for name), an object, or its subresource; "" for namespace where there is none."""
    path = group_path(api_version)
    if namespace:
        path += f"/namespaces/{segment(namespace)}"
    path += f"/{segment(plural)}"
    if name:
        path += f"/{segment(name)}"
    if subresource:
        path += f"/{segment(subresource)}"
    return path


def segment(text: str) -> str:
    """One path segment. ValueError for what a server would take for a step up or none at all."""
    if text in ("", ".", ".."):
        raise ValueError(f"{text!r} is no name of a Kubernetes object")
    return quote(text, safe="")
