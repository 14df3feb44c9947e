"""Mode Distributed: a write that fails never lets the maxima add up to more, and is made later."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from aiohttp import web

from fedhpa.api.member_hpas import PLURAL
from testbed.embedded.storage.store import Change
from tests.support.federation import until
from tests.support.federation.distributed import Distributed, distributed
from tests.support.federation.planes import Seen
from tests.support.nightly import NIGHTLY

pytestmark = pytest.mark.looptime(noop_cycles=0)

PER_POD = 50
Hook = Callable[[Seen], Awaitable[None]]


class WriteFault(NamedTuple):
    """A fault of writes to HPAs: before the write is made, or after it was made and before its answer."""

    name: str
    fail: Hook
    after: bool = False


def status(code: type[web.HTTPException]) -> Hook:
    async def fail(_: Seen) -> None:
        raise code

    return fail


async def hang(_: Seen) -> None:
    await asyncio.sleep(30)


FAULTS = [
    WriteFault("conflict", status(web.HTTPConflict)),
    WriteFault("forbidden", status(web.HTTPForbidden)),
    WriteFault("server error", status(web.HTTPInternalServerError)),
    WriteFault("no answer", hang),
    WriteFault("applied, server error", status(web.HTTPInternalServerError), after=True),
    WriteFault("applied, no answer", hang, after=True),
]


def apply(d: Distributed, cluster: str, fault: WriteFault | None) -> None:
    """Lets the writes of HPAs to a cluster fail; None ends it."""

    async def hook(seen: Seen) -> None:
        if fault is not None and seen.writes and PLURAL in seen.path:
            await fault.fail(seen)

    async def nothing(_: Seen) -> None:
        return

    member = d.f.members[cluster]
    member.before = hook if fault is not None and not fault.after else nothing
    member.after = hook if fault is not None and fault.after else nothing


def watch_maxima(d: Distributed) -> list[int]:
    """The sum of all maxima after each change of any HPA."""
    sums = []

    def note(change: Change) -> None:
        if change.collection == ("autoscaling", PLURAL):
            sums.append(d.maximum)

    for member in d.f.members.values():
        member.server.store.subscribe(note)
    return sums


@pytest.mark.nightly
@pytest.mark.parametrize("fault", FAULTS if NIGHTLY else FAULTS[::2], ids=lambda fault: fault.name)
async def test_a_failed_write_is_made_later_and_never_exceeds_the_maximum(
    tmp_path: Path, fault: WriteFault
) -> None:
    """At the first assignment, and when a lower maximum must reach the failing member first."""
    async with distributed(tmp_path, m1=3, m2=3) as d:
        sums = watch_maxima(d)
        d.f.demand(6 * PER_POD)
        apply(d, "m2", fault)
        async with d.f.controller(calm=True):
            d.scale(minReplicas=2, maxReplicas=12)
            await asyncio.sleep(120)
            shown = d.f.condition("Assigned")
            apply(d, "m2", None)
            await until(lambda: d.f.condition("Assigned")[0] == "True", 300)
            await asyncio.sleep(120)
            first, rescales = d.bounds, list(d.f.rescales)
            limits = {"targetCluster": {"clusterNames": ["m2"]}, "autoscalingMaxThreshold": 4}
            d.change(
                federatedHPAAssignment={
                    "federatedHPAAssignmentType": "StaticWeighted",
                    "clusterAutoscalingPreference": [limits],
                }
            )
            apply(d, "m2", fault)
            await asyncio.sleep(120)
            apply(d, "m2", None)
            await asyncio.sleep(300)
            second = d.bounds

    assert max(sums) <= 12
    assert sum(bounds[1] for bounds in first.values() if bounds) == 12
    assert sum(bounds[1] for bounds in second.values() if bounds) == 12
    assert second["m1"] is not None
    assert first["m1"] is not None
    assert second["m1"][1] > first["m1"][1]
    assert rescales == []
    if not fault.after:
        assert shown[:2] == ("False", "WriteFailed")
        assert "m2" in shown[2]


async def test_a_refused_finalizer_writes_nothing(tmp_path: Path) -> None:
    """Without it a deletion would leave the HPAs behind."""
    async with distributed(tmp_path, m1=3, m2=3) as d:

        async def refuse(seen: Seen) -> None:
            if seen.method == "PATCH" and seen.path.endswith("/web"):
                raise web.HTTPForbidden

        d.f.hub.before = refuse
        async with d.f.controller(calm=True):
            d.f.demand(6 * PER_POD)
            d.scale(minReplicas=2, maxReplicas=12)
            await asyncio.sleep(120)

            assert d.writes() == []
            assert d.f.condition("Assigned")[:2] == ("False", "WriteFailed")
            assert "finalizer" in d.f.condition("Assigned")[2]


async def test_each_write_is_counted_with_its_result(tmp_path: Path) -> None:
    """The series begin at 0 for each registered cluster."""
    async with distributed(tmp_path, m1=3, m2=3) as d:
        apply(d, "m2", FAULTS[1])
        async with d.f.controller(calm=True) as controller:
            counts = controller.counted
            counts.members.watch(lambda: controller.members.members)
            name = "fedhpa_distributed_writes_total"
            await asyncio.sleep(5)
            labels = {"cluster": "m1", "result": "confirmed"}
            begin = controller.series.get_sample_value(name, labels)
            d.f.demand(6 * PER_POD)
            d.scale(minReplicas=2, maxReplicas=12)
            await asyncio.sleep(60)

            assert begin == 0
            assert controller.series.get_sample_value(name, labels) == 1
            refused = {"cluster": "m2", "result": "refused"}
            assert (controller.series.get_sample_value(name, refused) or 0) >= 1
