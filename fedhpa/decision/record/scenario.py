"""Recorded scenarios: everything one decision was made from, as JSON. Format:
docs/reference/decision-record.md.

The wire form is `fedhpa.decision.record.wire`. Whatever cannot be read is an error that names its path.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar, cast

import msgspec

from fedhpa.api.errors import InvalidObject
from fedhpa.api.known_cluster import KnownCluster
from fedhpa.api.selectors import parse_selector
from fedhpa.api.times import parse_duration, parse_time
from fedhpa.decision.absence import Absence
from fedhpa.decision.asked import asked_for
from fedhpa.decision.history import History, Recommendation, ScaleEvent
from fedhpa.decision.record import wire as recorded
from fedhpa.decision.snapshot import (
    Blocked,
    ClusterScale,
    ClusterSnapshot,
    ControllerSettings,
    Failure,
    MemberHPA,
    Snapshot,
    Target,
)
from fedhpa.decision.spec.federatedhpa import ANSWERED_STATES, MetricSpec, ScalingObject, scaling_object
from fedhpa.scaling.records import custom_sample, external_sample, pod_record, usage_record
from fedhpa.scaling.selection import SelectedPods, select_pods, select_usage

JSON = object

T = TypeVar("T")
R = TypeVar("R")


class Scenario(msgspec.Struct, frozen=True):
    """One scenario, ready for `decide(snapshot, history, now, settings)`; `now_text` is as written."""

    name: str
    now: float
    now_text: str
    snapshot: Snapshot
    history: History
    settings: ControllerSettings


_decoder = msgspec.json.Decoder(recorded.Scenario)


def decode_scenario(raw: bytes | msgspec.Raw) -> Scenario:
    """Reads one scenario from JSON. Raises InvalidObject whose message begins with the path of the field."""
    try:
        wired = _decode(raw)
    except msgspec.ValidationError as error:
        raise InvalidObject(_with_path(str(error))) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidObject(f"not a JSON object: {error}") from error
    now = _required_time(wired.now, "now")
    return Scenario(
        name=wired.name,
        now=now,
        now_text=wired.now,
        snapshot=_snapshot(wired),
        history=_history(wired.history or recorded.History()),
        settings=_settings(wired.controller or recorded.Controller()),
    )


def _decode(raw: bytes | msgspec.Raw) -> recorded.Scenario:
    try:
        return _decoder.decode(raw)
    except msgspec.ValidationError as error:
        if "got `null`" not in str(error):
            raise
    # Go writes and reads null for what is absent, whatever its type; only such scenarios pay for this.
    return msgspec.convert(_without_nulls(msgspec.json.decode(raw)), recorded.Scenario)


def _without_nulls(value: JSON) -> JSON:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def name_of(raw: bytes | msgspec.Raw) -> str | None:
    """The name of a scenario that cannot be read otherwise; None if it has none."""
    try:
        fields = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    name = fields.get("name") if isinstance(fields, dict) else None
    return name if isinstance(name, str) else None


def _with_path(message: str) -> str:
    """Puts the path of a msgspec error first: `clusters[0].ready: Expected ...`."""
    match = re.fullmatch(r"(.*?)(?: - at `(?:key in )?\$?\.?(.*)`)?", message, re.DOTALL)
    text, path = (match[1], match[2] or "") if match else (message, "")
    field = re.search(r"(?:unknown|missing required) field `([^`]*)`", text)
    if field:
        path = f"{path}.{field[1]}" if path else field[1]
        text = "unknown field" if "unknown field" in text else "required field is missing"
    return f"{path or 'scenario'}: {text}"


def _settings(raw: recorded.Controller) -> ControllerSettings:
    return ControllerSettings(
        tolerance=raw.tolerance,
        downscale_stabilization=_duration(raw.downscale_stabilization, "downscaleStabilization"),
        cpu_initialization_period=_duration(raw.cpu_initialization_period, "cpuInitializationPeriod"),
        initial_readiness_delay=_duration(raw.initial_readiness_delay, "initialReadinessDelay"),
        cluster_lost_timeout=_duration(raw.cluster_lost_timeout, "clusterLostTimeout"),
        scale_up_limit_factor=raw.scale_up_limit_factor,
        scale_up_limit_minimum=int(raw.scale_up_limit_minimum),
    )


def _duration(value: str | float, field: str) -> float:
    return _at(f"controller.{field}", parse_duration, value)


def _required_time(text: str, path: str) -> float:
    moment = _at(path, parse_time, text)
    return 0.0 if moment is None else moment


def _snapshot(wired: recorded.Scenario) -> Snapshot:
    hub = wired.hub_metrics or recorded.HubMetrics()
    target: Target | Failure | None = None
    if wired.target is not None:
        target = (
            Failure(wired.target.error)
            if wired.target.error
            else Target(wired.target.replicas, wired.target.generation)
        )
    names = [cluster.name for cluster in wired.clusters or ()]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise InvalidObject(f"clusters[{index}].name: {name!r} is there twice")
    blocked = wired.blocked
    hpa = scaling_object(wired.federated_hpa, "federatedHPA")
    absences = _absences(hpa)
    return Snapshot(
        hpa=hpa,
        clusters=tuple(
            _cluster(raw, f"clusters[{index}]", hpa, absences.get(raw.name))
            for index, raw in enumerate(wired.clusters or ())
        ),
        target=target,
        hub_custom_metrics=_each("hubMetrics.customMetrics", custom_sample, hub.custom_metrics),
        hub_external_metrics=_each("hubMetrics.externalMetrics", external_sample, hub.external_metrics),
        ambiguous_with=tuple(wired.ambiguous_with or ()),
        contested_by=tuple(wired.contested_by or ()),
        blocked=None if blocked is None else Blocked(**msgspec.structs.asdict(blocked)),
    )


def _absences(hpa: ScalingObject) -> dict[str, Absence]:
    """The clocks of losses that the stored status knows; without one, a missing cluster's is its lastSeen."""
    found = dict(hpa.status.absences)
    for index, cluster in enumerate(hpa.status.clusters):
        seen = _at(f"federatedHPA.status.clusters[{index}].lastSeen", parse_time, cluster.last_seen)
        if seen is not None and cluster.state not in ANSWERED_STATES:
            found.setdefault(cluster.name, Absence(seen))
    return found


