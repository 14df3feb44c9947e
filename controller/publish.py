"""Publishing a decision on the object itself: its status and its events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, cast

from fedhpa.api.federatedhpa import API_VERSION, KIND
from fedhpa.decision import Event
from fedhpa.kube import ApiClient, EventRecorder, InvolvedObject, Resource, update_with_retry

FEDERATED_HPAS: Final = Resource(API_VERSION, KIND, "federatedhpas", namespaced=True, scale=False)


async def write_status(
    hub: ApiClient,
    resource: Resource,
    raw: Mapping[str, Any],
    status: Mapping[str, Any],
    deadline: float,
    *,
    unless_newer: bool = False,
) -> Mapping[str, Any]:
    """Write the status of the object read as `raw`; return the object as stored.

    A change of the spec in between does not matter, because only this controller writes the status. Nothing
    is written if the object was deleted and created again or, with `unless_newer`, if its status has a newer
    decision. Raises ApiError if the hub refuses.
    """
    metadata = raw["metadata"]
    uid = metadata.get("uid")

    def mutate(current: dict[str, Any]) -> dict[str, Any] | None:
        if current["metadata"].get("uid") != uid:
            return None
        if unless_newer and _decided_at(current.get("status")) > _decided_at(status):
            return None
        return {**current, "status": dict(status)}

    path = resource.path(metadata["namespace"], metadata["name"])
    return await update_with_retry(hub, path, mutate, subresource="status", deadline=deadline)


def _decided_at(status: Any) -> str:
    """The time of a status' decision, as text that orders by time; "" without one."""
    decision = status.get("decision") if isinstance(status, Mapping) else None
    time = decision.get("time") if isinstance(decision, Mapping) else None
    return time if isinstance(time, str) else ""


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
