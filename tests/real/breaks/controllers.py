"""Breaks of the controllers, of their Leases, and of the objects that they scale."""

from __future__ import annotations

import asyncio
import datetime as dt
import functools
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from fedhpa.api.errors import ApiError
from fedhpa.api.member_hpas import FINALIZER
from testbed.stage.processes import CONTROLLER
from testbed.stage.registrations import LEASE_NAMESPACE
from tests.real.breaks.patient import NAME, SPACE, Break, Patient
from tests.real.workloads import deployment, federated_hpa, federated_hpa_path, namespace
from tests.support.timing import background

LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{LEASE_NAMESPACE}/leases"
PATH = federated_hpa_path(NAME, SPACE)


@asynccontextmanager
async def stopped_controller(patient: Patient) -> AsyncIterator[None]:
    await patient.processes.stop(CONTROLLER)
    try:
        yield
    finally:
        await patient.processes.start_one(CONTROLLER)


def lease(shard: str, *, seconds: int = 3_600, age: float = 0.0) -> dict[str, Any]:
    """Returns a Lease of another process."""
    renewed = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=age)
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": f"{CONTROLLER}-{shard}", "namespace": LEASE_NAMESPACE},
        "spec": {
            "holderIdentity": "another-process",
            "leaseDurationSeconds": seconds,
            "renewTime": f"{renewed:%Y-%m-%dT%H:%M:%S.%fZ}",
        },
    }


def of_others(spec: dict[str, Any], found: Any) -> Any:
    return {**found, "spec": spec}


def held_by_others(*shards: str) -> Break:
    """The controller is stopped, and other processes hold these Leases."""

    @asynccontextmanager
    async def broken(patient: Patient) -> AsyncIterator[None]:
        async with stopped_controller(patient), AsyncExitStack() as stack:
            for shard in shards:
                wanted = lease(shard)
                path = f"{LEASES}/{wanted['metadata']['name']}"
                if await patient.hub.find(path) is None:
                    await stack.enter_async_context(patient.created(wanted))
                else:
                    held = functools.partial(of_others, wanted["spec"])
                    await stack.enter_async_context(patient.replaced(path, held))
            yield

    return broken


@asynccontextmanager
async def stale_lease_of_certificates(patient: Patient) -> AsyncIterator[None]:
    async with patient.created(lease("certificates", seconds=15, age=600.0)):
        yield


@asynccontextmanager
async def controller_of(patient: Patient, kind: str) -> AsyncIterator[None]:
    """The controller runs one kind only."""
    await patient.processes.stop(CONTROLLER)
    await patient.processes.start_one(CONTROLLER, f"--controllers={kind}")
    try:
        yield
    finally:
        await patient.processes.stop(CONTROLLER)
        await patient.processes.start_one(CONTROLLER)


@asynccontextmanager
async def rules_without_controller(patient: Patient) -> AsyncIterator[None]:
    """The hub has a CronFederatedHPA, and nobody runs rules."""
    rule = {"name": "night", "schedule": "0 22 * * *", "targetReplicas": 1, "suspend": True}
    cron = {
        "apiVersion": "autoscaling.karmada.io/v1alpha1",
        "kind": "CronFederatedHPA",
        "metadata": {"name": NAME, "namespace": SPACE},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME},
            "rules": [rule],
        },
    }
    objects = patient.created(deployment(NAME, SPACE, replicas=0), cron)
    async with objects, controller_of(patient, "federatedhpa"):
        yield


@asynccontextmanager
async def scaled(
    patient: Patient, *hub_manifests: Mapping[str, Any], in_member: bool = True
) -> AsyncIterator[None]:
    """A FederatedHPA, with its workload in member1 unless told otherwise, once the controller has decided."""
    async with patient.plane.members["member1"].api() as api:
        inner = [deployment(NAME, SPACE, replicas=1)] if in_member else []
        async with (
            patient.created(*inner, api=api),
            patient.created(federated_hpa(NAME, SPACE, low=1, high=2), *map(dict, hub_manifests)),
        ):
            await patient.hub.wait(
                PATH,
                lambda found: bool((found.get("status") or {}).get("summary", {}).get("propagation")),
                what="the controller has decided",
                seconds=180,
            )
            yield


