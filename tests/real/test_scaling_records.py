"""ScalingRecords on a real hub: they go with their object, people may read them, and describe stays short."""

from __future__ import annotations

from typing import Any

from fedhpa.api import rights
from fedhpa.api.rights import Switches
from testbed.real.controlplane import Answer
from testbed.real.plane import Plane
from testbed.stage.processes import Processes
from tests.real.settling import settled
from tests.real.workloads import federated_hpa, federated_hpa_path, namespace, run_everywhere
from tests.support.distributed_scenarios import NOW, cluster, federated, hpa, replayed, scenario

NAME, SPACE = "web", "records"
RECORDS = f"/apis/fedhpa.io/v1alpha1/namespaces/{SPACE}/scalingrecords"
# Lines without events, and lines up to the type of Ready.
MAX_LINES = {"Centralized": (90, 52), "Distributed": (100, 58)}
CLUSTERS = ("member1", "member2", "member3")


def answering(name: str, autoscaler: dict[str, Any] | None) -> dict[str, Any]:
    """A cluster with three pods at their target."""
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-03-11T12:00:00Z"}
    metadata = [
        {"name": f"web-{number}", "namespace": "shop", "labels": {"app": "web"}} for number in range(3)
    ]
    container = {"name": "web", "resources": {"requests": {"cpu": "100m"}}}
    status = {"phase": "Running", "startTime": "2026-03-11T12:00:00Z", "conditions": [ready]}
    usage = {"timestamp": NOW, "window": "15s", "containers": [{"name": "web", "usage": {"cpu": "50m"}}]}
    pods = [{"metadata": one, "spec": {"containers": [container]}, "status": status} for one in metadata]
    return cluster(
        name, 3, autoscaler, pods=pods, podMetrics=[{"metadata": one, **usage} for one in metadata]
    )


def status_of_three_clusters(mode: str) -> dict[str, Any]:
    """The status of an object whose clusters all answer."""
    distributed = mode == "Distributed"
    clusters = [answering(name, hpa(1, 4, 3) if distributed else None) for name in CLUSTERS]
    obj = federated(2, 12)
    obj["spec"]["mode"] = mode
    found: dict[str, Any] = replayed(scenario(obj, *clusters))["status"]
    return found


async def test_describe_is_short_and_ready_comes_first(plane: Plane) -> None:
    """An object with three clusters has a bounded number of lines, and Ready is in the first 60."""
    name = "described"
    async with plane.hub.api() as api:
        obj = federated_hpa(name, SPACE, low=2, high=12)
        for field in ("behavior", "syncPeriodSeconds"):
            obj["spec"].pop(field, None)
        await api.apply_all([namespace(SPACE), obj])
        path = federated_hpa_path(name, SPACE)

        for mode, (most, most_to_ready) in MAX_LINES.items():

            async def described(mode: str = mode) -> Answer:
                """A controller of another test may write its own status in between."""
                stored = await api.get(path)
                written = {**stored, "status": status_of_three_clusters(mode)}
                await api.request("PUT", f"{path}/status", body=written)
                return await plane.hub.kubectl("describe", "fhpa", name, "-n", SPACE)

            shown = await settled(described, lambda answer: "member3" in answer.out)
            lines = shown.out.partition("\nEvents:")[0].splitlines()
            ready = next(number for number, line in enumerate(lines, 1) if line.split() == ["Type:", "Ready"])

            assert len(lines) <= most, "\n".join(lines)
            assert ready <= most_to_ready, "\n".join(lines)
        await api.delete(path)


async def test_a_record_goes_with_its_object(plane: Plane, processes: Processes) -> None:
    """kube-controller-manager removes it, and the record of an earlier object is made anew."""
    await run_everywhere(plane, NAME, SPACE, replicas=2)
    async with plane.hub.api() as api:
        await api.apply_all([federated_hpa(NAME, SPACE, low=2, high=4)])

        async def owners() -> list[str]:
            """The uids of the records' owners that have a content."""
            items = (await api.get(RECORDS))["items"]
            mine = [one for one in items if one["metadata"]["name"] == f"federatedhpa.{NAME}"]
            return [one["metadata"]["ownerReferences"][0]["uid"] for one in mine if one.get("status")]

        path = federated_hpa_path(NAME, SPACE)
        uid = (await api.get(path))["metadata"]["uid"]
        first = await settled(owners, lambda found: found == [uid])
        await api.delete(path)
        gone = await settled(owners, lambda found: found == [])
        await api.apply_all([federated_hpa(NAME, SPACE, low=2, high=4)])
        another = (await api.get(path))["metadata"]["uid"]
        second = await settled(owners, lambda found: found == [another])
        await api.delete(path)

    assert (first, gone, second) == ([uid], [], [another])


async def test_people_may_get_a_record_and_nobody_may_write_it(plane: Plane) -> None:
    """The roles view and edit have get, and no other verb."""
    found = rights.hub_rights(switches=Switches(aggregate_to_default_roles=True), components=("users",))
    bindings = [
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": f"records-{role}", "namespace": SPACE},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "User", "name": role, "apiGroup": "rbac.authorization.k8s.io"}],
        }
        for role in ("view", "edit")
    ]
    verbs = ("get", "list", "watch", "create", "update", "patch", "delete")
    hub = plane.hub
    async with hub.api() as api:
        await api.apply_all([namespace(SPACE), *found, *bindings])

        async def permitted() -> dict[str, list[str]]:
            answers = {}
            for role in ("view", "edit"):
                asked = {
                    f"{verb}{part}": await hub.kubectl(
                        *("auth", "can-i", verb, "scalingrecords.fedhpa.io", "-n", SPACE, "--as", role),
                        *(["--subresource=status"] if part else []),
                    )
                    for verb in verbs
                    for part in ("", " status")
                }
                answers[role] = [name for name, answer in asked.items() if answer.out.strip() == "yes"]
            return answers

        expected = {"view": ["get"], "edit": ["get"]}
        assert await settled(permitted, lambda answer: answer == expected) == expected
        for role in found:
            await api.delete(f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{role['metadata']['name']}")
