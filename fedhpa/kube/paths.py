"""URL paths of the Kubernetes API. Parts are percent-encoded, so that no name changes the path's shape."""

from __future__ import annotations

import functools
from urllib.parse import quote


def group_path(api_version: str) -> str:
    """Returns the root of an apiVersion: /api/v1 for `v1`, /apis/apps/v1 for `apps/v1`."""
    group, _, version = api_version.rpartition("/")
    if not group:
        return f"/api/{segment(version)}"
    return f"/apis/{segment(group)}/{segment(version)}"


@functools.lru_cache(maxsize=16_384)
def resource_path(
    api_version: str, plural: str, namespace: str = "", name: str = "", subresource: str = ""
) -> str:
    """Returns the path of a collection (without `name`), of an object, or of its subresource."""
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
    """Returns the text as one path segment. Raises ValueError for "", "." and ".."."""
    if text in ("", ".", ".."):
        raise ValueError(f"{text!r} is no name of a Kubernetes object")
    return quote(text, safe="")
