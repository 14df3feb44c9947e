"""The memory that one decision leaves to the next: `record` of a scenario and of a decision.

The controller stores it in the object's status. In a scenario it stands by itself, and no field of it may be
unknown or unreadable: a person may have written it, and a slip there would silently be a fresh start.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeVar

import msgspec

from fedhpa.api.errors import InvalidObject
from fedhpa.api.json import InvalidJson, convert_json
from fedhpa.api.times import parse_time
from fedhpa.decision.history import History
from fedhpa.decision.record.fields import path_first
from fedhpa.decision.record.history import RawScenarioHistory, decode_history
from fedhpa.decision.record.status import RawStatus, StoredStatus, stored_status

T = TypeVar("T")
Json = Mapping[str, Any]

# The fields of a status that hold the memory, with what people read beside it.
STATUS_FIELDS: Final = ("decision", "clusters", "assignedFor")

# The codecs of the status pass over numbers beyond these bounds.
Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Seconds = Annotated[float, msgspec.Meta(ge=0, lt=3.2e10)]


class Time(str):
    """A time as RFC 3339."""


class _Checked(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """A part of `record`. Each field is checked here; the codecs of the status read its value."""


class RawAbsence(_Checked):
    """One entry of record.absences."""

    since: Time
    back: Time | None = None
    answered_seconds: Seconds | None = None


class RawRebalance(_Checked):
    """record.rebalance."""

    requested: Time
    since: Time
    size: Count
    ended: str | None = None


class RawCap(_Checked):
    """record.clusters.NAME.cap."""

    replicas: Count
    since: Time
    until: Time | None = None
    minutes: Count | None = None
    room_seen: Count | None = None
    ended_early: bool | None = None


class RawZero(_Checked):
    """record.clusters.NAME.zero."""

    since: Time


class RawRecordedCluster(_Checked):
    """One entry of record.clusters; the fields from `min_replicas` on are those of mode Distributed."""

    state: str | None = None
    current_replicas: int | None = None
    desired_replicas: int | None = None
    last_scale_time: Time | None = None
    last_seen: Time | None = None
    min_replicas: Count | None = None
    max_replicas: Count | None = None
    given: Count | None = None
    given_share: Count | None = None
    given_since: Time | None = None
    ready_since: Time | None = None
    deficit_before: Count | None = None
    ineffective_since: Time | None = None
    held: Count | None = None
    held_since: Time | None = None
    lower_replicas: Count | None = None
    cap: RawCap | None = None
    zero: RawZero | None = None
    at_min_since: Time | None = None
    lost: bool | None = None
    over_since: Time | None = None
    away: bool | None = None
    starting: bool | None = None
    spare: bool | None = None
    idle_since: Time | None = None


class RawMemory(_Checked):
    """record; the size of the workload before and after the decision, and whether that was written."""

    current_replicas: int | None = None
    desired_replicas: int | None = None
    rescale: bool | None = None
    moved: bool | None = None
    absences: dict[str, Any] | None = None
    rebalance: RawRebalance | None = None
    history: RawScenarioHistory | None = None
    clusters: dict[str, Any] | None = None
    assigned_for: str | None = None


CLUSTER_FIELDS: Final = RawRecordedCluster.__struct_encode_fields__
_DECISION_FIELDS: Final = tuple(
    name for name in RawMemory.__struct_encode_fields__ if name not in ("history", "clusters", "assignedFor")
)


def encode_memory(status: Json) -> dict[str, Any]:
    """Returns the memory that a status holds, as `record` has it."""
    decision = status.get("decision")
    found = _present(decision if isinstance(decision, Mapping) else {}, (*_DECISION_FIELDS, "history"))
    clusters = {
        entry.get("name", ""): _present(entry, CLUSTER_FIELDS) for entry in status.get("clusters") or ()
    }
    return {
        **found,
        **({"clusters": clusters} if clusters else {}),
        **_present(status, ("assignedFor",)),
    }


def without_memory(status: Json) -> dict[str, Any]:
    """Returns the fields of a status that a decision reads beside the memory."""
    return {name: value for name, value in status.items() if name not in STATUS_FIELDS}


def decode_memory(record: Json, status: StoredStatus) -> tuple[StoredStatus, History]:
    """Returns the status with the memory of `record` instead of its own, and the history of `record`.

    Raises InvalidObject that names the field.
    """
    checked = _check("record", record, RawMemory)
    for cluster, absence in (checked.absences or {}).items():
        _check(f"record.absences.{cluster}", absence, RawAbsence)
    for cluster, entry in (checked.clusters or {}).items():
        _check(f"record.clusters.{cluster}", entry, RawRecordedCluster)
    fields: dict[str, Any] = {
        "decision": _present(record, _DECISION_FIELDS),
        "clusters": [{**entry, "name": name} for name, entry in (record.get("clusters") or {}).items()],
        "assignedFor": checked.assigned_for,
    }
    stored = stored_status(convert_json(fields, RawStatus))
    return (
        msgspec.structs.replace(
            status, decision=stored.decision, clusters=stored.clusters, assigned_for=stored.assigned_for
        ),
        _decode_history(checked.history),
    )


def _decode_history(raw: RawScenarioHistory | None) -> History:
    try:
        return decode_history(raw)
    except InvalidObject as error:
        raise InvalidObject(f"record.{error}") from error


def _present(fields: Json, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name in names if (value := fields.get(name)) is not None}


def _check(path: str, value: object, kind: type[T]) -> T:
    try:
        return convert_json(value, kind, dec_hook=_time)
    except InvalidJson as error:
        found = path_first(str(error), whole="")
        raise InvalidObject(f"{path}{'' if found.startswith(':') else '.'}{found}") from error


def _time(kind: type, value: object) -> object:
    if not isinstance(value, str):
        raise TypeError(f"Expected a time, got `{type(value).__name__}`")
    try:
        parse_time(value)
    except InvalidObject as error:
        raise ValueError(str(error)) from error  # msgspec adds the path to errors of this class only
    return kind(value)
