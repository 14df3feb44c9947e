"""Placements on a real hub, with the CRDs of the Cluster Inventory API as their module has them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from fedhpa.admission import crd
from fedhpa.api import placements
from fedhpa.api.placement_decisions import GROUP
from fedhpa.api.rights import CONTROLLER, Switches, hub_rights
from testbed.real.golang import GoUnusable, find_go
from testbed.real.plane import Plane
from testbed.stage.processes import Processes
from tests.real.settling import settled
from tests.real.workloads import (
    SECONDS,
    deployment,
    federated_hpa,
    federated_hpa_path,
    namespace,
)
from tests.support.argocd_generator import RESOURCE, generate

MODULE = "sigs.k8s.io/cluster-inventory-api@v0.1.2"
NAME, SPACE, FLEET, ARGOCD = "placed", "placements", "fleet", "argocd"
DECISIONS = f"/apis/multicluster.x-k8s.io/v1alpha1/namespaces/{SPACE}/placementdecisions"
PLACEMENT = f"/apis/fedhpa.io/v1alpha1/namespaces/{ARGOCD}/placements/{SPACE}.{NAME}"
FLAGS = (f"--clusterprofile-namespaces={FLEET}", "--publish-to=argocd", "--propagation=direct")


@pytest.fixture(scope="session")
def inventory() -> list[dict[str, Any]]:
    """The CRDs of the module; skipped where it cannot be downloaded."""
    try:
        go = find_go()
        command = [go.command, "mod", "download", "-json", MODULE]
        answer = subprocess.run(command, env=go.environment, capture_output=True, timeout=120, check=True)
    except (GoUnusable, OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"{MODULE} cannot be downloaded: {error}")
    folder = Path(json.loads(answer.stdout)["Dir"]) / "config/crd/bases"
    return [yaml.safe_load(path.read_text()) for path in sorted(folder.glob("*.yaml"))]


def profile(name: str) -> dict[str, Any]:
    """A ClusterProfile."""
    return {
        "apiVersion": "multicluster.x-k8s.io/v1alpha1",
        "kind": "ClusterProfile",
        "metadata": {"name": name, "namespace": FLEET, "labels": {"x-k8s.io/cluster-manager": "tests"}},
        "spec": {"displayName": name, "clusterManager": {"name": "tests"}},
    }


def rights() -> list[dict[str, Any]]:
    """The printed rights of the controller that placements need besides, without its other roles."""
    switches = Switches(placements=True, publish_to_argocd=True)
    found = hub_rights(user_name=CONTROLLER, switches=switches, components=("controller",))
    added = [one for one in found if one["metadata"]["name"] == "fedhpa:controller:placements"]
    for one in found:
        if one["metadata"]["name"] == "fedhpa:controller" and one["kind"].startswith("ClusterRole"):
            one["metadata"]["name"] = "tests:placements"
            if "rules" in one:
                one["rules"] = [rule for rule in one["rules"] if rule.get("apiGroups") == [GROUP]]
            else:
                one["roleRef"]["name"] = "tests:placements"
            added.append(one)
    assert len(added) == 4
    return added


def conditions(found: dict[str, Any]) -> list[tuple[str, str]]:
    """The types of the conditions with the statuses."""
    listed = (found.get("status") or {}).get("conditions") or ()
    return [(one["type"], one["status"]) for one in listed]


async def test_others_follow_on_a_real_hub(
    plane: Plane, processes: Processes, inventory: list[dict[str, Any]]
) -> None:
    """The printed rights suffice, the CRDs admit each write, and nothing is left when the object goes."""
    first, second = list(plane.members)[:2]
    async with plane.members[first].api() as member:
        await member.apply_all([namespace(SPACE), deployment(NAME, SPACE, replicas=2)])
    async with plane.members[second].api() as member:
        # A test that is tried again begins like the first time.
        await member.delete(f"/apis/apps/v1/namespaces/{SPACE}/deployments/{NAME}")
    async with plane.hub.api() as hub:
        spaces = [namespace(one) for one in (SPACE, FLEET, ARGOCD)]
        await hub.apply_all([*inventory, crd.custom_resource_definition(crd.PLACEMENT), *spaces])
        await hub.apply_all([*rights(), *(profile(name) for name in plane.members)])
        await processes.stop(CONTROLLER)
        await processes.start_one(CONTROLLER, *FLAGS)
        object_ = federated_hpa(NAME, SPACE, low=2, high=4)
        object_["spec"]["clusterAffinity"] = {"clusterNames": [first, second]}
        object_["spec"]["placement"] = {"publish": True}
        try:
            await hub.apply_all([object_])

            async def published() -> list[tuple[str, str]]:
                """The clusters of the first slice, with the reasons."""
                items = (await hub.get(DECISIONS))["items"]
                listed = items[0]["decisions"] if items else []
                return [(one["clusterProfileRef"]["name"], one["reason"]) for one in listed]

            async def generated() -> list[tuple[str, str]]:
                """The clusters for which Argo CD makes an Application, with the reasons."""
                stored = (await hub.get(PLACEMENT.rpartition("/")[0]))["items"]
                servers = {name: f"https://{name}" for name in plane.members}
                return [(one["name"], one["reason"]) for one in generate(RESOURCE, stored, servers)]

            begins = [(first, "Member"), (second, "Awaited")]
            assert await settled(published, lambda answer: answer == begins) == begins
            assert await settled(generated, lambda answer: answer == begins) == begins

            async with plane.members[second].api() as member:
                await member.apply_all([namespace(SPACE), deployment(NAME, SPACE, replicas=1)])
            both = [(first, "Member"), (second, "Member")]
            assert await settled(published, lambda answer: answer == both) == both
            assert await settled(generated, lambda answer: answer == both) == both
            await hub.wait(
                federated_hpa_path(NAME, SPACE),
                lambda found: ("Published", "True") in conditions(found),
                what="the condition is shown",
                seconds=SECONDS,
            )

            await hub.delete(federated_hpa_path(NAME, SPACE))
            assert await settled(generated, lambda answer: answer == [], seconds=SECONDS) == []
            assert await settled(published, lambda answer: answer == [], seconds=SECONDS) == []
        finally:
            await hub.delete(federated_hpa_path(NAME, SPACE))
            await processes.stop(CONTROLLER)
            await processes.start_one(CONTROLLER)


async def test_the_crd_of_placements_holds_what_the_generator_needs(plane: Plane) -> None:
    """No object is stored without the list, and no field of an entry is anything but a string."""
    async with plane.hub.api() as hub:
        await hub.apply_all([crd.custom_resource_definition(crd.PLACEMENT), namespace(ARGOCD)])
        owner = {"name": "web", "namespace": "shop", "uid": "u"}
        good = placements.new_placement(ARGOCD, owner, [("m1", "Member")])
        statuses: list[Any] = [
            None,
            {},
            {"clusters": []},
            {"decisions": None},
            {"decisions": [{"clusterName": "m1"}]},
            {"decisions": [{"clusterName": "m1", "reason": 1}]},
            {"decisions": [{"clusterName": "", "reason": "Member"}]},
        ]
        await hub.apply_all([good])
        codes = []
        for status in statuses:
            metadata = {"name": "bad", "namespace": ARGOCD}
            bad = {**good, "metadata": metadata, "status": status}
            code, _, _ = await hub.request("POST", PLACEMENT.rpartition("/")[0], body=bad)
            codes.append(code)
        stored = await hub.get(f"{PLACEMENT.rpartition('/')[0]}/shop.web")
        await hub.delete(f"{PLACEMENT.rpartition('/')[0]}/shop.web")

    assert codes == [422] * len(statuses)
    assert stored["status"] == good["status"]
