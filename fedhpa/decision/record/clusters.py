"""One entry of a scenario's `clusters`: reads it into a ClusterSnapshot, and writes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec

from fedhpa.api.errors import InvalidObject
from fedhpa.api.known_cluster import KnownCluster
from fedhpa.api.member_hpas import MANAGED_BY, MANAGER, OWNER, MemberHpa
from fedhpa.api.selectors import parse_selector
from fedhpa.api.taints import MEMBER
from fedhpa.api.times import format_time
from fedhpa.api.wire import ObjectMeta
from fedhpa.decision.memory import Absence
from fedhpa.decision.record.fields import read_each, required_time
from fedhpa.decision.record.kubernetes import Object, encode_pod, encode_sample, encode_usage
from fedhpa.decision.record.wire import (
    RawAnswers,
    RawMemberHpa,
    RawScenarioCluster,
)
from fedhpa.decision.snapshot import (
    Bridge,
    ClusterScale,
    ClusterSnapshot,
    CustomMetrics,
    ExternalMetrics,
    Failure,
)
from fedhpa.decision.spec import ScalingObject
from fedhpa.metric_types.metric import ScalingMetric
from fedhpa.scaling import (
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
    metrics = hpa.spec.metrics
    bridge, error = None, raw.error or (None if raw.ready else "not ready")
    if raw.bridged_seconds is not None:
        bridge = Bridge(max(raw.bridged_seconds, 0.0), raw.bridged_reason or error or "")
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
        custom_metrics=_decode_answers(f"{path}.customMetrics", custom_sample, raw.custom_metrics, metrics),
        external_metrics=_decode_answers(
            f"{path}.externalMetrics", external_sample, raw.external_metrics, metrics
        ),
        available_replicas=raw.available_replicas,
        most_replicas=raw.most_replicas,
        last_replicas=share if raw.last_replicas is None else raw.last_replicas,
        absence=absence,
        hpa=None if raw.hpa is None else _decode_hpa(raw.hpa),
        pending_replicas=raw.pending_replicas,
        selected=raw.selected,
        held=raw.held or (bridge is not None and error is not None),
        overflow=max(raw.overflow, 0),
        replaced=raw.replaced,
        missing_since=required_time(f"{path}.missingSince", raw.missing_since) if raw.missing_since else None,
        bridge=bridge,
        implausible_for=raw.implausible_seconds,
        clock_ahead=raw.clock_ahead,
        gone=raw.gone,
        membership=MEMBER if raw.membership == "Member" else raw.membership,
        ready_replicas=None if raw.ready_replicas is None else max(raw.ready_replicas, 0),
        cluster=KnownCluster(
            raw.name,
            raw.labels or {},
            raw.provider,
            raw.region,
            tuple(raw.zones or ()),
            tuple(raw.taints or ()),
            raw.deleted,
        ),
    )


def encode_cluster(cluster: ClusterSnapshot, metrics: Sequence[ScalingMetric]) -> Object:
    """Returns the cluster as JSON; `metrics` are those of the autoscaler's spec."""
    scale = cluster.scale
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
    usage = cluster.usage
    entry["podMetrics"] = (
        {"error": usage.error} if isinstance(usage, Failure) else [encode_usage(record) for record in usage]
    )
    entry["customMetrics"] = _encode_answers(cluster.custom_metrics, metrics)
    entry["externalMetrics"] = _encode_answers(cluster.external_metrics, metrics)
    known = cluster.cluster
    optional = {
        "availableReplicas": cluster.available_replicas,
        "mostReplicas": cluster.most_replicas,
        "lastReplicas": cluster.last_replicas,
        "selected": None if cluster.selected else False,
        "held": cluster.held or None,
        "overflow": cluster.overflow or None,
        "replaced": cluster.replaced or None,
        "missingSince": None if cluster.missing_since is None else format_time(cluster.missing_since),
        "bridgedSeconds": None if cluster.bridge is None else cluster.bridge.age,
        "bridgedReason": None if cluster.bridge is None else cluster.bridge.reason or None,
        "implausibleSeconds": cluster.implausible_for or None,
        "clockAhead": cluster.clock_ahead or None,
        "gone": cluster.gone,
        "membership": "Member" if cluster.membership == MEMBER else cluster.membership,
        "readyReplicas": cluster.ready_replicas,
        "pendingReplicas": cluster.pending_replicas,
        "hpa": _encode_hpa(cluster.hpa),
        "labels": dict(known.labels) or None if known else None,
        "provider": known.provider or None if known else None,
        "region": known.region or None if known else None,
        "zones": list(known.zones) or None if known else None,
        "taints": msgspec.to_builtins(known.taints) or None if known else None,
        "deleted": (known is not None and known.deleted) or None,
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


def _decode_answer(
    path: str, read: Callable[[T], R], raw: Sequence[T] | Failure | None
) -> tuple[R, ...] | Failure:
    return raw if isinstance(raw, Failure) else read_each(path, read, raw)


def _decode_answers(
    path: str,
    read: Callable[[T], R],
    raw: Sequence[T] | RawAnswers[T] | None,
    metrics: Sequence[ScalingMetric],
) -> tuple[R, ...] | Mapping[str, tuple[R, ...] | Failure] | Failure:
    """Returns all values, the reason why there are none, or one answer for each query."""
    if not isinstance(raw, RawAnswers):
        return read_each(path, read, raw)
    if raw.error is not None:
        return Failure(raw.error)
    if raw.by_metric is None:
        raise InvalidObject(f"{path}: a list of values, or an object with error or byMetric")
    found: dict[str, tuple[R, ...] | Failure] = {}
    for index, answer in raw.by_metric.items():
        if not index.isdecimal() or int(index) >= len(metrics):
            raise InvalidObject(f"{path}.byMetric.{index}: no index of spec.metrics")
        found[metrics[int(index)].query_key] = _decode_answer(f"{path}.byMetric.{index}", read, answer)
    return found


def _encode_answers(answers: CustomMetrics | ExternalMetrics, metrics: Sequence[ScalingMetric]) -> object:
    if isinstance(answers, Failure):
        return {"error": answers.error}
    if not isinstance(answers, Mapping):
        return [encode_sample(sample) for sample in answers]
    by_metric: Object = {}
    for index, spec in enumerate(metrics):
        answer = answers.get(spec.query_key)
        if isinstance(answer, Failure):
            by_metric[str(index)] = {"error": answer.error}
        elif answer is not None:
            by_metric[str(index)] = [encode_sample(sample) for sample in answer]
    return {"byMetric": by_metric}
