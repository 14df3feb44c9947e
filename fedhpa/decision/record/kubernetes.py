"""Pods, usage and metric values as the Kubernetes objects that a scenario holds.

`fedhpa.scaling.records` reads them. A pod is written with the fields that the arithmetic reads: a recording
holds no environment, volumes or annotations.
"""

from __future__ import annotations

from collections.abc import Mapping

from fedhpa.api.quantity import format_milli
from fedhpa.api.times import ZERO_TIME, format_duration, format_time
from fedhpa.scaling import (
    IGNORED,
    PENDING,
    CustomSample,
    ExternalSample,
    PodRecord,
    UsageRecord,
)

JSON = object
Object = dict[str, JSON]


def encode_pod(pod: PodRecord) -> Object:
    """Returns a core/v1 Pod."""
    metadata: Object = {"name": pod.name, "namespace": pod.namespace}
    if pod.labels:
        metadata["labels"] = dict(pod.labels)
    if pod.created != ZERO_TIME:
        metadata["creationTimestamp"] = format_time(pod.created)
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
    if pod.restarted:
        status["containerStatuses"] = [{"restartCount": 1}]
    spec: Object = {
        "containers": [
            {"name": name, "resources": {"requests": _quantities(milli)}}
            for name, milli in pod.requests.containers
        ]
    }
    if pod.requests.pod_level is not None:
        spec["resources"] = {"requests": _quantities(pod.requests.pod_level)}
    return {"metadata": metadata, "spec": spec, "status": status}


def encode_usage(record: UsageRecord) -> Object:
    """Returns a PodMetrics."""
    metadata: Object = {"name": record.name, "namespace": record.namespace}
    if record.labels is not None:
        metadata["labels"] = dict(record.labels)
    return {
        "metadata": metadata,
        "timestamp": format_time(record.timestamp),
        "window": format_duration(record.window),
        "containers": [
            {
                "name": one.name,
                "usage": _quantities({"cpu": one.cpu, "memory": one.memory, **(one.others or {})}),
            }
            for one in record.containers
        ],
    }


def encode_sample(sample: CustomSample | ExternalSample) -> Object:
    """Returns a MetricValue (v1beta2) or an ExternalMetricValue."""
    if isinstance(sample, ExternalSample):
        labels = {} if sample.labels is None else {"metricLabels": dict(sample.labels)}
        return {"metricName": sample.metric, **labels, "value": format_milli(sample.milli)}
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


def _condition(type: str, status: str, since: float) -> Object:
    entry: Object = {"type": type, "status": status}
    return entry if since == ZERO_TIME else {**entry, "lastTransitionTime": format_time(since)}


def _quantities(milli: Mapping[str, int | None]) -> Mapping[str, str]:
    return {resource: format_milli(amount) for resource, amount in milli.items() if amount is not None}
