"""The controller stops and starts again on a real hub."""

from typing import Any

from testbed.real.plane import Plane
from testbed.stage.api import PlaneApi
from testbed.stage.processes import CONTROLLER, Processes

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/fedhpa-controller-0-of-1"


async def test_controller_that_follows_takes_the_lease_at_once(plane: Plane, processes: Processes) -> None:
    """At SIGTERM a controller releases its Lease and exits with 0, so the next one waits for no expiry."""
    async with plane.hub.api() as api:
        before = await held(api)
        code = await processes.stop(CONTROLLER)
        try:
            released = await api.get(LEASE)
        finally:
            await processes.start_one(CONTROLLER)
        after = await held(api)

    assert code == 0
    assert not released["spec"].get("holderIdentity")
    assert before["spec"]["holderIdentity"] != after["spec"]["holderIdentity"]


async def held(api: PlaneApi) -> Any:
    """Returns the Lease once a process holds it."""
    return await api.wait(
        LEASE,
        lambda lease: bool(lease["spec"].get("holderIdentity")),
        what="somebody leads",
        seconds=60,
    )
