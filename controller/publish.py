"""Publishing a decision on the object itself: its status and its events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, cast

from fedhpa.api.federatedhpa import API_VERSION, KIND
from fedhpa.decision import Event
from fedhpa.kube import ApiClient, EventRecorder, InvolvedObject, Resource, update_with_retry

FEDERATED_HPAS: Final = Resource(API_VERSION, KIND, "federatedhpas", namespaced=True, scale=False)
FIELD_MANAGER: Final = "fedhpa-controller"


async def write_status(
    hub: ApiClient,
    resource: Resource,
    raw: Mapping[str, Any],
    status: Mapping[str, Any],
    deadline: float,
) -> Mapping[str, Any] | None:
    """Write the status of the object watched as `raw`; return it as stored, None if nothing was written.

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
    stored = await update_with_retry(
        hub, path, mutate, known=dict(raw), subresource="status", deadline=deadline
    )
    return stored if writes else None


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
