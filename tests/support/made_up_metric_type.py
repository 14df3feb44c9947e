"""A made-up sixth metric type, Queue, as a contributor would add it: a module with a row for the table.

`python -m tests.support.made_up_metric_type` takes the type through admission, the CRD, the controller's
queries and decisions, and prints the results as JSON. It needs a process of its own: the models are made from
the table when they are imported.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

from pydantic import Field

from fedhpa.api.autoscaling import V2Model
from fedhpa.api.fielderror import FieldError, required
from fedhpa.api.model import LongText
from fedhpa.metric_types.metric import (
    EXTERNAL_API,
    MeasuredFleet,
    MetricError,
    MetricIdentity,
    MetricProposal,
    MetricType,
    ScalingMetric,
)
from fedhpa.metric_types.series import propose_from_values
from fedhpa.metric_types.sources import Aggregation, MetricTarget, MetricValueStatus
from fedhpa.metric_types.table import METRIC_TYPES
from fedhpa.scaling import CurrentSize, Readiness


class QueueMetricSource(V2Model):
    """The length of a queue."""

    topic: LongText = Field("", description="Topic of the queue.")
    target: MetricTarget = Field(default_factory=MetricTarget, description="Target of the length.")
    aggregation: Aggregation | None = Field(None, description="How the lengths of clusters become one.")


class QueueMetricStatus(V2Model):
    """The current length of a queue."""

    topic: LongText = Field("", description="Topic of the queue.")
    current: MetricValueStatus = Field(default_factory=MetricValueStatus, description="Current length.")


def _validate(source: QueueMetricSource, path: str) -> Iterator[FieldError]:
    if not source.topic:
        yield required(f"{path}.topic", "must name the queue")


def _propose(fleet: MeasuredFleet, scale: CurrentSize, _: Readiness, spec: ScalingMetric) -> MetricProposal:
    found = {
        cluster.name: sum(sample.milli for sample in cluster.samples(spec)) for cluster in fleet.answered
    }
    if not any(found.values()):
        raise MetricError("no broker has the topic")
    return propose_from_values(fleet, scale, spec, found, by_value=False)


ROW = MetricType(
    "Queue",
    description="Source of type Queue.",
    source=QueueMetricSource,
    status=QueueMetricStatus,
    api=EXTERNAL_API,
    per_pod=False,
    failure_source="{name} queue",
    validate=_validate,
    identity=lambda source: MetricIdentity(source.topic),
    propose=_propose,
    display_name=lambda spec: f"queue {spec.name}",
    status_fields=lambda spec: {"topic": spec.name},
)

OBJECT: dict[str, Any] = {
    "apiVersion": "autoscaling.karmada.io/v1alpha1",
    "kind": "FederatedHPA",
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": 0,
        "maxReplicas": 100,
    },
}


def metric(topic: str) -> dict[str, Any]:
    """Returns a metric of the type; its target is ten messages a pod."""
    return {
        "type": "Queue",
        "queue": {"topic": topic, "target": {"type": "AverageValue", "averageValue": "10"}},
    }


def with_metrics(*metrics: dict[str, Any]) -> dict[str, Any]:
    """Returns a FederatedHPA with these metrics."""
    return {**OBJECT, "spec": {**OBJECT["spec"], "metrics": list(metrics)}}


def main() -> None:
    """Register the type in the table, and print what admission, queries and decisions do with it."""
    with patch.dict(METRIC_TYPES, {ROW.name: ROW}):
        print(json.dumps({**_admitted(), **_crd(), **_decisions()}))


def _admitted() -> dict[str, Any]:
    from fedhpa.admission.federatedhpa import validate_federatedhpa, warn_federatedhpa
    from fedhpa.api.federatedhpa import FederatedHPA

    def errors(*metrics: dict[str, Any]) -> list[str]:
        return [str(error) for error in validate_federatedhpa(read(*metrics))]

    def read(*metrics: dict[str, Any]) -> FederatedHPA:
        return FederatedHPA.model_validate(with_metrics(*metrics))

    return {
        "errors": errors(metric("orders")),
        "errors without a topic": errors(metric("")),
        "errors without a source": errors({"type": "Queue"}),
        "warnings": list(warn_federatedhpa(read(metric("orders"), metric("orders")))),
    }


def _crd() -> dict[str, Any]:
    from fedhpa.api.yaml import print_yaml
    from testbed.reference.definitions import FEDERATED_HPA, generated

    return {"crd": print_yaml([generated(FEDERATED_HPA)])}


def _decisions() -> dict[str, Any]:
    from controller.federatedhpa.metric_reader import metric_queries
    from fedhpa.cli.replay import answer
    from fedhpa.decision import decode_object

    given = {
        "now": "2026-03-11T12:00:00Z",
        "federatedHPA": with_metrics(metric("orders")),
        "target": {"replicas": 8},
        "clusters": [_cluster("east", "50"), _cluster("west", "70")],
    }
    empty = {**given, "clusters": [_cluster("east", None)]}
    return {
        "queries": len(metric_queries(decode_object(with_metrics(metric("orders"))).spec.metrics)),
        "decision": json.loads(answer(json.dumps(given).encode())[0]),
        "failure": json.loads(answer(json.dumps(empty).encode())[0]),
    }


def _cluster(name: str, length: str | None) -> dict[str, Any]:
    values = [] if length is None else [{"metricName": "orders", "value": length}]
    return {
        "name": name,
        "ready": True,
        "scale": {"specReplicas": 4, "statusReplicas": 4, "selector": "app=web"},
        "pods": [
            {
                "metadata": {"name": f"web-{number}", "namespace": "shop", "labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web"}]},
                "status": {"phase": "Running", "startTime": "2026-03-11T10:00:00Z"},
            }
            for number in range(4)
        ],
        "externalMetrics": values,
    }


if __name__ == "__main__":
    main()
