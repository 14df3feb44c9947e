"""The two resources of metrics.k8s.io and what distinguishes them."""

from __future__ import annotations

from dataclasses import dataclass

from fedhpa.api.errors import InvalidObject
from fedhpa.kube.paths import resource_path

GROUP = "metrics.k8s.io"
VERSION = "v1beta1"
API_VERSION = f"{GROUP}/{VERSION}"


@dataclass(frozen=True)
class MetricsKind:
    """A resource: its plural, the kind of an item, and whether items have a namespace."""

    plural: str
    kind: str
    namespaced: bool

    def path(self, namespace: str = "", name: str = "") -> str:
        """Where an API server serves it; "" for all namespaces, "" for the list. Raises InvalidObject."""
        try:
            return resource_path(API_VERSION, self.plural, namespace, name)
        except ValueError as error:
            raise InvalidObject(str(error)) from error


PODS = MetricsKind("pods", "PodMetrics", namespaced=True)
NODES = MetricsKind("nodes", "NodeMetrics", namespaced=False)
KINDS = (PODS, NODES)
