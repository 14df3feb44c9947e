"""An emulated hub: an API server with the kinds of fedhpa, and the member clusters as it registers them."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from benchmarks.world.api import Api
from benchmarks.world.cluster import NAME, NAMESPACE, Cluster, by_place, stamp
from benchmarks.world.http import Request, Server
from benchmarks.world.network import MemoryNetwork
from benchmarks.world.store import Kind, Object, Store

FEDERATED: Final = "autoscaling.karmada.io/v1alpha1"
FEDERATED_HPAS: Final = "federatedhpas"
CLUSTERS: Final = "cluster.karmada.io/v1alpha1"
CRDS: Final = "apiextensions.k8s.io/v1"
SYSTEM_NAMESPACE: Final = "kube-system"
LEASES: Final = "leases"
KINDS: Final = (
    Kind(FEDERATED, FEDERATED_HPAS, "FederatedHPA"),
    Kind(FEDERATED, "cronfederatedhpas", "CronFederatedHPA"),
    Kind("fedhpa.io/v1alpha1", "scalingrecords", "ScalingRecord"),
    Kind(CLUSTERS, "clusters", "Cluster", namespaced=False),
    Kind(CRDS, "customresourcedefinitions", "CustomResourceDefinition", namespaced=False),
    Kind(
        "admissionregistration.k8s.io/v1",
        "mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
        False,
    ),
    Kind(
        "admissionregistration.k8s.io/v1",
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        False,
    ),
    Kind("coordination.k8s.io/v1", LEASES, "Lease"),
    Kind("autoscaling/v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"),
    Kind("apps/v1", "deployments", "Deployment", scale=True),
    Kind("apps/v1", "statefulsets", "StatefulSet", scale=True),
    Kind("v1", "secrets", "Secret"),
    Kind("v1", "events", "Event"),
    Kind("v1", "namespaces", "Namespace", namespaced=False),
)


class Hub:
    """A running hub. `writes` counts successful writes by method and what was written."""

    def __init__(self, network: MemoryNetwork, wall: Callable[[], float], crds: Path) -> None:
        self.store = Store(by_place(KINDS), lambda: stamp(wall()))
        self.server = Server("hub", network, Api(self.store).handle, self._count)
        self.writes: dict[str, int] = {}
        for definition in yaml.safe_load_all(crds.read_text(encoding="utf-8")):
            self.store.set(CRDS, "customresourcedefinitions", definition)
            group, plural = definition["spec"]["group"], definition["spec"]["names"]["plural"]
            for served in definition["spec"]["versions"]:
                schema = served["schema"]["openAPIV3Schema"]
                self.store.schemas[f"{group}/{served['name']}", plural] = schema
        # Its UID is the identity of the hub.
        self.store.set("v1", "namespaces", {"metadata": {"name": SYSTEM_NAMESPACE, "uid": "hub"}})
        self.server.start()

    def join(self, clusters: Iterable[Cluster]) -> None:
        """Registers member clusters."""
        for cluster in clusters:
            token = b64encode(f"{cluster.name}-token".encode()).decode()
            place = {"namespace": SYSTEM_NAMESPACE, "name": cluster.name}
            self.store.create("v1", "secrets", {"metadata": place, "data": {"token": token}})
            spec = {"syncMode": "Push", "apiEndpoint": cluster.server.server, "secretRef": place}
            metadata = {"name": cluster.name, "labels": dict(cluster.plan.labels)}
            self.store.create(CLUSTERS, "clusters", {"metadata": metadata, "spec": spec})

    def apply(self, spec: Object) -> None:
        """Creates the FederatedHPA of the workload, or changes its specification."""
        found = self.object
        if found is None:
            metadata = {"namespace": NAMESPACE, "name": NAME}
            self.store.create(FEDERATED, FEDERATED_HPAS, {"metadata": metadata, "spec": spec})
        else:
            self.store.replace(FEDERATED, FEDERATED_HPAS, {**found, "spec": spec})

    def label(self, cluster: str, **labels: str) -> None:
        """Replaces the labels of a Cluster."""
        found = self.store.find(CLUSTERS, "clusters", cluster)
        assert found is not None, cluster
        metadata = {**found["metadata"], "labels": labels}
        self.store.replace(CLUSTERS, "clusters", {**found, "metadata": metadata})

    def annotate(self, **annotations: str) -> None:
        """Replaces the annotations of the FederatedHPA."""
        found = self.object
        assert found is not None
        metadata = {**found["metadata"], "annotations": annotations}
        self.store.replace(FEDERATED, FEDERATED_HPAS, {**found, "metadata": metadata})

    def taint(self, cluster: str, *taints: Mapping[str, Any]) -> None:
        """Replaces the taints of a Cluster."""
        found = self.store.find(CLUSTERS, "clusters", cluster)
        assert found is not None, cluster
        spec = {**found["spec"], "taints": [dict(taint) for taint in taints]}
        self.store.replace(CLUSTERS, "clusters", {**found, "spec": spec})

    def delete(self, cluster: str) -> None:
        """Deletes a Cluster, which stays while it has finalizers."""
        self.store.delete(CLUSTERS, "clusters", cluster, "", {})

    @property
    def object(self) -> Object | None:
        """The FederatedHPA."""
        return self.store.find(FEDERATED, FEDERATED_HPAS, NAME, NAMESPACE)

    @property
    def status(self) -> dict[str, Any]:
        """The status of the FederatedHPA; empty before the first one."""
        return (self.object or {}).get("status") or {}

    def _count(self, request: Request, status: int) -> None:
        if request.method == "GET" or status >= 300:
            return
        parts = request.path.split("/")
        what = next((kind.plural for kind in KINDS if kind.plural in parts), parts[-1])
        key = f"{what}/{parts[-1]}" if parts[-1] in ("status", "scale") else what
        self.writes[key] = self.writes.get(key, 0) + 1
