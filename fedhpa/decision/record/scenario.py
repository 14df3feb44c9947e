"""Scenarios: everything that one decision was made from, as JSON.

`fedhpa record` writes a scenario, `fedhpa replay` reads it. Unknown keys of a scenario are an error. Format:
docs/reference/decision-record.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from fedhpa.api.errors import InvalidObject
from fedhpa.api.hold import HOLD_ANNOTATION, UNTIL_ANNOTATION, HoldRequest
from fedhpa.api.json import convert_json
from fedhpa.api.rebalance import REBALANCE_ANNOTATION
from fedhpa.api.times import format_time
from fedhpa.decision.fleet import FleetView
from fedhpa.decision.memory import History, MemoryState
from fedhpa.decision.record.clusters import (
    RawHubMetrics,
    RawScenarioCluster,
    decode_cluster,
    decode_metrics,
    encode_cluster,
    encode_hub_metrics,
)
from fedhpa.decision.record.fields import path_first, required_time
from fedhpa.decision.record.memory import decode_history, decode_memory, encode_memory, memory_of_status
from fedhpa.decision.settings import ControllerSettings, decode_settings, encode_settings
from fedhpa.decision.snapshot import (
    Blocked,
    Failure,
    PlacementInput,
    ScalingObject,
    Snapshot,
    StoredStatus,
    TemplateScale,
    decode_object,
)

JSON = object

# metadata fields that no decision reads and that may hold more than the user wants to share.
_LEFT_OUT: Final = ("managedFields", "annotations", "ownerReferences", "finalizers")


class Scenario(msgspec.Struct, frozen=True):
    """One scenario, ready for `decide(snapshot, history, now, settings)`; `now_text` is `now` as written."""

    name: str
    now: float
    now_text: str
    snapshot: Snapshot
    history: History
    settings: ControllerSettings


class RawTarget(msgspec.Struct, forbid_unknown_fields=True):
    """target: the scale of the workload's template, or why it could not be read."""

    replicas: int = 0
    generation: int | None = None
    scheduling: Literal["Duplicated", "Divided", ""] = ""
    error: str = ""


class RawHold(msgspec.Struct, forbid_unknown_fields=True):
    """One entry of holds: the annotations of a namespace."""

    namespace: str
    hold: str
    until: str = ""


_KEYS: Final = {
    "federated_hpa": "federatedHPA",
    "hub_metrics": "hubMetrics",
    "ambiguous_with": "ambiguousWith",
    "competitors": "contestedBy",
}


class RawScenario(msgspec.Struct, forbid_unknown_fields=True, rename=_KEYS):
    """The whole scenario."""

    now: str
    federated_hpa: dict[str, Any]  # read with the model of the kind
    name: str = ""
    controller: dict[str, Any] = {}  # `decode_settings` checks it
    target: RawTarget | None = None
    clusters: list[RawScenarioCluster] = []
    hub_metrics: RawHubMetrics = msgspec.field(default_factory=RawHubMetrics)
    history: dict[str, Any] | None = None  # `decode_history` checks it
    record: dict[str, Any] | None = None  # `decode_memory` checks it
    ambiguous_with: tuple[str, ...] = ()
    competitors: tuple[str, ...] = ()
    blocked: Blocked | None = None
    selection: str = ""
    evictions: dict[str, str] = {}
    holds: list[RawHold] = []
    placement: PlacementInput | None = None
    unfollowed: str | None = None


_decoder = msgspec.json.Decoder(RawScenario)


def decode_scenario(raw: bytes | msgspec.Raw) -> Scenario:
    """Returns the scenario of JSON bytes. Raises InvalidObject: its message begins with the field's path."""
    try:
        decoded = _decode(raw)
    except msgspec.ValidationError as error:
        raise InvalidObject(path_first(str(error), whole="scenario")) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidObject(f"not a JSON object: {error}") from error
    now = required_time("now", decoded.now)
    stored = _without_nulls(decoded.federated_hpa)
    try:
        hpa = decode_object(stored)
    except InvalidObject as error:
        raise InvalidObject(f"federatedHPA.{error}") from error
    memory = _memory(decoded, stored.get("status"))
    return Scenario(
        name=decoded.name,
        now=now,
        now_text=decoded.now,
        snapshot=_snapshot(decoded, hpa, memory),
        history=memory.history,
        settings=decode_settings(_without_nulls(decoded.controller)),
    )


