"""One FederatedHPA scales a workload in two real members."""

from testbed.real.plane import Plane
from testbed.stage.api import has_condition
from testbed.stage.processes import Processes
from tests.real.workloads import (
    BUSY,
    IDLE,
    SECONDS,
    federated_hpa,
    federated_hpa_path,
    message,
    replicas,
    replicas_settle,
    run_everywhere,
    set_usage_everywhere,
    until_total,
    utilization,
)

LOW, HIGH = 2, 6


async def test_workload_is_scaled_over_both_members_and_not_on_missing_data(
    plane: Plane, processes: Processes
) -> None:
    """High usage scales the workload up in both members. While one member is unavailable, low usage of the
    other scales nothing down, and the condition names the unavailable member. When that member returns, the
    workload is scaled down.
    """
    name, space = "web", "scaling"
    path = federated_hpa_path(name, space)
    await set_usage_everywhere(plane, name, space, BUSY)
    await run_everywhere(plane, name, space, replicas=1)
    async with plane.hub.api() as hub:
        await hub.apply_all([federated_hpa(name, space, low=LOW, high=HIGH)])
        spread = {"member1": 3, "member2": 3}

        assert await replicas_settle(plane, name, space, spread) == spread

        member2 = plane.members["member2"]
        await member2.kill_component("kube-apiserver")
        try:
            await hub.wait(
                path,
                lambda found: has_condition(found, kind="MetricsComplete", status="False"),
                what="MetricsComplete is False",
                seconds=SECONDS,
            )
            await plane.members["member1"].set_usage(space, {name: {"cpu": IDLE, "memory": "64Mi"}})
            seen = await hub.wait(
                path, lambda found: utilization(found) < 20, what="low usage is seen", seconds=SECONDS
            )
            async with plane.members["member1"].api() as api:
                deployment = await api.get(f"/apis/apps/v1/namespaces/{space}/deployments/{name}")
        finally:
            await member2.start_api_server()

        assert deployment["spec"]["replicas"] == 3
        assert seen["status"]["desiredReplicas"] == HIGH
        assert "member2" in message(seen, "MetricsComplete")

        await set_usage_everywhere(plane, name, space, IDLE)
        await until_total(plane, name, space, LOW)
        # The status is written after the members are scaled.
        back = await hub.wait(
            path,
            lambda found: (
                has_condition(found, kind="MetricsComplete") and found["status"]["desiredReplicas"] != HIGH
            ),
            what="MetricsComplete is True, and the new size is shown",
            seconds=SECONDS,
        )
        await hub.delete(path)

    assert await replicas(plane, name, space) == {"member1": 1, "member2": 1}
    assert back["status"]["desiredReplicas"] == LOW
