"""Writing a scenario: everything one decision is made from, as JSON. Format:
docs/reference/decision-record.md.

Pods are written with what the arithmetic reads and nothing else: no environment, volumes or annotations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fedhpa.api.quantity import format_milli
from fedhpa.api.times import ZERO_TIME, format_duration, format_time
from fedhpa.decision.asked import asked_for
from fedhpa.decision.history import History
from fedhpa.decision.record.status import encode_history
from fedhpa.decision.snapshot import (
    ClusterSnapshot,
    CustomMetrics,
    ExternalMetrics,
    Failure,
    Snapshot,
)
from fedhpa.decision.spec.federatedhpa import MetricSpec
from fedhpa.scaling.records import (
    IGNORED,
    PENDING,
    ContainerUsage,
    CustomSample,
    ExternalSample,
    PodRecord,
    UsageRecord,
)

Object = dict[str, Any]

# Of metadata, what says nothing of the decision and may say more than somebody wants to hand on.
_LEFT_OUT: Final = ("managedFields", "annotations", "ownerReferences", "finalizers")


def encode_scenario(
    raw: Mapping[str, Any], snapshot: Snapshot, history: History, now: float, settings: Mapping[str, Any]
) -> Object:
    """The scenario of a decision on the object stored as `raw`; `settings` as `encode_settings` has them."""
    metadata = {key: value for key, value in raw.get("metadata", {}).items() if key not in _LEFT_OUT}
    scenario: Object = {
        "name": f"{metadata.get('namespace', '')}/{metadata.get('name', '')}",
        "now": format_time(now),
        "controller": dict(settings),
        "federatedHPA": {**raw, "metadata": metadata},
    }
    target = snapshot.target
    if target is not None:
        scenario["target"] = (
            {"error": target.error} if isinstance(target, Failure) else {"replicas": target.replicas}
        )
    metrics = snapshot.hpa.spec.metrics
    scenario["clusters"] = [_cluster(cluster, metrics) for cluster in snapshot.clusters]
    hub = {
        "customMetrics": [_custom(sample) for sample in snapshot.hub_custom_metrics],
        "externalMetrics": [_external(sample) for sample in snapshot.hub_external_metrics],
    }
    if any(hub.values()):
        scenario["hubMetrics"] = hub
    if snapshot.ambiguous_with:
        scenario["ambiguousWith"] = list(snapshot.ambiguous_with)
    if snapshot.contested_by:
        scenario["contestedBy"] = list(snapshot.contested_by)
    if snapshot.blocked is not None:
        blocked = snapshot.blocked
        scenario["blocked"] = {
            "reason": blocked.reason,
            "message": blocked.message,
            "event": blocked.event,
            "condition": blocked.condition,
        }
    scenario["history"] = encode_history(history)
    return scenario


def _cluster(cluster: ClusterSnapshot, metrics: Sequence[MetricSpec]) -> Object:
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
    entry["pods"] = [_pod(pod) for pod in cluster.pods]
    usage = cluster.usage
    entry["podMetrics"] = _failed(usage) if isinstance(usage, Failure) else [_usage(one) for one in usage]
    entry["customMetrics"] = _answers(cluster.custom_metrics, metrics)
    entry["externalMetrics"] = _answers(cluster.external_metrics, metrics)
    known = cluster.cluster
    optional = {
        "availableReplicas": cluster.available_replicas,
        "mostReplicas": cluster.most_replicas,
        "lastReplicas": cluster.last_replicas,
        "held": cluster.held or None,
        "labels": dict(known.labels) or None if known else None,
        "provider": known.provider or None if known else None,
        "region": known.region or None if known else None,
        "zones": list(known.zones) or None if known else None,
    }
    return entry | {key: value for key, value in optional.items() if value is not None}


def _answers(found: CustomMetrics | ExternalMetrics, metrics: Sequence[MetricSpec]) -> object:
    """A list of values, why there is none, or the answers to the questions, by index in spec.metrics."""
    if isinstance(found, Failure):
        return _failed(found)
    if not isinstance(found, Mapping):
        return [_sample(sample) for sample in found]
    by_metric: Object = {}
    for index, spec in enumerate(metrics):
        answer = found.get(asked_for(spec))
        if isinstance(answer, Failure):
            by_metric[str(index)] = _failed(answer)
        elif answer is not None:
            by_metric[str(index)] = [_sample(sample) for sample in answer]
    return {"byMetric": by_metric}


def _failed(failure: Failure) -> Object:
    return {"error": failure.error}


def _pod(pod: PodRecord) -> Object:
    metadata: Object = {"name": pod.name, "namespace": pod.namespace}
    if pod.labels:
        metadata["labels"] = dict(pod.labels)
    phase = "Running" if pod.running else "Succeeded"
    if pod.state == IGNORED and pod.running:
        metadata["deletionTimestamp"] = format_time(pod.start or 0.0)
    elif pod.state == IGNORED:
        phase = "Failed"
    elif pod.state == PENDING:
        phase = "Pending"
    status: Object = {"phase": phase}
    if pod.start is not None:
        status["startTime"] = format_time(pod.start)
    conditions = []
    if pod.ready:
        conditions.append(_condition("Ready", pod.ready, pod.ready_since))
    if pod.unschedulable_since is not None:
        unscheduled = _condition("PodScheduled", "False", pod.unschedulable_since)
        conditions.append({**unscheduled, "reason": "Unschedulable"})
    if conditions:
        status["conditions"] = conditions
    spec: Object = {
        "containers": [
            {"name": name, "resources": {"requests": _quantities(milli)}}
            for name, milli in pod.requests.containers
        ]
    }
    if pod.requests.pod_level is not None:
        spec["resources"] = {"requests": _quantities(pod.requests.pod_level)}
    return {"metadata": metadata, "spec": spec, "status": status}


def _condition(type: str, status: str, since: float) -> Object:
    entry: Object = {"type": type, "status": status}
    return entry if since == ZERO_TIME else {**entry, "lastTransitionTime": format_time(since)}


def _usage(record: UsageRecord) -> Object:
    metadata: Object = {"name": record.name, "namespace": record.namespace}
    if record.labels is not None:
        metadata["labels"] = dict(record.labels)
    return {
        "metadata": metadata,
        "timestamp": format_time(record.timestamp),
        "window": format_duration(record.window),
        "containers": [
            {"name": container.name, "usage": _quantities(_used(container))}
            for container in record.containers
        ],
    }


def _used(container: ContainerUsage) -> Mapping[str, int]:
    found = {"cpu": container.cpu, "memory": container.memory, **(container.others or {})}
    return {resource: milli for resource, milli in found.items() if milli is not None}


def _sample(sample: CustomSample | ExternalSample) -> Object:
    return _custom(sample) if isinstance(sample, CustomSample) else _external(sample)


def _custom(sample: CustomSample) -> Object:
    metric: Object = {"name": sample.metric}
    if sample.selector is not None:
        metric["selector"] = sample.selector
    return {
        "describedObject": {"kind": sample.kind, "namespace": sample.namespace, "name": sample.name},
        "metric": metric,
        "timestamp": format_time(sample.timestamp),
        "windowSeconds": int(sample.window),
        "value": format_milli(sample.milli),
    }


def _external(sample: ExternalSample) -> Object:
    labels = {} if sample.labels is None else {"metricLabels": dict(sample.labels)}
    return {"metricName": sample.metric, **labels, "value": format_milli(sample.milli)}


def _quantities(milli: Mapping[str, int]) -> Mapping[str, str]:
    return {resource: format_milli(amount) for resource, amount in milli.items()}
