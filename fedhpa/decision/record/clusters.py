"""One entry of a scenario's `clusters`: reads it into a ClusterSnapshot, and writes it.

An unknown key of the format itself is an error. Kubernetes objects inside are decoded leniently.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, Literal, TypeVar

import msgspec

from fedhpa.api import wire
from fedhpa.api.errors import InvalidObject
from fedhpa.api.known_cluster import KnownCluster
from fedhpa.api.member_hpas import MANAGED_BY, MANAGER, OWNER, MemberHpa
from fedhpa.api.selectors import Selector, parse_selector, selector_of
from fedhpa.api.taints import MEMBER, Taint
from fedhpa.api.times import format_time
from fedhpa.api.wire import ObjectMeta
from fedhpa.decision.memory import Absence
from fedhpa.decision.record.fields import read_each, required_time
from fedhpa.decision.record.kubernetes import Object, encode_pod, encode_sample, encode_usage
from fedhpa.decision.snapshot import Answers, Bridge, ClusterScale, ClusterSnapshot, Failure, ScalingObject
from fedhpa.metric_types.metric import CUSTOM_API, EXTERNAL_API, ScalingMetric
from fedhpa.scaling import (
    CustomSample,
    ExternalSample,
    PodRecord,
    SelectedPods,
    UsageRecord,
    custom_sample,
    external_sample,
    pod_record,
    select_pods,
    select_usage,
    usage_record,
)

T = TypeVar("T")
R = TypeVar("R")

_OURS = ObjectMeta(labels={MANAGED_BY: MANAGER})

Usage = tuple[UsageRecord, ...] | Failure
Samples = tuple[CustomSample, ...] | tuple[ExternalSample, ...]


class Checked(msgspec.Struct, forbid_unknown_fields=True):
    """A part of the format itself. An empty `error` counts as absent, as in Go."""


class RawScale(Checked, rename="camel"):
    """clusters[].scale."""

    spec_replicas: int = 0
    status_replicas: int = 0
    selector: str = ""
    error: str = ""


class RawAnswers(Checked, Generic[T], rename="camel"):
    """customMetrics or externalMetrics: one answer for each metric, by index in spec.metrics.

    `error` is one reason for all.
    """

    error: str | None = None
    by_metric: dict[str, list[T] | Failure] | None = None


class RawMemberHpa(MemberHpa, frozen=True):
    """clusters[].hpa: an HPA, or why it could not be read."""

    error: str = ""


class RawScenarioCluster(Checked, rename="camel"):
    """One entry of clusters."""

    name: str
    ready: bool
    scale: RawScale
    error: str = ""
    pods: list[wire.Pod] = []
    pod_metrics: list[wire.PodMetrics] | Failure = []
    custom_metrics: list[wire.MetricValue] | RawAnswers[wire.MetricValue] = []
    external_metrics: list[wire.ExternalMetricValue] | RawAnswers[wire.ExternalMetricValue] = []
    available_replicas: int | None = None
    most_replicas: int | None = None
    last_replicas: int | None = None
    hpa: RawMemberHpa | None = None
    pending_replicas: int | None = None
    labels: dict[str, str] = {}
    provider: str = ""
    region: str = ""
    zones: tuple[str, ...] = ()
    taints: tuple[Taint, ...] = ()
    deleted: bool = False
    selected: bool = True
    held: bool = False
    overflow: int = 0
    replaced: bool = False
    missing_since: str = ""
    bridged_seconds: float | None = None
    bridged_reason: str = ""
    implausible_seconds: float | None = None
    clock_ahead: float = 0.0
    gone: str | None = None
    membership: Literal["Member", "Cordoned", "Leaving", "Stuck", "Out"] | None = None
    ready_replicas: int | None = None


# Fields that a ClusterSnapshot has under the same name; the first ones are also read as they are.
_READ: Final = (
    "available_replicas",
    "most_replicas",
    "pending_replicas",
    "selected",
    "replaced",
    "clock_ahead",
    "gone",
)
_WRITTEN: Final = (*_READ, "last_replicas", "held", "overflow", "ready_replicas")
_OF_CLUSTER: Final = ("labels", "provider", "region", "zones", "taints", "deleted")
_KEYS: Final = dict(
    zip(RawScenarioCluster.__struct_fields__, RawScenarioCluster.__struct_encode_fields__, strict=True)
)
_USUAL: Final = ClusterSnapshot(name="")


def decode_cluster(
    raw: RawScenarioCluster, path: str, hpa: ScalingObject, absence: Absence | None, share: int | None
) -> ClusterSnapshot:
    """Returns the cluster with the workload's pods and usage selected. Raises InvalidObject naming the field.

    `path` is where the cluster is in the scenario; `absence` is the clock of its loss, if there is one.
    `share` is the cluster's share in the object's status: it stands for an absent lastReplicas.
    """
    scale = (
        Failure(raw.scale.error)
        if raw.scale.error
        else ClusterScale(raw.scale.spec_replicas, raw.scale.status_replicas, raw.scale.selector)
    )
    listed = read_each(f"{path}.pods", lambda pod: pod_record(raw.name, pod), raw.pods)
    usage = _decode_answer(f"{path}.podMetrics", lambda item: usage_record(raw.name, item), raw.pod_metrics)
    selected, usage, selector_error = _select(scale, hpa.namespace, listed, usage)
    bridge, error = None, raw.error or (None if raw.ready else "not ready")
    if raw.bridged_seconds is not None:
        bridge = Bridge(max(raw.bridged_seconds, 0.0), raw.bridged_reason or error or "")
    same: dict[str, Any] = {name: getattr(raw, name) for name in _READ}
    return ClusterSnapshot(
        name=raw.name,
        # A bridged cluster counts as answered: the lists are those of the last answer.
        ready=raw.ready or bridge is not None,
        error=None if bridge is not None else raw.error or None,
        scale=scale,
        selector_error=selector_error,
        pods=selected.pods,
        other_pods=selected.others,
        usage=usage,
        metrics=decode_metrics(f"{path}.", raw, hpa),
        last_replicas=share if raw.last_replicas is None else raw.last_replicas,
        absence=absence,
        hpa=None if raw.hpa is None else _decode_hpa(raw.hpa),
        held=raw.held or (bridge is not None and error is not None),
        overflow=max(raw.overflow, 0),
        missing_since=required_time(f"{path}.missingSince", raw.missing_since) if raw.missing_since else None,
        bridge=bridge,
        implausible_for=raw.implausible_seconds,
        membership=MEMBER if raw.membership == "Member" else raw.membership,
        ready_replicas=None if raw.ready_replicas is None else max(raw.ready_replicas, 0),
        cluster=KnownCluster(raw.name, **{name: getattr(raw, name) for name in _OF_CLUSTER}),
        **same,
    )


def encode_cluster(cluster: ClusterSnapshot, metrics: Sequence[ScalingMetric]) -> Object:
    """Returns the cluster as JSON; `metrics` are those of the autoscaler's spec."""
    scale, usage, bridge = cluster.scale, cluster.usage, cluster.bridge
    entry: Object = {"name": cluster.name, "ready": cluster.ready}
    if cluster.error is not None:
        entry["error"] = cluster.error
    entry["scale"] = (
        {"error": scale.error}
        if isinstance(scale, Failure)
        else {
            "specReplicas": scale.spec_replicas,
            "statusReplicas": scale.status_replicas,
            "selector": scale.selector,
        }
    )
    entry["pods"] = [encode_pod(pod) for pod in cluster.pods]
    entry["podMetrics"] = (
        {"error": usage.error} if isinstance(usage, Failure) else [encode_usage(record) for record in usage]
    )
    entry["customMetrics"] = _encode_answers(cluster.metrics, metrics, CUSTOM_API)
    entry["externalMetrics"] = _encode_answers(cluster.metrics, metrics, EXTERNAL_API)
    same = {name: getattr(cluster, name) for name in _WRITTEN}
    known = {} if cluster.cluster is None else {name: getattr(cluster.cluster, name) for name in _OF_CLUSTER}
    optional = {
        "missingSince": None if cluster.missing_since is None else format_time(cluster.missing_since),
        "bridgedSeconds": None if bridge is None else bridge.age,
        "bridgedReason": None if bridge is None else bridge.reason or None,
        "implausibleSeconds": cluster.implausible_for or None,
        "membership": "Member" if cluster.membership == MEMBER else cluster.membership,
        "hpa": _encode_hpa(cluster.hpa),
        **{_KEYS[name]: msgspec.to_builtins(value) for name, value in known.items() if value},
        **{_KEYS[name]: value for name, value in same.items() if value != getattr(_USUAL, name)},
    }
    return entry | {key: value for key, value in optional.items() if value is not None}


