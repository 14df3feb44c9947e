"""A controller that dies after any one of its writes leaves enough behind for the next one.

Each case kills the controller as soon as the hub or a member has served a certain write. It never receives
the answer to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from fedhpa.admission.crd import FEDERATED_HPA, custom_resource_definition
from testbed.embedded.objects.kinds import CRDS
from tests.support import karmada_crds
from tests.support.federation import LEASES, Federation, background, federation, until
from tests.support.federation.distributed import distributed
from tests.support.federation.planes import LEASE, Seen
from tests.support.plane_faults import Fault

pytestmark = pytest.mark.looptime(noop_cycles=0)

PER_POD = 50
# Requests that no decision makes.
ASIDE = ("/leases", "/events", "accessreviews", "/clusters/")
OURS, KARMADA = "our CRDs", "Karmada's"
hubs = pytest.mark.parametrize("hub", [OURS, KARMADA])


def every_write(usual: range, all_of_them: range) -> pytest.MarkDecorator:
    """Cases by the number of the write that is the last one. Most of them run at night."""
    cases = [
        number if number in usual else pytest.param(number, marks=pytest.mark.nightly)
        for number in all_of_them
    ]
    return pytest.mark.parametrize("last", cases)


def drop_fields(f: Federation, *, keep_spec: bool) -> None:
    """Give the hub Karmada's CRD. With `keep_spec` it drops only the fields of the status."""
    ours = custom_resource_definition(FEDERATED_HPA)
    theirs = karmada_crds.as_karmada_has_it(ours)
    if keep_spec:
        schemas = [one["spec"]["versions"][0]["schema"]["openAPIV3Schema"] for one in (theirs, ours)]
        schemas[0]["properties"]["spec"] = schemas[1]["properties"]["spec"]
    store = f.hub.server.store
    found = store.get(CRDS, "", ours["metadata"]["name"])
    store.update(CRDS, {**found, "spec": theirs["spec"]})


@asynccontextmanager
async def crash_after(
    f: Federation, last: int, between: Callable[[], Awaitable[None]] | None = None
) -> AsyncIterator[asyncio.Event]:
    """A controller that dies when its write with this number was served, and the next one, which leads then.

    `between` is awaited between the two. Yields an event that is set when the first one is dead.
    """
    crashed, dead = asyncio.Event(), asyncio.Event()
    left = last

    async def run() -> None:
        nonlocal left
        async with f.controller(calm=True) as controller:

            async def count(seen: Seen) -> None:
                nonlocal left
                if seen.writes and not any(part in seen.path for part in ASIDE):
                    left -= 1
                    if left == 0:
                        controller.cable.cut()
                        crashed.set()

            for plane in (f.hub, *f.members.values()):
                plane.after = count
            await crashed.wait()
        f.hub.server.store.delete(LEASES, "kube-system", LEASE)
        if between is not None:
            await between()
        dead.set()
        async with f.controller(calm=True):
            await asyncio.Event().wait()

    async with background(run()):
        yield dead
    assert dead.is_set(), "the controller wrote less often than that"


@hubs
@every_write(range(1, 6), range(1, 9))
async def test_no_scale_policy_is_used_twice(tmp_path: Path, hub: str, last: int) -> None:
    """Two pods in ten minutes stay two pods, whoever adds them."""
    policy = {"scaleUp": {"policies": [{"type": "Pods", "value": 2, "periodSeconds": 600}]}}
    async with federation(tmp_path, m1=2, m2=2) as f:
        if hub == KARMADA:
            drop_fields(f, keep_spec=False)
        f.demand(16 * PER_POD)
        await asyncio.sleep(120)
        async with crash_after(f, last):
            f.scale(behavior=policy)
            await asyncio.sleep(2000)

        for first in f.rescales:
            added = [one for one in f.rescales if first.at <= one.at < first.at + 590]
            assert len(added) <= 2
        assert f.total >= 8


@hubs
@every_write(range(1, 6), range(1, 10))
async def test_no_window_is_forgotten(tmp_path: Path, hub: str, last: int) -> None:
    """Five minutes after the last peak the size falls, and no sooner."""
    async with federation(tmp_path, m1=2, m2=2) as f:
        if hub == KARMADA:
            drop_fields(f, keep_spec=False)
        f.demand(12 * PER_POD)
        await asyncio.sleep(120)
        async with crash_after(f, last):
            f.scale()
            await asyncio.sleep(120)
            peak, highest = f.now(), f.total
            f.demand(4 * PER_POD)
            await asyncio.sleep(70)
            f.demand(5 * PER_POD)
            await asyncio.sleep(800)

        assert highest == 12
        assert [one for one in f.rescales if peak <= one.at < peak + 290] == []
        assert f.total <= 6


@hubs
@every_write(range(1, 8), range(1, 14))
async def test_no_member_hpa_is_left_behind(tmp_path: Path, hub: str, last: int) -> None:
    """The next controller removes the HPA of a member that does not answer it at first."""
    async with distributed(tmp_path, m1=4, m2=2) as d:
        if hub == KARMADA:
            drop_fields(d.f, keep_spec=True)

        async def delete() -> None:
            await d.f.members["m2"].faults.set(Fault.REFUSE)
            d.delete()

        d.f.demand(6 * PER_POD)
        async with crash_after(d.f, last, delete) as dead:
            d.scale(minReplicas=2, maxReplicas=12)
            asyncio.get_running_loop().call_later(200, d.f.demand, 9 * PER_POD)
            await asyncio.wait_for(dead.wait(), 1200)
            await asyncio.sleep(120)
            await d.f.members["m2"].faults.clear()
            await until(lambda: d.object is None, 300)

        assert set(d.bounds.values()) == {None}
        assert d.f.events("MemberHPALeft") == []


@hubs
@every_write(range(1, 8), range(1, 16))
async def test_the_next_controller_goes_on(tmp_path: Path, hub: str, last: int) -> None:
    """The maxima never exceed the maximum of the object, and its deletion removes all member HPAs."""
    maxima: list[int] = []
    async with distributed(tmp_path, m1=4, m2=2) as d:
        if hub == KARMADA:
            drop_fields(d.f, keep_spec=True)
        d.f.demand(6 * PER_POD)
        async with crash_after(d.f, last):
            d.scale(minReplicas=2, maxReplicas=12)
            for at in range(60):
                await asyncio.sleep(15)
                maxima.append(d.maximum)
                if at == 10:
                    d.f.demand(9 * PER_POD)
                if at == 25:
                    d.change(maxReplicas=10)
            assigned, total = d.f.condition("Assigned")[0], d.f.total
            d.delete()
            await until(lambda: d.object is None, 120)

        assert assigned == "True"
        assert max(maxima) <= 12
        assert maxima[-1] == 10
        assert total == d.f.total
        assert set(d.bounds.values()) == {None}
