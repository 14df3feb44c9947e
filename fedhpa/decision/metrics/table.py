"""The evaluators of all metric types: one for each row of `fedhpa.api.metric_types`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fedhpa.api.metric_types import CONTAINER_RESOURCE, EXTERNAL, OBJECT, PODS, RESOURCE
from fedhpa.decision.metrics import container_resource, external, pods, resource
from fedhpa.decision.metrics import object as object_
from fedhpa.decision.metrics.evaluator import MetricEvaluator

EVALUATORS: Final[Mapping[str, MetricEvaluator]] = {
    OBJECT: object_.EVALUATOR,
    EXTERNAL: external.EVALUATOR,
    PODS: pods.EVALUATOR,
    RESOURCE: resource.EVALUATOR,
    CONTAINER_RESOURCE: container_resource.EVALUATOR,
}
