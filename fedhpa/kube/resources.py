"""Resources: their URL paths, their discovery by kind, and reads and writes of single objects.

A write carries the resourceVersion that it is based on, so that no other writer's change is lost.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import msgspec

from fedhpa.api.errors import ApiError, Conflict, InvalidObject
from fedhpa.api.wire import Scale
from fedhpa.kube.client import ApiClient
from fedhpa.kube.responses import CONFLICT, NOT_FOUND
from fedhpa.kube.supervision import Backoff

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


# client-go's DefaultRetry makes 5 tries from 10 ms. Conflicts come from active writers: waits are short.
TRIES = 5
FIRST_WAIT_SECONDS = 0.02
MAX_WAIT_SECONDS = 1.0

Object = dict[str, Any]


async def update_with_retry(
    client: ApiClient,
    path: str,
    mutate: Callable[[Object], Object | None],
    *,
    known: Object | None = None,
    subresource: str = "",
    deadline: float | None = None,
) -> Object:
    """Read the object, change it with `mutate`, and write it; repeat this after a conflict.

    The first read is left out if the object is `known`, from a watch for example. `mutate` gets the current
    object each time and returns the object to write, or None to write nothing.
    `subresource` ("status") selects the part that is written; the whole object is read. Returns the object
    as written, or as read if nothing was written. The deadline applies to each call. Raises Conflict after
    the last try, and ApiError for other failures.
    """
    backoff = Backoff(FIRST_WAIT_SECONDS, MAX_WAIT_SECONDS)
    target = f"{path}/{subresource}" if subresource else path
    for attempt in range(1, TRIES + 1):
        if known is None:
            known = await client.get_json(path, deadline=deadline)
        changed = mutate(known)
        if changed is None:
            return known
        try:
            return (await client.put(target, changed, deadline=deadline)).json()
        except Conflict:
            if attempt == TRIES:
                raise
        known = None
        await asyncio.sleep(backoff.next())
    raise AssertionError("the last try returns or raises")


async def patch_with_retry(
    client: ApiClient,
    path: str,
    known: Mapping[str, Any],
    change: Callable[[Mapping[str, Any]], Object | None],
    *,
    subresource: str = "",
    manager: str,
    deadline: float,
) -> Mapping[str, Any] | None:
    """Patch the object `known`, which is read anew after a conflict, with what `change` makes of it.

    `change` returns None to write nothing. Returns the object as stored, None if it is gone or was created
    again. Raises Conflict after the last try, and ApiError if the server refuses. The deadline applies to
    each call.
    """
    backoff = Backoff(FIRST_WAIT_SECONDS, MAX_WAIT_SECONDS)
    uid, target = known["metadata"].get("uid"), f"{path}/{subresource}" if subresource else path
    try:
        for attempt in range(1, TRIES + 1):
            if (patch := change(known)) is None:
                return known
            version = {"resourceVersion": known["metadata"].get("resourceVersion", "")}
            body = {**patch, "metadata": patch.get("metadata", {}) | version}
            try:
                return (await client.patch(target, body, manager=manager, deadline=deadline)).json()
            except Conflict:
                if attempt == TRIES:
                    raise
            await asyncio.sleep(backoff.next())
            known = await client.get_json(path, deadline=deadline)
            if known["metadata"].get("uid") != uid:
                break
    except ApiError as error:
        if error.status != NOT_FOUND:
            raise
    return None


async def patch_finalizers(
    client: ApiClient,
    path: str,
    known: Mapping[str, Any],
    change: Callable[[Sequence[str]], list[str]],
    *,
    manager: str,
    deadline: float,
) -> Mapping[str, Any] | None:
    """Changes the finalizers of an object as `patch_with_retry` does; of `known` the metadata is enough.

    An object that is being deleted gets no further finalizer, because the API server refuses it.
    """

    def patch(found: Mapping[str, Any]) -> Object | None:
        present = list(found["metadata"].get("finalizers") or ())
        wanted = change(present)
        if found["metadata"].get("deletionTimestamp"):
            wanted = [each for each in wanted if each in present]
        return None if wanted == present else {"metadata": {"finalizers": wanted}}

    return await patch_with_retry(client, path, known, patch, manager=manager, deadline=deadline)


async def get_if_there(
    client: ApiClient, path: str, *, deadline: float | None = None
) -> dict[str, Any] | None:
    """Returns an object as decoded JSON; None if there is none. Raises ApiError."""
    try:
        return await client.get_json(path, deadline=deadline)
    except ApiError as error:
        if error.status != NOT_FOUND:
            raise
        return None


async def delete_if_there(
    client: ApiClient, path: str, *, only: Mapping[str, str] | None = None, deadline: float | None = None
) -> bool:
    """Deletes an object, as `ApiClient.delete`. Returns False if there is none. Raises ApiError."""
    try:
        await client.delete(path, only=only, deadline=deadline)
    except ApiError as error:
        if error.status != NOT_FOUND:
            raise
        return False
    return True


async def get_scale(client: ApiClient, path: str, *, deadline: float | None = None) -> Scale:
    """Returns the scale subresource of the object at `path` (without /scale)."""
    return await client.get(f"{path}/scale", Scale, deadline=deadline)


async def put_scale(
    client: ApiClient,
    path: str,
    scale: Scale,
    replicas: int,
    *,
    manager: str = "",
    deadline: float | None = None,
) -> Scale:
    """Set the replicas of the object at `path`, based on the scale that was read before.

    Raises Conflict if the object has changed since. It is not retried: the caller must decide again.
    """
    metadata = scale.metadata
    body = {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {
            "name": metadata.name,
            "namespace": metadata.namespace,
            "uid": metadata.uid,
            "resourceVersion": metadata.resourceVersion,
        },
        "spec": {"replicas": replicas},
    }
    if not metadata.resourceVersion:
        raise Conflict(
            f"scale of {metadata.namespace}/{metadata.name} was served without a resourceVersion",
            status=CONFLICT,
            reason="Conflict",
        )
    return (await client.put(f"{path}/scale", body, manager=manager, deadline=deadline)).decode(Scale)


async def patch_status(
    client: ApiClient, path: str, status: Object, *, deadline: float | None = None
) -> Object:
    """Merge `status` into the status of the object at `path`. Lists are replaced as a whole."""
    return (await client.patch(f"{path}/status", {"status": status}, deadline=deadline)).json()
