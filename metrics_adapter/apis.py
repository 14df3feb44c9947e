"""The API groups that the adapter serves, and the two resources of metrics.k8s.io."""

from __future__ import annotations

from dataclasses import dataclass

from fedhpa.api.errors import InvalidObject
from fedhpa.kube import resource_path
from fedhpa.members.metrics import CUSTOM, CUSTOM_VERSIONS, EXTERNAL

GROUP = "metrics.k8s.io"
VERSION = "v1beta1"
API_VERSION = f"{GROUP}/{VERSION}"
# Versions by group. Groups are sorted by name, and the first version of each is the preferred one.
SERVED_VERSIONS = {CUSTOM: CUSTOM_VERSIONS, EXTERNAL: ("v1beta1",), GROUP: (VERSION,)}


@dataclass(frozen=True)
class MetricsKind:
    """A resource of metrics.k8s.io: its plural, the kind of its items, and its scope."""

    plural: str
    kind: str
    namespaced: bool

    def path(self, namespace: str = "", name: str = "") -> str:
        """Returns the URL path of a list or of one item. Raises InvalidObject.

        An empty `namespace` means all namespaces, and an empty `name` means the list.
        """
        try:
            return resource_path(API_VERSION, self.plural, namespace, name)
        except ValueError as error:
            raise InvalidObject(str(error)) from error


PODS = MetricsKind("pods", "PodMetrics", namespaced=True)
NODES = MetricsKind("nodes", "NodeMetrics", namespaced=False)
KINDS = (PODS, NODES)
