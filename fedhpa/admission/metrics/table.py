"""The admission rules of all metric types: one entry for each row of `fedhpa.api.metric_types`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fedhpa.admission.metrics import container_resource, external, pods, resource
from fedhpa.admission.metrics import object as object_
from fedhpa.admission.metrics.rules import MetricRules
from fedhpa.api.metric_types import CONTAINER_RESOURCE, EXTERNAL, OBJECT, PODS, RESOURCE

RULES: Final[Mapping[str, MetricRules]] = {
    OBJECT: object_.RULES,
    EXTERNAL: external.RULES,
    PODS: pods.RULES,
    RESOURCE: resource.RULES,
    CONTAINER_RESOURCE: container_resource.RULES,
}
