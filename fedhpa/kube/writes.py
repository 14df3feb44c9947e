"""Writes that carry the resourceVersion they are based on, so that no other writer's change is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fedhpa.api.errors import ApiError, Conflict
from fedhpa.api.wire import Scale
from fedhpa.kube.client import ApiClient
from fedhpa.kube.responses import CONFLICT, NOT_FOUND
from fedhpa.kube.supervision import Backoff

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