def encode_scenario(
    raw: Mapping[str, Any],
    snapshot: Snapshot,
    history: History,
    now: float,
    settings: ControllerSettings,
) -> dict[str, Any]:
    """Returns the scenario of a decision on `raw`, the FederatedHPA as the API server stores it."""
    metadata = {key: value for key, value in raw.get("metadata", {}).items() if key not in _LEFT_OUT}
    if annotations := _annotations(snapshot.hpa):
        metadata["annotations"] = annotations
    scenario: dict[str, Any] = {
        "name": f"{metadata.get('namespace', '')}/{metadata.get('name', '')}",
        "now": format_time(now),
        "controller": dict(encode_settings(settings)),
        "federatedHPA": {**raw, "metadata": metadata},
    }
    target = snapshot.target
    if target is not None:
        scenario["target"] = (
            {"error": target.error}
            if isinstance(target, Failure)
            # Written also where it was inferred, so that a recording does not depend on the inference.
            else {"replicas": target.replicas, "scheduling": FleetView(snapshot, settings, now).scheduling}
        )
    metrics = snapshot.hpa.spec.metrics
    scenario["clusters"] = [encode_cluster(cluster, metrics) for cluster in snapshot.clusters]
    hub = encode_hub_metrics(snapshot.hub_metrics)
    holds = [{"namespace": one.namespace, "hold": one.hold, "until": one.until} for one in snapshot.holds]
    optional = {
        "hubMetrics": hub if any(hub.values()) else None,
        "ambiguousWith": list(snapshot.ambiguous_with) or None,
        "contestedBy": list(snapshot.competitors) or None,
        "selection": snapshot.selection or None,
        "evictions": dict(snapshot.evictions) or None,
        "blocked": snapshot.blocked and msgspec.structs.asdict(snapshot.blocked),
        "holds": holds or None,
        "placement": msgspec.to_builtins(snapshot.placement),
        "unfollowed": snapshot.unfollowed,
    }
    scenario |= {key: value for key, value in optional.items() if value is not None}
    return {**scenario, "record": encode_memory(msgspec.structs.replace(snapshot.memory, history=history))}


def _annotations(hpa: ScalingObject) -> dict[str, str]:
    """Returns the annotations that a decision reads."""
    hold = hpa.hold or HoldRequest("")
    found = {REBALANCE_ANNOTATION: hpa.rebalance, HOLD_ANNOTATION: hold.hold, UNTIL_ANNOTATION: hold.until}
    return {name: value for name, value in found.items() if value}


def scenario_name(raw: bytes | msgspec.Raw) -> str | None:
    """Returns the name of a scenario that `decode_scenario` refuses; None if it has none."""
    try:
        fields = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    name = fields.get("name") if isinstance(fields, dict) else None
    return name if isinstance(name, str) else None


def _decode(raw: bytes | msgspec.Raw) -> RawScenario:
    try:
        return _decoder.decode(raw)
    except msgspec.ValidationError as error:
        if "got `null`" not in str(error):
            raise
    # Go writes null for an absent value of any type. The second pass is slow, so only such scenarios take it.
    return msgspec.convert(_without_nulls(msgspec.json.decode(raw)), RawScenario)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _memory(raw: RawScenario, status: Any) -> MemoryState:
    """Returns the memory. The scenario's own history comes first."""
    if raw.record is None:
        memory = memory_of_status(convert_json(status or {}, StoredStatus))
    else:
        memory = decode_memory(_without_nulls(raw.record))
    if raw.history is None:
        return memory
    return msgspec.structs.replace(memory, history=decode_history(_without_nulls(raw.history)))


def _snapshot(raw: RawScenario, hpa: ScalingObject, memory: MemoryState) -> Snapshot:
    names: set[str] = set()
    for index, cluster in enumerate(raw.clusters):
        if cluster.name in names:
            raise InvalidObject(f"clusters[{index}].name: {cluster.name!r} is there twice")
        names.add(cluster.name)
    shares = {**hpa.status.shares, **memory.shares}
    target: TemplateScale | Failure | None = None
    if raw.target is not None:
        template = TemplateScale(raw.target.replicas, raw.target.generation, raw.target.scheduling)
        target = Failure(raw.target.error) if raw.target.error else template
    # The gate of the controller judges unknown values here, too.
    unknown = hpa.spec.judgement.unknown_value
    refused = Blocked("InvalidObject", unknown) if unknown else None
    return Snapshot(
        hpa=hpa,
        clusters=tuple(
            decode_cluster(
                cluster,
                f"clusters[{index}]",
                hpa,
                memory.absences.get(cluster.name),
                shares.get(cluster.name),
            )
            for index, cluster in enumerate(raw.clusters)
            if cluster.membership != "Out"
        ),
        target=target,
        hub_metrics=decode_metrics("hubMetrics.", raw.hub_metrics, hpa),
        ambiguous_with=raw.ambiguous_with,
        competitors=raw.competitors,
        decided_size=hpa.status.current_replicas if memory.size is None else memory.size,
        memory=memory,
        blocked=raw.blocked or refused,
        selection=raw.selection,
        evictions=raw.evictions,
        holds=tuple(HoldRequest(one.hold, one.until, one.namespace) for one in raw.holds),
        placement=raw.placement,
        unfollowed=raw.unfollowed,
    )
