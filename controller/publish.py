"""Showing a decision on the object itself: its status and its events.

Status is written on a change that a person would care about, otherwise at most once a minute, and where only
times move every ten minutes: a quiet world writes next to nothing (docs/reference/federatedhpa.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, cast

from fedhpa.decision.model import Event
from fedhpa.kube.client import ApiClient
from fedhpa.kube.events import EventRecorder, InvolvedObject
from fedhpa.kube.paths import resource_path
from fedhpa.kube.writes import update_with_retry

API_VERSION: Final = "autoscaling.karmada.io/v1alpha1"
KIND: Final = "FederatedHPA"
PLURAL: Final = "federatedhpas"
COLLECTION: Final = f"/apis/{API_VERSION}/{PLURAL}"

QUIET_SECONDS: Final = 60.0
# Where nothing but times would be written: often enough to show that somebody is still looking.
STILL_SECONDS: Final = 600.0

# What a person would care about, by level; values beside them (usage, times) move at every look.
TOP_FIELDS: Final = ("currentReplicas", "desiredReplicas", "observedGeneration", "lastScaleTime")
CONDITION_FIELDS: Final = ("type", "status", "reason")
CLUSTER_FIELDS: Final = ("name", "state", "currentReplicas", "desiredReplicas", "minReplicas", "maxReplicas")


def worth_writing(
    stored: Mapping[str, Any] | None, wanted: Mapping[str, Any], written_at: float, now: float
) -> bool:
    """Whether `wanted` should replace the `stored` status; `written_at` is our last write, POSIX seconds."""
    if stored is None or _essence(stored) != _essence(wanted):
        return True
    # Another leader's clock may have been ahead of ours.
    waited = abs(now - written_at)
    if waited < QUIET_SECONDS or stored == wanted:
        return False
    return waited >= STILL_SECONDS or _timeless(stored) != _timeless(wanted)


def _essence(status: Mapping[str, Any]) -> tuple[Any, ...]:
    return (
        tuple(status.get(name) for name in TOP_FIELDS),
        _rows(status.get("conditions"), CONDITION_FIELDS),
        _rows(status.get("clusters"), CLUSTER_FIELDS),
        _why(status.get("decision")),
    )


def _timeless(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """The status without what moves at every look where nothing happens: when it was made and what was seen.

    History goes with it: a proposal that differs shows in the decision's metrics and steps, too.
    """
    clusters = [{**entry, "lastSeen": None} for entry in status.get("clusters") or ()]
    decision = status.get("decision")
    if isinstance(decision, Mapping):
        decision = {**decision, "time": None, "history": None}
    return {**status, "clusters": clusters, "decision": decision}


def _why(decision: Any) -> tuple[Any, ...]:
    """The reason up to a colon (errors word themselves anew), and which steps held the size."""
    if not isinstance(decision, Mapping):
        return ()
    reason = str(decision.get("reason") or "").partition(":")[0]
    steps = decision.get("steps")
    held = tuple(
        step.get("step")
        for step in (steps if isinstance(steps, list) else ())
        if isinstance(step, Mapping) and step.get("from") != step.get("to")
    )
    failed = bool(decision.get("error"))
    return reason, failed, decision.get("rescale"), decision.get("moved"), held


def _rows(entries: Sequence[Mapping[str, Any]] | None, fields: Sequence[str]) -> tuple[Any, ...]:
    return tuple(tuple(entry.get(name) for name in fields) for entry in entries or ())


async def write_status(
    hub: ApiClient, raw: Mapping[str, Any], status: Mapping[str, Any], deadline: float
) -> Mapping[str, Any]:
    """Write the status of the object read as `raw`; gives the object as stored.

    A writer of the spec in between is no obstacle: only we write the status. If the object was deleted and
    made again meanwhile, nothing is written. ApiError if the hub does not take it.
    """
    metadata = raw["metadata"]
    uid = metadata.get("uid")

    def mutate(current: dict[str, Any]) -> dict[str, Any] | None:
        if current["metadata"].get("uid") != uid:
            return None
        return {**current, "status": dict(status)}

    path = resource_path(API_VERSION, PLURAL, metadata["namespace"], metadata["name"])
    return await update_with_retry(hub, path, mutate, subresource="status", deadline=deadline)


def record_events(recorder: EventRecorder, raw: Mapping[str, Any], events: Sequence[Event]) -> None:
    """Record a decision's events on the object."""
    metadata = raw["metadata"]
    about = InvolvedObject(
        api_version=API_VERSION,
        kind=KIND,
        name=metadata["name"],
        namespace=metadata["namespace"],
        uid=metadata.get("uid", ""),
    )
    for event in events:
        recorder.event(about, cast('Literal["Normal", "Warning"]', event.type), event.reason, event.message)
