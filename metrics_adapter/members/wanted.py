"""What a path of custom.metrics.k8s.io asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedhpa.api.errors import MetricsUnavailable
from fedhpa.api.selectors import Selector
from fedhpa.kube.paths import group_path, segment
from fedhpa.members.metrics import namespace_path, object_path
from metrics_adapter.members.values import Value
from metrics_adapter.server.paths import path_parts

ALL = "*"
# What a path has below the version: RESOURCE/NAME/METRIC, and that below namespaces/NAMESPACE; and
# namespaces/NAMESPACE/metrics/METRIC.
OF_ROOT, OF_NAMESPACE, NAMESPACED = 3, 4, 5


@dataclass(frozen=True)
class Wanted:
    """What a path asks for; `namespace` is "" for what has none, `name` may be "*"."""

    namespace: str
    resource: str
    name: str
    metric: str

    @property
    def of_namespace(self) -> bool:
        """Whether it is a metric of a namespace itself."""
        return not self.namespace and self.resource == "namespaces"

    @property
    def beside(self) -> bool:
        """Whether it is a metric of another namespace than the one below which it is asked for."""
        return self.resource == "namespaces" and self.namespace not in ("", self.name)

    @property
    def fleeting(self) -> bool:
        """Whether it is a metric of one pod: pods come and go, and nobody misses one that went."""
        return self.resource == "pods" and self.name != ALL

    def path(self, api_version: str) -> str:
        """Where a member serves it."""
        if self.of_namespace:
            return namespace_path(api_version, self.name, self.metric)
        if self.namespace:
            return object_path(api_version, self.namespace, self.resource, self.name, self.metric)
        rest = "/".join(segment(part) for part in (self.resource, self.name, self.metric))
        return f"{group_path(api_version)}/{rest}"

    def check(self, values: Sequence[Value]) -> None:
        """MetricsUnavailable where a member speaks of what it was not asked for."""
        for value in values:
            given = value.described
            strange = self.name not in (ALL, given.name) or (
                self.namespace not in ("", ALL) and given.namespace not in ("", self.namespace)
            )
            if strange:
                asked = f"{self.resource} {self.name!r}" + (
                    f" in {self.namespace!r}" if self.namespace else ""
                )
                told = f"{given.kind} {given.namespace}/{given.name}"
                raise MetricsUnavailable(f"asked for {asked}, it answered for {told[:256]}")


def read_path(raw_path: str) -> Wanted | None:
    """What a path, still percent-encoded, asks for; None if it has not the shape of any."""
    parts = path_parts(raw_path)
    if parts is None:
        return None
    if parts[:1] == ["namespaces"]:
        if len(parts) == OF_NAMESPACE and parts[2] == "metrics":
            return Wanted("", "namespaces", parts[1], parts[3])
        if len(parts) == NAMESPACED:
            return Wanted(*parts[1:])
    elif len(parts) == OF_ROOT:
        return Wanted("", *parts)
    return None


@dataclass(frozen=True)
class Selectors:
    """What is selected of objects by their labels, and of values by the metric's."""

    objects: Selector
    metric: Selector

    @property
    def params(self) -> dict[str, str]:
        """The query for a member."""
        texts = {"labelSelector": str(self.objects), "metricLabelSelector": str(self.metric)}
        return {name: text for name, text in texts.items() if text}
