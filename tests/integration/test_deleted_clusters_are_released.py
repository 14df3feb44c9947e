"""`fedhpa unjoin` and `release-clusters` meet the finalizers of a controller that runs, or does not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from fedhpa.api.cluster_finalizers import replicas_finalizer
from testbed.embedded.controlplane import ControlPlane
from testbed.stage import PlaneApi
from tests.support.commands import fedhpa_thread
from tests.support.draining import CLUSTERS, started_hub
from tests.support.timing import background

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
LEASE = "fedhpa-controller-0-of-1"
OURS = replicas_finalizer(0, 1)
THEIRS = "example.io/theirs"


async def hold(api: PlaneApi, name: str, *finalizers: str) -> None:
    """Gives a Cluster finalizers, as the controller does. It is one of fedhpa join."""
    metadata = {"labels": {"fedhpa.io/cluster": name}, "finalizers": list(finalizers)}
    await api.patch(f"{CLUSTERS}/{name}", {"metadata": metadata})


async def lease(api: PlaneApi, at: int, duration: int) -> None:
    """Writes the Lease of a controller."""
    spec = {
        "holderIdentity": "controller-1",
        "leaseDurationSeconds": duration,
        "renewTime": f"2026-11-24T00:{at // 60:02}:{at % 60:02}.000000Z",
    }
    head = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    await api.apply({**head, "metadata": {"name": LEASE, "namespace": "kube-system"}, "spec": spec})


@asynccontextmanager
async def led(hub: ControlPlane) -> AsyncIterator[None]:
    """A controller holds its Lease."""
    async with hub.api() as api:
        await lease(api, 0, 15)

        async def renew() -> None:
            at = 0
            while True:
                await asyncio.sleep(0.3)
                at += 1
                await lease(api, at, 15)

        async with background(renew()):
            yield


async def finalizers(api: PlaneApi, name: str) -> list[str] | None:
    """The finalizers of a Cluster; None without it."""
    found = await api.find(f"{CLUSTERS}/{name}")
    return None if found is None else found["metadata"].get("finalizers", [])


@pytest.mark.parametrize("abandoned", [False, True])
async def test_unjoin_removes_the_finalizers_where_no_controller_runs(
    tmp_path: Path, abandoned: bool
) -> None:
    """Nobody would move the replicas. A Lease that nobody renews holds nothing."""
    async with started_hub(tmp_path) as hub, hub.api() as api:
        if abandoned:
            await lease(api, 0, 1)
        await hold(api, "member2", OURS, replicas_finalizer(3, 4))
        done = await fedhpa_thread("unjoin", "member2", "--kubeconfig", str(hub.kubeconfig))

        assert await finalizers(api, "member2") is None

    assert done.code == 0
    assert "No controller runs, so the replicas in member2 stay as they are." in done.out
    assert "The hub has forgotten member2." in done.out


@pytest.mark.parametrize(("patience", "told"), [(0.0, 1), (600.0, 0)])
async def test_unjoin_waits_for_the_controller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patience: float, told: int
) -> None:
    """It says so after a while, and goes on once the controller has removed its finalizer."""
    monkeypatch.setattr("fedhpa.cli.join.removal.LOOK_SECONDS", 0.1)
    monkeypatch.setattr("fedhpa.cli.join.removal.TELL_SECONDS", patience)
    async with started_hub(tmp_path) as hub, hub.api() as api, led(hub):
        await hold(api, "member2", OURS)
        running = asyncio.create_task(fedhpa_thread("unjoin", "member2", "--kubeconfig", str(hub.kubeconfig)))
        async with asyncio.timeout(60):
            await api.wait(
                f"{CLUSTERS}/member2",
                lambda one: "deletionTimestamp" in one["metadata"],
                what="the deletion",
                seconds=50,
            )
        await asyncio.sleep(1)  # ten looks
        waiting = not running.done(), await finalizers(api, "member2")
        await api.patch(f"{CLUSTERS}/member2", {"metadata": {"finalizers": []}})
        done = await running

    assert waiting == (True, [OURS])
    assert done.code == 0
    assert done.out.count("Cluster member2 stays until the controller has moved its replicas") == told
    assert "The hub has forgotten member2." in done.out


async def test_the_finalizers_of_others_are_left(tmp_path: Path) -> None:
    """Unjoin names them, and does not wait."""
    async with started_hub(tmp_path) as hub, hub.api() as api:
        await hold(api, "member2", THEIRS, OURS)
        done = await fedhpa_thread("unjoin", "member2", "--kubeconfig", str(hub.kubeconfig))

        assert await finalizers(api, "member2") == [THEIRS]

    assert done.code == 0
    assert f"stays until others remove its finalizers: {THEIRS}" in done.out


async def test_all_clusters_are_released_after_the_controller(tmp_path: Path) -> None:
    """While a controller runs nothing is removed. Then all Clusters lose our finalizers, and stay."""

    async def release() -> Any:
        return await fedhpa_thread("release-clusters", "--timeout=1s", "--kubeconfig", str(hub.kubeconfig))

    async with started_hub(tmp_path) as hub, hub.api() as api:
        await hold(api, "member1", OURS)
        await hold(api, "member2", THEIRS, OURS)
        async with led(hub):
            refused = await release()
            before = [await finalizers(api, name) for name in ("member1", "member2")]
        await lease(api, 60, 1)
        done = await release()
        after = [await finalizers(api, name) for name in ("member1", "member2", "member3")]

    assert (refused.code, before) == (2, [[OURS], [THEIRS, OURS]])
    assert "controller-1 still holds a Lease" in refused.err
    assert (done.code, after) == (0, [[], [THEIRS], []])
    assert "2 Clusters had finalizers of the controller" in done.out
