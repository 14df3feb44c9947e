"""The three processes stop and start again on a real hub."""

from typing import Any

import pytest

from testbed.real.plane import Plane
from testbed.stage.api import PlaneApi
from testbed.stage.processes import CONTROLLER, WEBHOOK, Processes
from testbed.stage.registrations import ADAPTER
from tests.real.wellness import all_is_well

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/fedhpa-controller-0-of-1"


@pytest.mark.parametrize("name", [WEBHOOK, ADAPTER, CONTROLLER])
async def test_process_drains_at_sigterm_and_comes_back(
    plane: Plane, processes: Processes, name: str
) -> None:
    """SIGTERM ends the process with exit code 0 before anything kills it. After a restart the process is
    ready on the same port and serves.
    """
    try:
        code = await processes.stop(name)
    finally:
        await processes.start_one(name)

    assert code == 0

    await all_is_well(plane, processes)


async def test_controller_that_follows_takes_the_lease_at_once(plane: Plane, processes: Processes) -> None:
    """A controller releases its Lease when it stops, so the next one does not wait for the expiry."""
    async with plane.hub.api() as api:
        before = await held(api)
        await processes.stop(CONTROLLER)
        try:
            released = await api.get(LEASE)
        finally:
            await processes.start_one(CONTROLLER)
        after = await held(api)

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
