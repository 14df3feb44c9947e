"""The controller with --metrics-via=hub reads usage through the hub, here from our adapter."""

from testbed.real.plane import Plane
from testbed.stage.processes import CONTROLLER, Processes
from testbed.stage.waiting import eventually
from tests.real.workloads import (
    BUSY,
    IDLE,
    SECONDS,
    federated_hpa,
    federated_hpa_path,
    replicas_settle,
    run_everywhere,
    set_usage_everywhere,
    until_total,
    utilization,
)

LOW, HIGH = 2, 6
NAME, SPACE = "via-hub", "via-hub"


async def test_workload_is_scaled_by_usage_that_the_hub_serves(plane: Plane, processes: Processes) -> None:
    """The controller scales the workload up and down in both members, with the documented permissions only.
    The hub's audit log has its requests for usage.
    """
    path = federated_hpa_path(NAME, SPACE)
    await set_usage_everywhere(plane, NAME, SPACE, BUSY)
    await run_everywhere(plane, NAME, SPACE, replicas=1)
    await processes.stop(CONTROLLER)
    try:
        await processes.start_one(CONTROLLER, "--metrics-via=hub")
        async with plane.hub.api() as hub:
            await hub.apply_all([federated_hpa(NAME, SPACE, low=LOW, high=HIGH)])
            await until_total(plane, NAME, SPACE, HIGH)
            spread = await replicas_settle(plane, NAME, SPACE, {"member1": 3, "member2": 3})
            await set_usage_everywhere(plane, NAME, SPACE, IDLE)
            seen = await hub.wait(
                path, lambda found: utilization(found) < 20, what="low usage is seen", seconds=SECONDS
            )
            await until_total(plane, NAME, SPACE, LOW)
            await hub.delete(path)

        async def asked() -> bool:
            return any(
                event["user"]["username"] == CONTROLLER
                and event["requestURI"].startswith(f"/apis/metrics.k8s.io/v1beta1/namespaces/{SPACE}/pods")
                and event["responseStatus"]["code"] == 200
                for event in plane.hub.audit_events()
            )

        await eventually(asked, what="the controller's request in the hub's audit log", seconds=60, every=1)
    finally:
        await processes.stop(CONTROLLER)
        await processes.start_one(CONTROLLER)

    assert spread == {"member1": 3, "member2": 3}
    assert utilization(seen) < 20