def _decode_hpa(raw: RawMemberHpa) -> MemberHpa | Failure:
    if raw.error:
        return Failure(raw.error)
    # A scenario needs no metadata. Then the HPA is ours.
    return MemberHpa(_OURS if raw.metadata == ObjectMeta() else raw.metadata, raw.spec, raw.status)


def _encode_hpa(hpa: MemberHpa | Failure | None) -> object:
    if isinstance(hpa, Failure):
        return {"error": hpa.error}
    if hpa is None:
        return None
    labels = {MANAGED_BY: MANAGER} if hpa.ours else {}
    metadata: Object = {"name": hpa.metadata.name, "labels": labels}
    if hpa.owner and not hpa.ours:
        metadata |= {"namespace": hpa.metadata.namespace, "annotations": {OWNER: hpa.owner}}
    return {
        "metadata": metadata,
        "spec": {key: value for key, value in msgspec.to_builtins(hpa.spec).items() if value is not None},
        "status": hpa.status,
    }


def _select(
    scale: ClusterScale | Failure, namespace: str, listed: Sequence[PodRecord], usage: Usage
) -> tuple[SelectedPods, Usage, str | None]:
    """Returns the workload's pods and usage, and why its selector cannot be parsed (None if it can)."""
    if isinstance(scale, Failure) or not scale.selector:
        return SelectedPods(), usage, None
    try:
        selector = parse_selector(scale.selector)
    except InvalidObject as error:
        return SelectedPods(), usage, str(error)
    selected = select_pods(listed, namespace, selector)
    if not isinstance(usage, Failure):
        usage = select_usage(usage, namespace, selector, selected)
    return selected, usage, None


