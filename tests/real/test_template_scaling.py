"""With propagation karmada the replicas are written into the template on the hub, and nowhere else."""

from realplane.plane import Plane
from stage.processes import CONTROLLER, Processes
from tests.real.workloads import (
    deployment,
    federated_hpa,
    federated_hpa_path,
    replicas,
    run_everywhere,
    set_usage_everywhere,
)

LOW, HIGH = 2, 6
SECONDS = 120.0  # a change of usage is scraped every 10 s, and rates need two scrapes


async def test_template_is_scaled_and_the_members_are_left_alone(plane: Plane, processes: Processes) -> None:
    """Usage in the members scales the template on the hub, whose replicas it is somebody else's to spread."""
    name, space = "template", "templates"
    template = f"/apis/apps/v1/namespaces/{space}/deployments/{name}"
    path = federated_hpa_path(name, space)
    await run_everywhere(plane, name, space, replicas=1)
    await set_usage_everywhere(plane, name, space, "450m")
    await processes.stop(CONTROLLER)
    try:
        await processes.start_one(CONTROLLER, "--propagation=karmada")
        async with plane.hub.api() as hub:
            await hub.apply(deployment(name, space, replicas=LOW))
            await hub.apply(federated_hpa(name, space, low=LOW, high=HIGH))
            scaled = await hub.wait(
                template,
                lambda found: found["spec"]["replicas"] == HIGH,
                what="the template is scaled up",
                seconds=SECONDS,
            )
            shown = await hub.wait(
                path,
                lambda found: (found.get("status") or {}).get("currentReplicas") == HIGH,
                what="the status shows it",
                seconds=SECONDS,
            )
            members = await replicas(plane, name, space)
            await hub.delete(path)
    finally:
        await processes.stop(CONTROLLER)
        await processes.start_one(CONTROLLER)

    assert scaled["spec"]["replicas"] == HIGH
    assert shown["status"]["desiredReplicas"] == HIGH
    assert members == {"member1": 1, "member2": 1}
