"""Queries for custom metrics: which metric of which objects, and the label selectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedhpa.api.errors import MetricsUnavailable
from fedhpa.api.selectors import Selector
from fedhpa.kube import group_path, segment
from fedhpa.members.metrics import namespace_path, object_path
from metrics_adapter.members.custom_metrics import CustomValue

ALL = "*"
# Kubernetes' own mapping of resources, which members' adapters use, also accepts the singular.
NAMESPACES = ("namespaces", "namespace")
# Characters of a member's own text in an error message.
SHOWN = 256


@dataclass(frozen=True)
class CustomMetricQuery:
    """One metric of one object, or of all selected objects where `name` is "*".

    `namespace` is empty for cluster-scoped objects.
    """

    namespace: str
    resource: str
    name: str
    metric: str

    @property
    def is_namespace_metric(self) -> bool:
        """True for a metric of a namespace itself."""
        return not self.namespace and self.resource == "namespaces"

    @property
    def is_of_other_namespace(self) -> bool:
        """True if the path lies below one namespace and names another as its object."""
        return self.resource in NAMESPACES and self.namespace not in ("", self.name)

    @property
    def is_one_pod(self) -> bool:
        """True for a metric of one pod. Pods come and go, so one that is gone is not reported as missing."""
        return self.resource == "pods" and self.name != ALL

    def path(self, api_version: str) -> str:
        """Returns the URL path under which a member serves the metric."""
        if self.is_namespace_metric:
            return namespace_path(api_version, self.name, self.metric)
        if self.namespace:
            return object_path(api_version, self.namespace, self.resource, self.name, self.metric)
        rest = "/".join(segment(part) for part in (self.resource, self.name, self.metric))
        return f"{group_path(api_version)}/{rest}"

    def check(self, values: Sequence[CustomValue]) -> None:
        """Raises MetricsUnavailable if a member answered for another object or namespace."""
        for value in values:
            given = value.described
            mismatch = self.name not in (ALL, given.name) or (
                self.namespace not in ("", ALL) and given.namespace not in ("", self.namespace)
            )
            if mismatch:
                requested = f"{self.resource} {self.name!r}" + (
                    f" in {self.namespace!r}" if self.namespace else ""
                )
                returned = f"{given.kind} {given.namespace}/{given.name}"
                raise MetricsUnavailable(f"asked for {requested}, it answered for {returned[:SHOWN]}")


@dataclass(frozen=True)
class MetricSelectors:
    """The label selector of the objects, and the label selector of the metric's own labels."""

    objects: Selector
    metric: Selector

    @property
    def params(self) -> dict[str, str]:
        """The URL query for a member, without empty selectors."""
        texts = {"labelSelector": str(self.objects), "metricLabelSelector": str(self.metric)}
        return {name: text for name, text in texts.items() if text}