def _decode_answer(path: str, read: Callable[[T], R], raw: Sequence[T] | Failure) -> tuple[R, ...] | Failure:
    return raw if isinstance(raw, Failure) else read_each(path, read, raw)


class RawHubMetrics(Checked, rename="camel"):
    """hubMetrics."""

    custom_metrics: list[wire.MetricValue] = []
    external_metrics: list[wire.ExternalMetricValue] = []


def decode_metrics(path: str, raw: RawScenarioCluster | RawHubMetrics, hpa: ScalingObject) -> Answers:
    """Returns the answers to the queries of the object's metrics; `path` ends with a dot."""
    of_custom = _decode_answers(f"{path}customMetrics", CUSTOM_API, custom_sample, raw.custom_metrics, hpa)
    return of_custom | _decode_answers(
        f"{path}externalMetrics", EXTERNAL_API, external_sample, raw.external_metrics, hpa
    )


def _decode_answers(
    path: str, api: str, read: Callable[[T], Any], raw: Sequence[T] | RawAnswers[T], hpa: ScalingObject
) -> dict[str, Any]:
    """Returns one answer for each query, or all values or one reason as the answer to each."""
    metrics = hpa.spec.metrics
    asked = [spec for spec in metrics if spec.metric_type.api == api]
    if not isinstance(raw, RawAnswers):
        values = read_each(path, read, raw)
        return {spec.query_key: values_of(spec, values, hpa.namespace) for spec in asked}
    if raw.error is not None:
        return {spec.query_key: Failure(raw.error) for spec in asked}
    if raw.by_metric is None:
        raise InvalidObject(f"{path}: a list of values, or an object with error or byMetric")
    found = {}
    for index, answer in raw.by_metric.items():
        if not index.isdecimal() or int(index) >= len(metrics):
            raise InvalidObject(f"{path}.byMetric.{index}: no index of spec.metrics")
        found[metrics[int(index)].query_key] = _decode_answer(f"{path}.byMetric.{index}", read, answer)
    return found


def values_of(spec: ScalingMetric, values: Sequence[CustomSample | ExternalSample], namespace: str) -> Any:
    """Returns those of all values that are of a metric.

    An External metric is selected by name, and by labels if a value has any. A custom metric may have several
    series of one name: those with the metric's own selector are preferred.
    """
    named = [one for one in values if one.metric == spec.name]
    if spec.metric_type.api == EXTERNAL_API:
        try:
            selector = selector_of(spec.selector) if spec.selector is not None else Selector()
        except InvalidObject:
            return ()  # the evaluation of the metric fails with the message
        return tuple(
            one
            for one in named
            if isinstance(one, ExternalSample) and (not one.labels or selector.matches(one.labels))
        )
    found = [one for one in named if isinstance(one, CustomSample) and _describes(one, spec, namespace)]
    exact = tuple(one for one in found if (one.selector or None) == (spec.selector or None))
    return exact or tuple(one for one in found if not one.selector or not spec.selector)


def _describes(sample: CustomSample, spec: ScalingMetric, namespace: str) -> bool:
    in_namespace = not sample.namespace or not namespace or sample.namespace == namespace
    if spec.metric_type.per_pod:
        return sample.kind in ("Pod", "") and in_namespace
    described = spec.described_object or {}
    kind = described.get("kind", "")
    if sample.kind and sample.kind != kind:
        return False
    # A metric of a Namespace is that of the autoscaler's own namespace, whatever name the spec has.
    return kind == "Namespace" or (sample.name == described.get("name", "") and in_namespace)


def _encode_answers(answers: Answers, metrics: Sequence[ScalingMetric], api: str) -> object:
    by_metric: Object = {}
    for index, spec in enumerate(metrics):
        answer = answers.get(spec.query_key) if spec.metric_type.api == api else None
        if isinstance(answer, Failure):
            by_metric[str(index)] = {"error": answer.error}
        elif answer is not None:
            by_metric[str(index)] = [encode_sample(sample) for sample in answer]
    return {"byMetric": by_metric} if by_metric else []


def encode_hub_metrics(answers: Answers) -> Mapping[str, Sequence[object]]:
    """Returns hubMetrics; a failure has nothing."""
    found: dict[str, list[object]] = {"customMetrics": [], "externalMetrics": []}
    for answer in answers.values():
        for sample in () if isinstance(answer, Failure) else answer:
            key = "customMetrics" if isinstance(sample, CustomSample) else "externalMetrics"
            found[key].append(encode_sample(sample))
    return found