@asynccontextmanager
async def leaving_without_room(patient: Patient) -> AsyncIterator[None]:
    """member1 is to be left, and a threshold lets member2 take nothing."""
    full = {"targetCluster": {"clusterNames": ["member2"]}, "autoscalingMaxThreshold": 1}
    leave = {
        "clusterAffinity": {"exclude": ["member1"]},
        "federatedHPAAssignment": {"clusterAutoscalingPreference": [full]},
    }
    async with patient.plane.members["member2"].api() as api:
        other = patient.created(deployment(NAME, SPACE, replicas=1), api=api)
        changed = patient.replaced(PATH, lambda found: {**found, "spec": {**found["spec"], **leave}})
        async with other, scaled(patient), changed:
            yield


@asynccontextmanager
async def scaled_without_controller(patient: Patient) -> AsyncIterator[None]:
    async with scaled(patient), controller_of(patient, "cronfederatedhpa"):
        yield


@asynccontextmanager
async def written_by_karmada(patient: Patient) -> AsyncIterator[None]:
    """Karmada's controller manager writes the status again and again."""

    async def write() -> None:
        count = 0
        while True:
            count += 1
            try:
                found = await patient.hub.get(PATH)
                changed = {**found, "status": {**found.get("status", {}), "currentReplicas": 1 + count % 2}}
                manager = {"fieldManager": "karmada-controller-manager"}
                await patient.hub.send("PUT", f"{PATH}/status", body=changed, params=manager)
            except ApiError:
                pass  # our controller wrote it at the same time
            await asyncio.sleep(0.3)

    async with scaled(patient), background(write()):
        yield


@asynccontextmanager
async def deletion_without_controller(patient: Patient) -> AsyncIterator[None]:
    """Nobody removes the finalizer of a deleted FederatedHPA, and two minutes pass."""
    async with held_by_others("0-of-1", "cron-0-of-1", "clusters")(patient):
        manifest = federated_hpa(NAME, SPACE, low=1, high=2)
        manifest["metadata"]["finalizers"] = [FINALIZER]
        await patient.hub.apply_all([namespace(SPACE), manifest])
        try:
            await patient.hub.delete(PATH)
            yield
        finally:
            await patient.hub.patch(PATH, {"metadata": {"finalizers": None}})


@asynccontextmanager
async def second_owner(patient: Patient) -> AsyncIterator[None]:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME}
    hpa = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": NAME, "namespace": SPACE},
        "spec": {"scaleTargetRef": target, "maxReplicas": 2},
    }
    async with scaled(patient), patient.plane.members["member1"].api() as api, patient.created(hpa, api=api):
        yield


BREAKS: dict[str, Break] = {
    "controller-not-running": stopped_controller,
    "controller-shards-differ": held_by_others("0-of-1", "0-of-2", "cron-0-of-1", "clusters"),
    "lease-not-held/shard": held_by_others("0-of-2", "cron-0-of-1", "clusters"),
    "lease-not-held/clusters": held_by_others("0-of-1", "cron-0-of-1"),
    "lease-not-held/federatedhpa": scaled_without_controller,
    "lease-not-held/cronfederatedhpa": rules_without_controller,
    "lease-not-held/certificates": stale_lease_of_certificates,
    "karmada-controller-active": written_by_karmada,
    "object-not-deleted": deletion_without_controller,
    "target-missing": lambda patient: scaled(patient, in_member=False),
    "target-on-hub": lambda patient: scaled(patient, deployment(NAME, SPACE, replicas=0)),
    "second-owner": second_owner,
    "replicas-wait": leaving_without_room,
}
