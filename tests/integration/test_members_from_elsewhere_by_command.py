"""`fedhpa cordon`, `drain`, `uncordon` and `join --accept` for members that are no Clusters."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from testbed.embedded.controlplane import ControlPlane
from tests.support.commands import Ran, fedhpa_thread
from tests.support.draining import started_hub, status

MAPS = "/api/v1/namespaces/fedhpa-system/configmaps"
SERVER = {"server": "https://eu-1.example.com", "ca": "a" * 64}
OTHER = {"server": "https://new.example.com", "ca": "b" * 64}


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[ControlPlane]:
    """A hub whose members eu-1 and eu-2 come from ClusterProfiles."""
    shown = status({"eu-1": 4, "eu-2": 0})
    async with started_hub(tmp_path, web=({"maxReplicas": 20}, shown)) as made:
        async with made.api() as api:
            space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fedhpa-system"}}
            await api.apply(space)
            for name, data in (
                ("fedhpa-servers", {"eu-1": json.dumps({**SERVER, "changed": OTHER}), "eu-2": "{}"}),
                ("fedhpa-taints", {}),
            ):
                metadata = {"name": name, "namespace": "fedhpa-system"}
                await api.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
        yield made


async def fedhpa(hub: ControlPlane, *arguments: str) -> Ran:
    return await fedhpa_thread(*arguments, "--kubeconfig", str(hub.kubeconfig))


async def data(hub: ControlPlane, name: str) -> dict[str, Any]:
    async with hub.api() as api:
        return {key: json.loads(text) for key, text in (await api.get(f"{MAPS}/{name}"))["data"].items()}


async def test_cordon_and_uncordon_write_the_config_map(hub: ControlPlane) -> None:
    """The taint stands there as in the spec of a node, and nobody else's key is touched."""
    where = "--members-from=clusterprofiles"
    done = await fedhpa(hub, "cordon", "eu-1", where)
    (taint,) = (await data(hub, "fedhpa-taints"))["eu-1"]
    again = await fedhpa(hub, "cordon", "eu-1", where)
    back = await fedhpa(hub, "uncordon", "eu-1", where)

    assert (done.code, again.code, back.code) == (0, 0, 0), done.err
    assert f"Undo it with: fedhpa uncordon eu-1 {where} --kubeconfig=" in done.out
    assert (taint["key"], taint["effect"]) == ("fedhpa.io/cordon", "NoSchedule")
    assert "was cordoned already" in again.out
    assert "eu-1" not in await data(hub, "fedhpa-taints")


async def test_a_drain_is_forecast_and_watched(hub: ControlPlane) -> None:
    """An empty member is drained at once, and a full one waits."""
    where = "--members-from=clusters,clusterprofiles"
    forecast = await fedhpa(hub, "drain", "eu-1", where, "--dry-run")
    empty = await fedhpa(hub, "drain", "eu-2", where)
    (taint,) = (await data(hub, "fedhpa-taints"))["eu-2"]

    assert "4 replicas" in forecast.out
    assert empty.code == 0, empty.err
    assert taint["key"] == "fedhpa.io/drain"


async def test_an_unknown_member_is_refused_with_the_known_names(hub: ControlPlane) -> None:
    """A typing error writes nothing."""
    done = await fedhpa(hub, "cordon", "eu-9", "--members-from=argocd")

    assert done.code == 2
    assert "known are: eu-1, eu-2" in done.err
    assert await data(hub, "fedhpa-taints") == {}


async def test_a_cluster_of_two_sources_is_tainted_as_a_cluster(hub: ControlPlane) -> None:
    """Where Clusters are a source, a Cluster of the name has the taint."""
    done = await fedhpa(hub, "cordon", "member1", "--members-from=clusters,clusterprofiles")
    async with hub.api() as api:
        found = await api.get("/apis/cluster.karmada.io/v1alpha1/clusters/member1")

    assert done.code == 0, done.err
    assert found["spec"]["taints"][0]["key"] == "fedhpa.io/cordon"


async def test_a_changed_server_is_accepted(hub: ControlPlane) -> None:
    """The command shows what it accepts: the server that waited, and no other one."""
    done = await fedhpa(hub, "join", "eu-1", "--accept")
    again = await fedhpa(hub, "join", "eu-1", "--accept")
    unknown = await fedhpa(hub, "join", "eu-9", "--accept")

    assert (done.code, again.code, unknown.code) == (0, 0, 2), done.err
    assert OTHER["server"] in done.out
    assert "no other server" in again.out
    assert (await data(hub, "fedhpa-servers"))["eu-1"] == OTHER
