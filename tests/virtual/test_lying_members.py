"""A member lies about room and usage: no replica is taken from clusters whose own usage needs it."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Final

import pytest

from tests.support.controller import ON_TARGET_MILLI, ControllerWorld, world
from tests.support.fakeapi import eventually
from tests.virtual.test_new_hosts import AT_ONCE, boasts, without_workload

pytestmark = pytest.mark.looptime(noop_cycles=0)

HONEST: Final = ("m1", "m2")
REPLICAS: Final = 10


class Traffic:
    """Each honest member serves a load of its own, which its pods share; and the fewest pods that it ran."""

    def __init__(self, w: ControllerWorld) -> None:
        self._w = w
        self.fewest = dict.fromkeys(HONEST, REPLICAS)
        for name in HONEST:
            w.members[name].resized = partial(self._share, name)

    def _share(self, name: str) -> None:
        plane = self._w.members[name]
        replicas = plane.replicas()
        self.fewest[name] = min(self.fewest[name], replicas)
        plane.use(REPLICAS * ON_TARGET_MILLI // max(replicas, 1))


async def attacked(policy: str, rebalance: str) -> dict[str, int]:
    """Returns the fewest replicas of the honest members.

    m3 says that its pods are ready, that they use nothing, and that it has room for thousands.
    """
    assignment: dict[str, Any] = {"rebalance": rebalance}
    if policy:
        assignment["federatedHPAAssignmentType"] = policy
    async with world(m1=REPLICAS, m2=REPLICAS, m3=1) as w:
        without_workload(w)
        boasts(w, "m3")
        w.scale(maxReplicas=60, behavior=AT_ONCE, federatedHPAAssignment=assignment)
        async with w.controller(sync_period=15):
            await eventually(lambda: w.status().get("desiredReplicas") == 2 * REPLICAS)
            traffic = Traffic(w)
            w.members["m3"].usage = 0
            for claimed in (7, 30, 3):
                w.members["m3"].deploy(claimed)
                await asyncio.sleep(1500)
            return traffic.fewest


@pytest.mark.parametrize("rebalance", ["Never", "WhenQuiet"])
@pytest.mark.parametrize(
    "policy", ["", "StaticWeighted", "DynamicWeighted", "Aggregated", "Prioritized", "LoadWeighted"]
)
async def test_a_claim_of_room_takes_nothing(policy: str, rebalance: str) -> None:
    """The honest members keep every replica under each policy, also while a return tries to move some."""
    fewest = await attacked(policy, rebalance)

    assert fewest == dict.fromkeys(HONEST, REPLICAS)
