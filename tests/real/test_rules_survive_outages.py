"""Rules fire once on real planes while controllers freeze, die and change, and while the hub is away.

Rules follow the wall clock, so each test waits for the next full minute. The suite runs one of them, and
`make nightly` all.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence

from testbed.real.plane import Plane
from testbed.stage.api import PlaneApi
from testbed.stage.processes import CONTROLLER, WEBHOOK, Processes
from tests.real.cron_rules import (
    LEASE,
    another_controller,
    condition,
    cron,
    cron_path,
    executions,
    managers,
    minimum,
    minimum_settles,
    next_minute,
    recorded,
    seen_by_controller,
    sleep_until,
    target,
)
from tests.real.settling import settled
from tests.real.workloads import (
    deployment,
    federated_hpa_path,
    namespace,
    replicas_settle,
    run_everywhere,
)
from tests.support.nightly import only_at_night

# A frozen leader loses its Lease within the minute.
SHORT_LEASE = (
    "--propagation=karmada",
    "--leader-elect-lease-duration=8s",
    "--leader-elect-renew-deadline=5s",
    "--leader-elect-retry-period=1s",
)
KARMADA = "karmada-controller-manager"


@only_at_night
async def test_a_frozen_controller_applies_the_execution_once_it_continues(
    plane: Plane, processes: Processes
) -> None:
    """SIGSTOP over an execution. Bounds and workloads of the members change once. kubectl shows it, and the
    object that Karmada's controller runs is left alone.
    """
    space = f"cron-frozen-{int(time.time())}"  # a test that is run again needs new objects
    await run_everywhere(plane, "batch", space, replicas=1)
    async with plane.hub.api() as api:
        minute = await next_minute()
        await api.apply_all([namespace(space), target("web", space), target("contested", space)])
        await api.apply_all(
            [
                cron("web", space, minute, targetMinReplicas=4),
                cron("contested", space, minute, targetMinReplicas=4),
                cron("batch", space, minute, kind="Deployment", targetReplicas=6),
            ]
        )
        await seen_by_controller(api, ("web", space), ("contested", space), ("batch", space))
        await sleep_until(int(time.time()) + 1.5)  # managed fields have whole seconds
        await api.send(
            "PATCH",
            cron_path("contested", space) + "/status",
            body={"status": {"executionHistories": [{"ruleName": "up"}]}},
            content_type="application/merge-patch+json",
            params={"fieldManager": KARMADA},
        )
        contested = await settled(
            lambda: api.get(cron_path("contested", space)),
            lambda found: condition(found).get("reason") == "AnotherController",
        )
        await sleep_until(minute - 2)
        plane.run.signal(CONTROLLER, signal.SIGSTOP)
        try:
            await sleep_until(minute + 3)
            frozen = await minimum(api, "web", space)
        finally:
            plane.run.signal(CONTROLLER, signal.SIGCONT)
        bounds = await minimum_settles(api, "web", space, 4)
        sizes = await replicas_settle(plane, "batch", space, {"member1": 3, "member2": 3})
        done = [await recorded(api, name, space) for name in ("web", "batch")]
        web = await api.get(federated_hpa_path("web", space))
        obj = await api.get(cron_path("web", space))
        left_alone = await minimum(api, "contested", space), await executions(api, "contested", space)
    shown = await shown_by_kubectl(plane, "web", space)

    assert (frozen, bounds, sizes) == (1, 4, {"member1": 3, "member2": 3})
    assert [len(each) for each in done] == [1, 1]
    assert "fedhpa-cron" in managers(web)
    assert "fedhpa-cron" in managers(obj)
    assert web["metadata"]["annotations"]["autoscaling.karmada.io/last-cron-execution"].startswith("web/up@")
    assert condition(contested)["status"] == "False"
    assert left_alone == (1, [])
    assert shown == ["web", "FederatedHPA/web"]


@only_at_night
async def test_a_frozen_leader_is_replaced_and_writes_nothing_later(
    plane: Plane, processes: Processes
) -> None:
    """The leader is frozen longer than its Lease, over an execution. The other one applies it, in the
    template on the hub too. Nothing changes when the former leader is thawed.
    """
    space = f"cron-leaders-{int(time.time())}"  # a test that is run again needs new objects
    await processes.stop(CONTROLLER)
    try:
        await processes.start_one(CONTROLLER, *SHORT_LEASE)
        async with plane.hub.api() as api:
            first = await held(api)
            with another_controller(plane, processes, *SHORT_LEASE):
                minute = await next_minute()
                await api.apply_all(
                    [namespace(space), target("web", space), deployment("batch", space, replicas=1)]
                )
                await api.apply_all(
                    [
                        cron("web", space, minute, targetMinReplicas=4),
                        cron("batch", space, minute, kind="Deployment", targetReplicas=3),
                    ]
                )
                await seen_by_controller(api, ("web", space), ("batch", space))
                await sleep_until(minute - 2)
                plane.run.signal(CONTROLLER, signal.SIGSTOP)
                try:
                    bounds = await minimum_settles(api, "web", space, 4)
                    done = [await recorded(api, name, space) for name in ("web", "batch")]
                    second = await held(api)
                    before = [await version(api, name, space) for name in ("web", "batch")]
                finally:
                    plane.run.signal(CONTROLLER, signal.SIGCONT)
                await sleep_until(time.time() + 12)
                after = [await version(api, name, space) for name in ("web", "batch")]
                template = await api.get(f"/apis/apps/v1/namespaces/{space}/deployments/batch")
                kept = await held(api)
    finally:
        await processes.stop(CONTROLLER)
        await processes.start_one(CONTROLLER)

    assert bounds == 4
    assert [len(each) for each in done] == [1, 1]
    assert first != second == kept
    assert after == before
    assert template["spec"]["replicas"] == 3


@only_at_night
async def test_an_execution_that_the_hub_and_then_the_webhook_refuse_is_applied_in_the_end(
    plane: Plane, processes: Processes
) -> None:
    """The API server is away when a rule is due, and the webhook, with failurePolicy Fail, for longer.
    There is one failed execution, and then one successful one.
    """
    space = f"cron-refused-{int(time.time())}"  # a test that is run again needs new objects
    async with plane.hub.api() as api:
        minute = await next_minute()
        await api.apply_all([namespace(space), target("web", space)])
        await api.apply_all([cron("web", space, minute, targetMinReplicas=4)])
        await seen_by_controller(api, ("web", space))
    await sleep_until(minute - 5)
    await processes.stop(WEBHOOK)
    try:
        await plane.hub.kill_component("kube-apiserver")
        try:
            await sleep_until(minute + 2)
        finally:
            await plane.hub.start_api_server()
        async with plane.hub.api() as api:
            failed = await recorded(api, "web", space, "failed")
            refused = await minimum(api, "web", space)
    finally:
        await processes.start_one(WEBHOOK)
    async with plane.hub.api() as api:
        bounds = await minimum_settles(api, "web", space, 4)
        done = await recorded(api, "web", space)
        failed_after = await executions(api, "web", space, "failed")

    assert refused == 1
    assert len(failed) == len(failed_after) == 1
    assert "webhook" in failed[0]["message"]
    assert bounds == 4
    assert len(done) == 1


async def test_a_killed_controller_applies_the_execution_late(plane: Plane, processes: Processes) -> None:
    """SIGKILL over an execution: it is applied once, late, and kubectl shows it. A window restores the bounds
    when kubectl deletes its object.
    """
    space = f"cron-killed-{int(time.time())}"  # a test that is run again needs new objects
    names = ("plain", "deleted")
    async with plane.hub.api() as api:
        minute = await next_minute()
        await api.apply_all([namespace(space), *(target(name, space) for name in names)])
        await api.apply_all(
            [
                cron("plain", space, minute, targetMinReplicas=4),
                cron("deleted", space, minute, targetMinReplicas=6, duration="8h"),
            ]
        )
        while_dead = await killed_over(processes, api, space, minute, names)
        opened = [
            await minimum_settles(api, name, space, wanted)
            for name, wanted in zip(names, (4, 6), strict=True)
        ]
        done = [len(await recorded(api, name, space)) for name in names]
        shown = await shown_by_kubectl(plane, "plain", space)
        deletion = await plane.hub.kubectl("delete", "cronfhpa", "deleted", "-n", space, "--timeout=50s")
        restored, plain = [await minimum(api, name, space) for name in ("deleted", "plain")]

    assert while_dead == [1, 1]
    assert opened == [4, 6]
    assert done == [1, 1]
    assert shown == ["plain", "FederatedHPA/plain"]
    assert deletion.code == 0, deletion.err
    assert restored == 1
    assert plain == 4


@only_at_night
async def test_a_window_that_opened_late_closes_after_a_restart(plane: Plane, processes: Processes) -> None:
    """SIGKILL over the execution, and again within the window: each is applied once. The bounds return at the
    window's end.
    """
    space = f"cron-window-{int(time.time())}"  # a test that is run again needs new objects
    names = ("plain", "sale")
    async with plane.hub.api() as api:
        minute = await next_minute()
        await api.apply_all([namespace(space), *(target(name, space) for name in names)])
        await api.apply_all(
            [
                cron("plain", space, minute, targetMinReplicas=4),
                cron("sale", space, minute, targetMinReplicas=5, duration="75s"),
            ]
        )
        while_dead = await killed_over(processes, api, space, minute, names)
        opened = [
            await minimum_settles(api, name, space, wanted)
            for name, wanted in zip(names, (4, 5), strict=True)
        ]
        await recorded(api, "sale", space)
        await processes.kill(CONTROLLER)
        await processes.start_one(CONTROLLER)
        done = [len(await recorded(api, name, space)) for name in names]
        closed = await minimum_settles(api, "sale", space, 1)
        ended = time.time()
        sale = await settled(
            lambda: api.get(cron_path("sale", space)),
            lambda found: not found["metadata"].get("finalizers"),
        )
        plain = await minimum(api, "plain", space)
        kept = await api.get(f"/apis/fedhpa.io/v1alpha1/namespaces/{space}/scalingrecords")

    assert while_dead == [1, 1]
    assert opened == [4, 5]
    assert done == [1, 1]
    assert closed == 1
    assert ended >= minute + 75
    assert [
        each["metadata"]["name"] for each in kept["items"] if "cron-target" in each["metadata"]["name"]
    ] == []
    assert not sale["metadata"].get("finalizers")
    assert plain == 4


async def killed_over(
    processes: Processes, api: PlaneApi, space: str, minute: float, names: Sequence[str]
) -> list[int]:
    """Kills the controller over an execution, and starts it again. Returns the bounds shortly after it."""
    await seen_by_controller(api, *((name, space) for name in names))
    await sleep_until(minute - 3)
    await processes.kill(CONTROLLER)
    try:
        await sleep_until(minute + 1)
        return [await minimum(api, name, space) for name in names]
    finally:
        await processes.start_one(CONTROLLER)


async def shown_by_kubectl(plane: Plane, name: str, space: str) -> list[str]:
    """Waits with kubectl until an object is ready. Returns its name and target, which both tables have."""
    waited = await plane.hub.kubectl(
        "wait", f"cronfhpa/{name}", "-n", space, "--for=condition=Ready", "--timeout=50s"
    )
    table = await plane.hub.kubectl("get", "cronfhpa", name, "-n", space)
    wide = await plane.hub.kubectl("get", "cronfhpa", name, "-n", space, "-o", "wide")

    assert waited.code == 0, waited.err
    header, row = table.out.splitlines()
    assert header.split() == ["NAME", "TARGET", "NEXT", "SUSPENDED", "READY", "AGE"]
    assert row.split()[-2] == "True"
    assert row.split()[:2] == wide.out.splitlines()[1].split()[:2]
    return row.split()[:2]


async def held(api: PlaneApi) -> str:
    """Returns the holder of the Lease of rules once there is one."""
    lease = await settled(
        lambda: api.find(LEASE), lambda found: bool(found and found["spec"].get("holderIdentity"))
    )
    assert lease is not None
    return str(lease["spec"]["holderIdentity"])


async def version(api: PlaneApi, name: str, space: str) -> str:
    """Returns the resourceVersion of a CronFederatedHPA."""
    return str((await api.get(cron_path(name, space)))["metadata"]["resourceVersion"])
