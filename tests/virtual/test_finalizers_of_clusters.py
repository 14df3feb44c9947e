"""The finalizers of Clusters follow the replicas, and go where no controller would remove them."""

from __future__ import annotations

import asyncio

import pytest

from controller.cluster_finalizers import SETTLED_SECONDS
from controller.pause import PERIOD_SECONDS, release_clusters
from fedhpa.api.cluster_finalizers import replicas_finalizer
from fedhpa.kube import ApiClient
from tests.support.controller import ControllerWorld, cluster_object, world
from tests.support.fakeapi import CLUSTERS, eventually
from tests.support.timing import background

pytestmark = pytest.mark.looptime(noop_cycles=0)

OURS = replicas_finalizer(0, 1)
LEASES = ("coordination.k8s.io/v1", "leases")


def finalizers(w: ControllerWorld, name: str = "m1") -> list[str]:
    return list(cluster_object(w, name)["metadata"].get("finalizers") or ())


def hold(w: ControllerWorld, *names: str) -> None:
    """Give Cluster m1 finalizers."""
    found = cluster_object(w, "m1")
    w.hub.put(CLUSTERS, {**found, "metadata": {**found["metadata"], "finalizers": list(names)}})


async def test_only_clusters_with_replicas_have_it() -> None:
    """A Cluster gets it with its first replica. Without objects it goes after a minute, and others stay."""
    async with world(m1=2, m2=0) as w:
        hold(w, "example.io/theirs")
        w.scale()
        async with w.controller():
            await eventually(lambda: finalizers(w) == ["example.io/theirs", OURS], 60)
            empty = finalizers(w, "m2")
            w.hub.remove(("autoscaling.karmada.io/v1alpha1", "federatedhpas"), "web", "shop")
            await eventually(lambda: finalizers(w) == ["example.io/theirs"], SETTLED_SECONDS + 30)

        assert empty == []


async def test_replicas_that_nobody_moves_hold_nothing() -> None:
    """A deletion would wait for nothing."""
    async with world(m1=2) as w:
        w.scale(dryRun=True)
        async with w.controller():
            await asyncio.sleep(120)

        assert finalizers(w) == []


async def test_those_of_a_former_number_of_shards_go() -> None:
    """The other leaders have set their own by then."""
    async with world(m1=2) as w:
        hold(w, replicas_finalizer(2, 4))
        w.scale()
        async with w.controller():
            await eventually(lambda: finalizers(w) == [OURS], SETTLED_SECONDS + 60)


@pytest.mark.parametrize("led", [False, True])
async def test_a_paused_controller_removes_it_unless_another_one_leads(led: bool) -> None:
    """The Lease of a controller that works is renewed."""
    async with world(m1=2) as w, w.controller(paused=True) as controller, ApiClient(w.hub.config()) as hub:
        hold(w, OURS)
        registered = controller.members.registered
        await eventually(lambda: "m1" in registered and registered["m1"].cluster.metadata.finalizers)

        async def renew() -> None:
            for second in range(10_000):
                spec = {"holderIdentity": "other", "leaseDurationSeconds": 15, "renewTime": str(second)}
                meta = {"name": "fedhpa-controller-0-of-1", "namespace": "kube-system"}
                w.hub.put(LEASES, {"metadata": meta, "spec": spec if led or not second else {}})
                await asyncio.sleep(2)

        work = release_clusters(hub, controller.members, "kube-system", w.clock)
        async with background(renew()), background(work):
            await asyncio.sleep(2 * PERIOD_SECONDS)

        assert finalizers(w) == ([OURS] if led else [])
