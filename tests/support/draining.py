"""A hub with FederatedHPAs whose statuses a test writes in the controller's place, for `fedhpa drain`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fedhpa.admission import crd
from testbed.embedded.controlplane import ControlPlane
from testbed.stage import PlaneApi
from tests.support.controller import federated_hpa

GROUP = "autoscaling.karmada.io/v1alpha1"
CLUSTERS = "/apis/cluster.karmada.io/v1alpha1/clusters"
OBJECTS = f"/apis/{GROUP}/namespaces/shop/federatedhpas"
NAMES = ("member1", "member2", "member3")
Object = dict[str, Any]


def cluster(name: str, *taints: Mapping[str, Any]) -> Object:
    """A Cluster with taints."""
    spec = {"syncMode": "Push", "apiEndpoint": f"https://{name}.invalid:6443"}
    head = {"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name}}
    return {**head, "spec": {**spec, **({"taints": list(taints)} if taints else {})}}


def scaler(name: str, **spec: Any) -> Object:
    """A FederatedHPA of Deployment `name` in namespace shop."""
    found = federated_hpa(**spec)
    found["metadata"] = {"name": name, "namespace": "shop"}
    found["spec"]["scaleTargetRef"]["name"] = name
    return found


def rule(name: str, target: str) -> Object:
    """A CronFederatedHPA of Deployment `target`."""
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": target}
    rules = [{"name": "up", "schedule": "0 0 1 1 *", "targetReplicas": 3}]
    metadata = {"name": name, "namespace": "shop"}
    spec = {"scaleTargetRef": reference, "rules": rules}
    return {"apiVersion": GROUP, "kind": "CronFederatedHPA", "metadata": metadata, "spec": spec}


def status(shares: Mapping[str, int], **fields: Any) -> Object:
    """A status with this many replicas in each cluster. `fields` replaces others of its fields."""
    total = sum(shares.values())
    return {
        "currentReplicas": total,
        "desiredReplicas": total,
        "clusters": [{"name": name, "currentReplicas": count} for name, count in shares.items()],
        "summary": {"propagation": "direct"},
        **fields,
    }


@asynccontextmanager
async def started_hub(folder: Path, **objects: tuple[Object, Object]) -> AsyncIterator[ControlPlane]:
    """A hub with three Clusters and these objects, each with its status."""
    hub = ControlPlane(folder / "hub", "hub")
    await hub.start()
    try:
        async with hub.api() as api:
            kinds = (crd.CLUSTER, crd.FEDERATED_HPA, crd.CRON_FEDERATED_HPA)
            space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
            await api.apply_all([space, *map(crd.custom_resource_definition, kinds)])
            await api.apply_all([cluster(name) for name in NAMES])
            for name, (spec, found) in objects.items():
                await api.apply(scaler(name, **spec))
                await write(api, name, found)
        yield hub
    finally:
        await hub.end()


async def write(api: PlaneApi, name: str, found: Object) -> None:
    """Replaces the status of an object."""
    stored = await api.get(f"{OBJECTS}/{name}")
    await api.send("PUT", f"{OBJECTS}/{name}/status", body={**stored, "status": found})
