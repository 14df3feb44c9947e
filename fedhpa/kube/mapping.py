"""Kinds, their resources and their URL paths, from discovery."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote

import msgspec

from fedhpa.api.errors import ApiError, InvalidObject
from fedhpa.kube.client import ApiClient
from fedhpa.kube.responses import NOT_FOUND

# Characters. Longer paths are not cached, because callers could fill the memory with them.
MAX_CACHED = 512


def group_path(api_version: str) -> str:
    """Returns the root of an apiVersion: /api/v1 for `v1`, /apis/apps/v1 for `apps/v1`."""
    group, _, version = api_version.rpartition("/")
    return f"/apis/{segment(group)}/{segment(version)}" if group else f"/api/{segment(version)}"


def resource_path(
    api_version: str, plural: str, namespace: str = "", name: str = "", subresource: str = ""
) -> str:
    """Returns the path of a collection (without `name`), of an object, or of its subresource."""
    is_long = len(api_version) + len(plural) + len(namespace) + len(name) + len(subresource) > MAX_CACHED
    path = _resource_path if is_long else _cached_path
    return path(api_version, plural, namespace, name, subresource)


def _resource_path(api_version: str, plural: str, namespace: str, name: str, subresource: str) -> str:
    path = group_path(api_version) + (f"/namespaces/{segment(namespace)}" if namespace else "")
    rest = [part for part in (name, subresource) if part]
    return path + "".join(f"/{segment(part)}" for part in (plural, *rest))


_cached_path = functools.lru_cache(maxsize=16_384)(_resource_path)


def segment(text: str) -> str:
    """Returns the text as one path segment. Raises ValueError for "", "." and ".."."""
    if text in ("", ".", ".."):
        raise ValueError(f"{text!r} is no name of a Kubernetes object")
    return _quoted(text) if len(text) <= MAX_CACHED else quote(text, safe="")


# Paths are made of few different names, for each request to each member.
@functools.lru_cache(maxsize=4096)
def _quoted(text: str) -> str:
    return quote(text, safe="")


# A new CRD version is noticed after this long.
TTL_SECONDS = 300.0
# Discovery of a kind that is not served is repeated after this long, not at each reconcile.
ABSENT_TTL_SECONDS = 15.0
# Kinds that are kept; objects of tenants name any number of them. No server has as many.
MAX_KINDS = 1_000


class _APIResource(msgspec.Struct, frozen=True):
    name: str = ""
    kind: str = ""
    namespaced: bool = False


class _APIResourceList(msgspec.Struct, frozen=True):
    resources: list[_APIResource] | None = None


class GroupVersion(msgspec.Struct, frozen=True):
    """A version of an API group, and GROUP/VERSION."""

    version: str = ""
    groupVersion: str = ""


class ApiGroup(msgspec.Struct, frozen=True):
    """The served versions of an API group."""

    versions: list[GroupVersion] | None = None
    preferredVersion: GroupVersion | None = None


@dataclass(frozen=True)
class Resource:
    """A served resource. `scale` is True if it has the scale subresource."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool
    scale: bool

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Returns the URL path of an object, or of the collection if `name` is empty."""
        return resource_path(
            self.api_version, self.plural, namespace if self.namespaced else "", name, subresource
        )


class ResourceMapper:
    """Maps kinds to resources by discovery on one server, with a cache."""

    def __init__(self, client: ApiClient, *, clock: Callable[[], float]) -> None:
        self._client = client
        self._clock = clock
        self._known: dict[tuple[str, str], tuple[float, Resource | None]] = {}

    async def resolve(self, api_version: str, kind: str, *, deadline: float | None = None) -> Resource:
        """Returns the resource of a kind in the given version, or in the group's preferred version otherwise.

        Kubernetes HPA 1.36 maps only group and kind and ignores the version; here a served version is used.
        Raises InvalidObject if no version of the group serves the kind, and ApiError if discovery fails.
        The deadline applies to each call.
        """
        key = (api_version, kind)
        until, resource = self._known.get(key, (float("-inf"), None))
        if self._clock() >= until:
            resource = await self._discover(api_version, kind, deadline)
            ttl = TTL_SECONDS if resource is not None else ABSENT_TTL_SECONDS
            self._known.pop(key, None)  # the newest comes last
            self._known[key] = (self._clock() + ttl, resource)
            if len(self._known) > MAX_KINDS:
                del self._known[next(iter(self._known))]
        if resource is None:
            group = api_version.rpartition("/")[0]
            raise InvalidObject(f'no matches for kind "{kind}" in group "{group}"')
        return resource

    async def _discover(self, api_version: str, kind: str, deadline: float | None) -> Resource | None:
        resource = await self._in_version(api_version, kind, deadline)
        group, _, first_choice = api_version.rpartition("/")
        if resource is not None or not group:
            return resource
        for version in await self._versions(group, deadline):
            if version != first_choice:
                resource = await self._in_version(f"{group}/{version}", kind, deadline)
                if resource is not None:
                    return resource
        return None

    async def _in_version(self, api_version: str, kind: str, deadline: float | None) -> Resource | None:
        try:
            found = await self._client.get(group_path(api_version), _APIResourceList, deadline=deadline)
        except ValueError as error:
            raise InvalidObject(f"apiVersion {api_version!r}: {error}") from error
        except ApiError as error:
            if error.status == NOT_FOUND:
                return None
            raise
        resources = found.resources or []
        names = {resource.name for resource in resources}
        for resource in resources:
            if resource.kind == kind and "/" not in resource.name:
                scale = f"{resource.name}/scale" in names
                return Resource(api_version, kind, resource.name, resource.namespaced, scale)
        return None

    async def _versions(self, group: str, deadline: float | None) -> list[str]:
        try:
            found = await self._client.get(f"/apis/{segment(group)}", ApiGroup, deadline=deadline)
        except ApiError as error:
            if error.status == NOT_FOUND:
                return []
            raise
        versions = [entry.version for entry in found.versions or []]
        preferred = found.preferredVersion.version if found.preferredVersion is not None else ""
        versions.sort(key=lambda version: version != preferred)
        return versions
