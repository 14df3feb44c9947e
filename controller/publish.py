"""Publishing a decision on the object itself: its status and its events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, cast

from fedhpa.api.errors import ApiError, Conflict
from fedhpa.api.federatedhpa import API_VERSION, KIND
from fedhpa.api.record_annotation import RECORD_ANNOTATION
from fedhpa.decision import Event
from fedhpa.kube import NOT_FOUND, ApiClient, EventRecorder, InvolvedObject, Resource, update_with_retry

FEDERATED_HPAS: Final = Resource(API_VERSION, KIND, "federatedhpas", namespaced=True, scale=False)
FIELD_MANAGER: Final = "fedhpa-controller"
RECORD_TRIES: Final = 5


async def write_status(
    hub: ApiClient,
    resource: Resource,
    raw: Mapping[str, Any],
    status: Mapping[str, Any],
    deadline: float,
) -> Mapping[str, Any] | None:
    """Write the status of the object read as `raw`; return the object as stored, None if nothing was written.

    A change of the spec in between does not matter, because only this controller writes the status. Nothing
    is written if the object was deleted and created again. Raises ApiError if the hub refuses.
    """
    metadata = raw["metadata"]
    uid = metadata.get("uid")
    writes = False

    def mutate(current: dict[str, Any]) -> dict[str, Any] | None:
        nonlocal writes
        writes = current["metadata"].get("uid") == uid
        return {**current, "status": dict(status)} if writes else None

    path = resource.path(metadata["namespace"], metadata["name"])
    stored = await update_with_retry(hub, path, mutate, subresource="status", deadline=deadline)
    return stored if writes else None


async def write_record(
    hub: ApiClient,
    resource: Resource,
    stored: Mapping[str, Any],
    text: str,
    deadline: float,
    *,
    manager: str = FIELD_MANAGER,
) -> Mapping[str, Any] | None:
    """Set the record annotation of the object read as `stored`; "" removes it. Returns the object as stored.

    Nothing is written if the object was deleted in between; that returns None. Raises ApiError if the hub
    refuses.
    """
    metadata = stored["metadata"]
    uid, path = metadata.get("uid"), resource.path(metadata["namespace"], metadata["name"])
    for attempt in range(1, RECORD_TRIES + 1):
        change = {
            "resourceVersion": metadata.get("resourceVersion", ""),
            "annotations": {RECORD_ANNOTATION: text or None},
        }
        try:
            response = await hub.patch(path, {"metadata": change}, manager=manager, deadline=deadline)
        except Conflict:
            if attempt == RECORD_TRIES:
                raise
        except ApiError as error:
            if error.status == NOT_FOUND:
                return None
            raise
        else:
            return response.json()
        metadata = (await hub.get_json(path, deadline=deadline))["metadata"]
        if metadata.get("uid") != uid:
            return None
    return None


def record_events(
    recorder: EventRecorder, resource: Resource, raw: Mapping[str, Any], events: Sequence[Event]
) -> None:
    """Record a decision's events on the object read as `raw`."""
    metadata = raw["metadata"]
    about = InvolvedObject(
        api_version=resource.api_version,
        kind=resource.kind,
        name=metadata["name"],
        namespace=metadata["namespace"],
        uid=metadata.get("uid", ""),
    )
    for event in events:
        recorder.event(about, cast('Literal["Normal", "Warning"]', event.type), event.reason, event.message)
