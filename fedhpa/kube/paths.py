"""URL paths of the Kubernetes API. Parts are percent-encoded, so that no name changes the path's shape."""

from __future__ import annotations

import functools
from urllib.parse import quote

# Characters. Longer paths are not cached, because callers could fill the memory with them.
MAX_CACHED = 512


def group_path(api_version: str) -> str:
    """Returns the root of an apiVersion: /api/v1 for `v1`, /apis/apps/v1 for `apps/v1`."""
    group, _, version = api_version.rpartition("/")
    if not group:
        return f"/api/{segment(version)}"
    return f"/apis/{segment(group)}/{segment(version)}"


def resource_path(
    api_version: str, plural: str, namespace: str = "", name: str = "", subresource: str = ""
) -> str:
    """Returns the path of a collection (without `name`), of an object, or of its subresource."""
    if len(api_version) + len(plural) + len(namespace) + len(name) + len(subresource) > MAX_CACHED:
        return _resource_path(api_version, plural, namespace, name, subresource)
    return _cached_path(api_version, plural, namespace, name, subresource)


def _resource_path(api_version: str, plural: str, namespace: str, name: str, subresource: str) -> str:
    path = group_path(api_version)
    if namespace:
        path += f"/namespaces/{segment(namespace)}"
    path += f"/{segment(plural)}"
    if name:
        path += f"/{segment(name)}"
    if subresource:
        path += f"/{segment(subresource)}"
    return path


_cached_path = functools.lru_cache(maxsize=16_384)(_resource_path)


def segment(text: str) -> str:
    """Returns the text as one path segment. Raises ValueError for "", "." and ".."."""
    if text in ("", ".", ".."):
        raise ValueError(f"{text!r} is no name of a Kubernetes object")
    return quote(text, safe="")
