"""With --propagation=karmada the controller writes replicas only into the template on the hub."""

from datetime import datetime
from typing import Any

from testbed.real.plane import Plane
from testbed.stage.api import has_condition
from testbed.stage.processes import CONTROLLER, Processes
from tests.real.workloads import (
    BUSY,
    IDLE,
    SECONDS,
    deployment,
    federated_hpa,
    federated_hpa_path,
    message,
    replicas,
    run_everywhere,
    set_usage_everywhere,
    utilization,
)

LOW, HIGH = 2, 6
WINDOW = 15
# Times have whole seconds, and the reconcile before the last one counts.
SLACK = 4


async def test_template_follows_the_load_but_not_missing_data_and_the_members_are_left_alone(
    plane: Plane, processes: Processes
) -> None:
    """Usage in the members scales the template on the hub. Karmada would distribute its replicas.

    Low usage of one member scales nothing down while the other is missing. Low usage of both scales down
    after the stabilization window.
    """
    name, space = "template", "templates"
    template = f"/apis/apps/v1/namespaces/{space}/deployments/{name}"
    path = federated_hpa_path(name, space)
    autoscaler = federated_hpa(name, space, low=LOW, high=HIGH)
    autoscaler["spec"]["behavior"]["scaleDown"] = {"stabilizationWindowSeconds": WINDOW}
    await set_usage_everywhere(plane, name, space, BUSY)
    await run_everywhere(plane, name, space, replicas=1)
    await processes.stop(CONTROLLER)
    try:
        await processes.start_one(CONTROLLER, "--propagation=karmada")
        async with plane.hub.api() as hub:
            await hub.apply_all([deployment(name, space, replicas=LOW), autoscaler])
            await hub.wait(
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

            assert shown["status"]["desiredReplicas"] == HIGH
            assert await replicas(plane, name, space) == {"member1": 1, "member2": 1}

            member2 = plane.members["member2"]
            await member2.kill_component("kube-apiserver")
            try:
                await plane.members["member1"].set_usage(space, {name: {"cpu": IDLE, "memory": "64Mi"}})
                seen = await hub.wait(
                    path,
                    lambda found: (
                        has_condition(found, kind="MetricsComplete", status="False")
                        and utilization(found) < 20
                    ),
                    what="low usage of one member is seen",
                    seconds=SECONDS,
                )
                held = (await hub.get(template))["spec"]["replicas"]
            finally:
                await member2.start_api_server()

            assert held == HIGH
            assert "member2" in message(seen, "MetricsComplete")

            await set_usage_everywhere(plane, name, space, IDLE)
            complete: list[datetime] = []

            def scaled_down(found: Any) -> bool:
                if found["status"]["desiredReplicas"] == HIGH and has_condition(
                    found, kind="MetricsComplete"
                ):
                    complete.append(complete_since(found))
                return bool(found["status"].get("currentReplicas") == LOW)

            # The condition is recorded before the size changes, because a member may be missing again later.
            back = await hub.wait(path, scaled_down, what="the template is scaled down", seconds=SECONDS)
            shrunk = (await hub.get(template))["spec"]["replicas"]
            await hub.delete(path)
    finally:
        await processes.stop(CONTROLLER)
        await processes.start_one(CONTROLLER)

    scaled = datetime.fromisoformat(back["status"]["lastScaleTime"])
    assert shrunk == LOW
    assert (scaled - complete[-1]).total_seconds() >= WINDOW - SLACK
    assert await replicas(plane, name, space) == {"member1": 1, "member2": 1}


def complete_since(found: Any) -> datetime:
    """Returns the time since which all expected clusters answer."""
    condition = next(one for one in found["status"]["conditions"] if one["type"] == "MetricsComplete")
    return datetime.fromisoformat(condition["lastTransitionTime"])