def _cluster(
    raw: recorded.Cluster, path: str, hpa_object: ScalingObject, absence: Absence | None
) -> ClusterSnapshot:
    metrics, namespace = hpa_object.spec.metrics, hpa_object.namespace
    scale = (
        Failure(raw.scale.error)
        if raw.scale.error
        else ClusterScale(raw.scale.spec_replicas, raw.scale.status_replicas, raw.scale.selector)
    )
    listed = _each(f"{path}.pods", lambda pod: pod_record(raw.name, pod), raw.pods)
    usage = _or_failure(f"{path}.podMetrics", lambda item: usage_record(raw.name, item), raw.pod_metrics)
    selected, selector_error = SelectedPods(), None
    if isinstance(scale, ClusterScale) and scale.selector:
        try:
            selector = parse_selector(scale.selector)
        except InvalidObject as error:
            selector_error = str(error)
        else:
            selected = select_pods(listed, namespace, selector)
            if not isinstance(usage, Failure):
                usage = select_usage(usage, namespace, selector, selected)
    hpa = raw.hpa and MemberHPA(
        raw.hpa.min_replicas, raw.hpa.max_replicas, raw.hpa.current_replicas, raw.hpa.desired_replicas
    )
    return ClusterSnapshot(
        name=raw.name,
        ready=raw.ready,
        error=raw.error or None,
        scale=scale,
        selector_error=selector_error,
        pods=selected.pods,
        other_pods=selected.others,
        usage=usage,
        custom_metrics=_answers(f"{path}.customMetrics", custom_sample, raw.custom_metrics, metrics),
        external_metrics=_answers(f"{path}.externalMetrics", external_sample, raw.external_metrics, metrics),
        available_replicas=raw.available_replicas,
        most_replicas=raw.most_replicas,
        last_replicas=raw.last_replicas,
        absence=absence,
        hpa=hpa or None,
        held=raw.held,
        cluster=KnownCluster(raw.name, raw.labels or {}, raw.provider, raw.region, tuple(raw.zones or ())),
    )


def _history(raw: recorded.History) -> History:
    return History(
        None
        if raw.recommendations is None
        else tuple(
            Recommendation(
                _required_time(entry.time, f"history.recommendations[{index}].time"), entry.replicas
            )
            for index, entry in enumerate(raw.recommendations)
        ),
        tuple(_scale_events(raw.scale_ups, "history.scaleUps")),
        tuple(_scale_events(raw.scale_downs, "history.scaleDowns")),
    )


def _scale_events(raw: Sequence[recorded.ScaleEvent] | None, path: str) -> Iterator[ScaleEvent]:
    for index, entry in enumerate(raw or ()):
        yield ScaleEvent(_required_time(entry.time, f"{path}[{index}].time"), entry.change)


def _or_failure(
    path: str, read: Callable[[T], R], raw: Sequence[T] | recorded.Failure | None
) -> tuple[R, ...] | Failure:
    return Failure(raw.error) if isinstance(raw, recorded.Failure) else _each(path, read, raw)


def _answers(
    path: str,
    read: Callable[[T], R],
    raw: Sequence[T] | recorded.CustomAnswers | recorded.ExternalAnswers | None,
    metrics: Sequence[MetricSpec],
) -> tuple[R, ...] | Mapping[str, tuple[R, ...] | Failure] | Failure:
    """Values, why there are none, or the answer to each question."""
    if not isinstance(raw, recorded.CustomAnswers | recorded.ExternalAnswers):
        return _each(path, read, raw)
    if raw.error is not None:
        return Failure(raw.error)
    if raw.by_metric is None:
        raise InvalidObject(f"{path}: a list of values, or an object with error or byMetric")
    found: dict[str, tuple[R, ...] | Failure] = {}
    for index, answer in raw.by_metric.items():
        if not index.isdecimal() or int(index) >= len(metrics):
            raise InvalidObject(f"{path}.byMetric.{index}: no index of spec.metrics")
        values = cast("Sequence[T] | recorded.Failure", answer)
        found[asked_for(metrics[int(index)])] = _or_failure(f"{path}.byMetric.{index}", read, values)
    return found


def _each(path: str, read: Callable[[T], R], raw: Sequence[T] | None) -> tuple[R, ...]:
    found: list[R] = []
    for index, item in enumerate(raw or ()):
        try:
            found.append(read(item))
        except InvalidObject as error:
            raise InvalidObject(f"{path}[{index}].{error}") from error
    return tuple(found)


def _at(path: str, read: Callable[[T], R], value: T) -> R:
    try:
        return read(value)
    except InvalidObject as error:
        raise InvalidObject(f"{path}: {error}") from error
