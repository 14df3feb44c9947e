"""ScalingRecords on a real hub: they go with their object, people may read them, and describe stays short."""

from __future__ import annotations

from fedhpa.api import rights
from fedhpa.api.rights import Switches
from testbed.real.controlplane import Answer
from testbed.real.plane import Plane
from testbed.stage.processes import Processes
from tests.real.settling import settled
from tests.real.workloads import federated_hpa, federated_hpa_path, namespace, run_everywhere
from tests.support.three_clusters import MAX_LINES, object_of, quiet_status

NAME, SPACE = "web", "records"
RECORDS = f"/apis/fedhpa.io/v1alpha1/namespaces/{SPACE}/scalingrecords"


async def test_describe_is_short_and_ready_comes_first(plane: Plane) -> None:
    """An object with three clusters has a bounded number of lines, and Ready comes before most of them."""
    name = "described"
    async with plane.hub.api() as api:
        await api.apply_all([namespace(SPACE), object_of(name, SPACE)])
        path = federated_hpa_path(name, SPACE)

        for mode, (most, most_to_ready) in MAX_LINES.items():

            async def described(mode: str = mode) -> Answer:
                """A controller of another test may write its own status in between."""
                stored = await api.get(path)
                written = {**stored, "status": quiet_status(mode)}
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
