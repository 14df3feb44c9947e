"""Two controllers share the objects of a real hub by shards, and one takes over from the other."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from controller.shards import Division, Shard
from testbed.real.plane import Plane
from testbed.stage.processes import CONTROLLER, Processes
from testbed.stage.waiting import eventually, gather
from tests.real.workloads import (
    BUSY,
    SECONDS,
    federated_hpa,
    federated_hpa_path,
    run_everywhere,
    set_usage_everywhere,
    until_total,
)

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
# The test waits for an expiry, and a busy machine must not lose a Lease.
FLAGS = (
    "--shards=2",
    "--leader-elect-lease-duration=20s",
    "--leader-elect-renew-deadline=15s",
    "--leader-elect-retry-period=1s",
)
NAME = "shared"
# Percent of the request. At this target two pods suffice for the load of six busy ones.
ROOMY_TARGET = 1000
TWO = Division(2)
# Two namespaces whose workloads are in different shards.
SPACES = next(
    (first, second)
    for first, second in (("shards-a", f"shards-{letter}") for letter in "bcdefgh")
    if TWO.index_of((first, "Deployment", NAME)) != TWO.index_of((second, "Deployment", NAME))
)


async def test_two_controllers_share_and_one_takes_over(plane: Plane, processes: Processes) -> None:
    """Each controller holds a shard and scales its objects. When one is killed, the other scales all objects.
    The last change is one of the target, because metrics-server needs half a minute for a change of usage.
    """
    await gather(*(set_usage_everywhere(plane, NAME, space, BUSY) for space in SPACES))
    await gather(*(run_everywhere(plane, NAME, space, replicas=1) for space in SPACES))
    await processes.stop(CONTROLLER)
    try:
        await processes.start_one(CONTROLLER, *FLAGS)
        with second_controller(plane, processes.folder) as second:
            async with plane.hub.api() as hub:

                async def shared() -> list[str] | None:
                    found = await holders(hub)
                    return found if len(set(found)) == 2 else None

                before = await eventually(shared, what="each holds a shard", seconds=SECONDS)
                for space in SPACES:
                    await hub.apply_all([federated_hpa(NAME, space, low=2, high=6)])
                await gather(*(until_total(plane, NAME, space, 6) for space in SPACES))

                plane.run.kill(second)

                async def taken() -> list[str] | None:
                    found = await holders(hub)
                    return found if len(found) == 2 and len(set(found)) == 1 else None

                after = await eventually(taken, what="one holds both", seconds=SECONDS)
                for space in SPACES:
                    await hub.apply(federated_hpa(NAME, space, low=2, high=6, utilization=ROOMY_TARGET))
                await gather(*(until_total(plane, NAME, space, 2) for space in SPACES))
                for space in SPACES:
                    await hub.delete(federated_hpa_path(NAME, space))
    finally:
        await processes.stop(CONTROLLER)
        await processes.start_one(CONTROLLER)

    assert after[0] in before


@contextmanager
def second_controller(plane: Plane, folder: Path) -> Iterator[str]:
    """Starts another controller with the same flags; yields its name in the run."""
    name = "second-controller"
    command = [
        str(Path(sys.executable).with_name(CONTROLLER)),
        f"--kubeconfig={plane.hub.user_kubeconfig(CONTROLLER)}",
        "--propagation=direct",
        "--metrics-bind-address=0",
        "--health-probe-bind-address=0",
        *FLAGS,
    ]
    plane.run.spawn(name, command, folder / f"{name}.log")
    try:
        yield name
    finally:
        if plane.run.running(name):
            plane.run.kill(name)


async def holders(hub: Any) -> list[str]:
    """Returns the holders of the shards that are held."""
    names = [Shard(shard, TWO).lease for shard in (0, 1)]
    found = [await hub.find(f"{LEASES}/{name}") for name in names]
    return [
        lease["spec"]["holderIdentity"] for lease in found if lease and lease["spec"].get("holderIdentity")
    ]
