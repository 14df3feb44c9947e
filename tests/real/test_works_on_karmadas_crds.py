"""Mode Distributed on a real API server with Karmada's kinds: pruning, preconditions and finalizers."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from controller.apply.member_hpas import NotOwned, WorkWriter, work_path
from controller.apply.template import RETAIN_LABEL, Bound, hold, release
from fedhpa.api.json import convert_json
from fedhpa.api.member_hpas import MANAGED_BY, OWNER, V2, MemberHpa, Owner, wanted_spec
from fedhpa.api.wire import WithMetadata
from fedhpa.kube import SYSTEM, ApiClient, load_config
from fedhpa.members import Member
from fedhpa.members.hpas import HpaCache, HpaReading
from testbed.real.controlplane import ControlPlane
from testbed.stage.api import has_condition
from testbed.stage.runs import Run
from tests.support import karmada_crds

KEY = ("default", "web")
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
FEDERATED = {"scaleTargetRef": TARGET}
TEMPLATE_PATH = "/apis/apps/v1/namespaces/default/deployments/web"
BINDING_PATH = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings/web-deployment"
DEADLINE = 180.0
KINDS = [
    karmada_crds.of_work_group("Work", "works", "v1alpha1", karmada_crds.WORK),
    karmada_crds.of_work_group(
        "ResourceBinding", "resourcebindings", "v1alpha2", karmada_crds.RESOURCE_BINDING
    ),
]


@pytest.fixture(scope="module")
def hub(assets: Path) -> Iterator[ControlPlane]:
    """Yields etcd and kube-apiserver with Karmada's kinds."""
    run = Run.begin()
    try:
        plane = ControlPlane(run, assets, "karmada")
        asyncio.run(start(plane))
        yield plane
    finally:
        run.end()


async def start(plane: ControlPlane) -> None:
    await plane.start_store_and_api()
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "karmada-es-m1"}}
    async with plane.api() as api:
        await api.apply_all([*KINDS, space])
        for kind in KINDS:
            await api.wait(
                f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{kind['metadata']['name']}",
                functools.partial(has_condition, kind="Established"),
                what=f"CRD {kind['metadata']['name']} is served",
                seconds=DEADLINE,
            )


class AppliedAtOnce(HpaCache):
    """The HPA of a member whose Karmada applies each Work at once."""

    def __init__(self, hub: ApiClient) -> None:
        super().__init__(clock=SYSTEM.monotonic)
        self._hub = hub
        self.exists = False

    def note(self, member: Member, namespace: str, name: str) -> None:
        self.exists = True

    async def read(self, member: Member, namespace: str, name: str) -> HpaReading:
        if not self.exists:
            return HpaReading(None)
        work = await self._hub.get_json(work_path("m1", KEY))
        if work["metadata"].get("deletionTimestamp"):
            return HpaReading(None)
        return HpaReading(convert_json(work["spec"]["workload"]["manifests"][0], MemberHpa))


async def test_works_are_created_changed_and_deleted(hub: ControlPlane) -> None:
    """The server keeps the whole HPA, and the finalizer keeps a deleted Work for Karmada."""
    async with ApiClient(await load_config(str(hub.kubeconfig), clock=SYSTEM)) as client:
        members = {"m1": cast(Member, object())}
        owner = Owner("hub", *KEY, "uid-1")
        writer = WorkWriter(members, AppliedAtOnce(client), lambda _: owner, DEADLINE, client)
        path = work_path("m1", KEY)
        for maximum in (10, 8, 8):
            await writer.apply("m1", KEY, wanted_spec(FEDERATED, 2, maximum, V2), V2)
        stored = await client.get_json(path)
        await client.patch(path, {"metadata": {"labels": {MANAGED_BY: None}}})
        with pytest.raises(NotOwned):
            await writer.apply("m1", KEY, wanted_spec(FEDERATED, 2, 7, V2), V2)
        await client.patch(path, {"metadata": {"labels": {MANAGED_BY: "fedhpa"}}})
        await writer.discard(KEY)
        deleted = await client.get_json(path)

    (manifest,) = stored["spec"]["workload"]["manifests"]
    assert stored["metadata"]["generation"] == 2
    assert manifest["spec"] == wanted_spec(FEDERATED, 2, 8, V2)
    assert manifest["metadata"]["labels"] == {MANAGED_BY: "fedhpa", "karmada.io/managed": "true"}
    assert manifest["metadata"]["annotations"][OWNER] == str(owner)
    assert deleted["metadata"]["deletionTimestamp"]
    assert deleted["metadata"]["finalizers"] == ["karmada.io/execution-controller"]


