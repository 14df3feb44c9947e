"""The wall clock of the machine goes forward by an hour, and back: no execution is lost or repeated.

libfaketime sets the clock of the controller only. The hub keeps the machine's.
"""

from __future__ import annotations

import time
from typing import Any

from fedhpa.api.times import parse_time
from testbed.real.plane import Plane
from testbed.stage.api import PlaneApi
from testbed.stage.processes import CONTROLLER, Processes
from tests.real.clocks import wall_clock
from tests.real.cron_rules import (
    LEASE,
    another_controller,
    cron,
    cron_path,
    minimum,
    minimum_settles,
    minute_after,
    recorded,
    seen_by_controller,
    target,
)
from tests.real.settling import settled
from tests.real.workloads import namespace

HOUR = 3600.0
# A new object is stored and seen by the controller within this time.
MARGIN = 60.0


async def test_a_step_of_an_hour_loses_no_execution_and_repeats_none(
    plane: Plane, processes: Processes
) -> None:
    """Forward: the execution of that hour is applied once, and is missed where it is too late. Back: nothing
    fires again, and the next execution comes at its time. The Lease stays.
    """
    space = f"cron-steps-{int(time.time())}"  # a test that is run again needs new objects
    clock = wall_clock(processes.folder / "clock")
    await processes.stop(CONTROLLER)
    try:
        with another_controller(
            plane, processes, "--controllers=cronfederatedhpa", environment=clock.environment
        ):
            async with plane.hub.api() as api:
                within = minute_after(clock.now() + HOUR / 2)
                await api.apply_all(
                    [namespace(space), *(target(each, space) for each in ("up", "late", "next"))]
                )
                await api.apply_all(
                    [
                        cron("up", space, within, targetMinReplicas=4),
                        cron("late", space, within, targetMinReplicas=4, maxDelaySeconds=600),
                    ]
                )
                await seen_by_controller(api, ("up", space), ("late", space))
                before = await lease(api)

                clock.set(clock.now() + HOUR)
                up = await minimum_settles(api, "up", space, 4)
                applied = await recorded(api, "up", space)
                missed = await recorded(api, "late", space, "missed")
                versions = [await version(api, each, space) for each in ("up", "late")]

                clock.set(clock.now() - HOUR)
                minute = minute_after(clock.now() + MARGIN)
                await api.apply_all([cron("next", space, minute, targetMinReplicas=4)])
                await seen_by_controller(api, ("next", space))
                early = await minimum(api, "next", space)
                clock.set(minute - 1)
                later = await minimum_settles(api, "next", space, 4)
                on_time = await recorded(api, "next", space)
                after = await settled(
                    lambda: lease(api), lambda found: found["renewTime"] != before["renewTime"]
                )
                versions_after = [await version(api, each, space) for each in ("up", "late")]
                left = await minimum(api, "late", space)
    finally:
        await processes.start_one(CONTROLLER)

    assert up == 4
    assert [parse_time(each["scheduleTime"]) for each in applied] == [within]
    assert [parse_time(each["scheduleTime"]) for each in missed] == [within]
    assert left == 1
    assert versions_after == versions
    assert (early, later) == (1, 4)
    assert [parse_time(each["scheduleTime"]) for each in on_time] == [minute]
    assert minute <= (parse_time(on_time[0]["executionTime"]) or 0.0) < minute + 30
    assert after["holderIdentity"] == before["holderIdentity"]
    assert after["leaseTransitions"] == before["leaseTransitions"]


async def lease(api: PlaneApi) -> dict[str, Any]:
    """Returns the spec of the Lease of rules."""
    return dict((await api.get(LEASE))["spec"])


async def version(api: PlaneApi, name: str, space: str) -> str:
    """Returns the resourceVersion of a CronFederatedHPA."""
    return str((await api.get(cron_path(name, space)))["metadata"]["resourceVersion"])