@pytest.fixture
async def workload(hub: ControlPlane) -> AsyncIterator[ApiClient]:
    """Yields a client of the hub, which has a Deployment and its ResourceBinding as long as the test runs."""
    labels = {"app": "web"}
    pods = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web"}]}}
    spec = {"replicas": 6, "selector": {"matchLabels": labels}, "template": pods}
    template = {
        "apiVersion": TARGET["apiVersion"],
        "kind": TARGET["kind"],
        "metadata": {"namespace": "default", "name": "web"},
        "spec": spec,
    }
    clusters = [{"name": "m1", "replicas": 4}, {"name": "m2", "replicas": 2}]
    binding = {
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": "ResourceBinding",
        "metadata": {"namespace": "default", "name": "web-deployment"},
        "spec": {"resource": {**TARGET, "namespace": "default"}, "replicas": 6, "clusters": clusters},
    }
    async with hub.api() as api, ApiClient(await load_config(str(hub.kubeconfig), clock=SYSTEM)) as client:
        await api.apply_all([template, binding])
        try:
            yield client
        finally:
            await client.delete(BINDING_PATH)
            await client.delete(TEMPLATE_PATH)


async def test_the_workload_is_held_and_released(workload: ApiClient) -> None:
    """Suspension, label, replicas and marks come and go by merge patches."""
    await hold(workload, await bound(workload), "uid-1", {"m1": 5}, 6, DEADLINE)
    held, template = await workload.get_json(BINDING_PATH), await workload.get_json(TEMPLATE_PATH)
    await release(workload, await bound(workload), {"m1": 3}, DEADLINE)
    freed, after = await workload.get_json(BINDING_PATH), await workload.get_json(TEMPLATE_PATH)

    assert held["spec"]["suspension"] == {"scheduling": True}
    assert held["spec"]["clusters"] == [{"name": "m1", "replicas": 5}, {"name": "m2", "replicas": 2}]
    assert template["metadata"]["labels"][RETAIN_LABEL] == "true"
    assert (held["spec"]["replicas"], template["spec"]["replicas"]) == (7, 7)
    assert "scheduling" not in freed["spec"].get("suspension", {})
    assert freed["spec"]["clusters"][0]["replicas"] == 3
    assert (freed["spec"]["replicas"], after["spec"]["replicas"]) == (5, 5)
    assert RETAIN_LABEL not in after["metadata"].get("labels", {})
    ours = [
        name for one in (freed, after) for name in one["metadata"].get("annotations", {}) if "karmada" in name
    ]
    assert ours == []


async def test_a_cluster_that_begins_is_kept_without_replicas(workload: ApiClient) -> None:
    """Another one leaves in the same write."""
    before = await bound(workload)
    changed = replace(before, begins=frozenset({"m3"}), gone=frozenset({"m2"}))
    await hold(workload, changed, "uid-1", {"m1": 5}, before.replicas, DEADLINE)
    held = await workload.get_json(BINDING_PATH)

    assert held["spec"]["clusters"] == [{"name": "m1", "replicas": 5}, {"name": "m3", "replicas": 0}]
    assert held["spec"]["replicas"] == 5


async def bound(client: ApiClient) -> Bound:
    """The template and the binding as they are stored."""
    binding: dict[str, Any] = await client.get_json(BINDING_PATH)
    return Bound(
        template_path=TEMPLATE_PATH,
        template=(await client.get(TEMPLATE_PATH, WithMetadata)).metadata,
        binding_path=BINDING_PATH,
        binding=convert_json(binding, WithMetadata).metadata,
        suspended=bool(binding["spec"].get("suspension", {}).get("scheduling")),
        replicas=binding["spec"]["replicas"],
        shares={each["name"]: each["replicas"] for each in binding["spec"]["clusters"]},
        divided=True,
    )
