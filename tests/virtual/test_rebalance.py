"""An annotation rebalances a live workload once: no pod goes before its replacement is ready."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fedhpa.api.rebalance import REBALANCE_ANNOTATION
from tests.support import karmada_crds
from tests.support.controller import HPAS as HPA_PATH
from tests.support.controller import world
from tests.support.federation import HPAS, Federation, federation, until
from tests.support.nightly import QUIET_SECONDS

pytestmark = pytest.mark.looptime(noop_cycles=0)

ASKED = "2020-01-01T00:00:00Z"


def ask(f: Federation, value: str) -> None:
    """Write the annotation, as `kubectl annotate --overwrite` does."""
    store = f.hub.server.store
    stored = store.get(HPAS, "shop", "web")
    annotations = {**(stored["metadata"].get("annotations") or {}), REBALANCE_ANNOTATION: value}
    store.update(HPAS, {**stored, "metadata": {**stored["metadata"], "annotations": annotations}})


async def least_ready(f: Federation, seconds: float) -> int:
    """The fewest ready pods of the coming time."""
    least = f.ready_pods
    for _ in range(int(seconds)):
        await asyncio.sleep(1)
        least = min(least, f.ready_pods)
    return least


@pytest.mark.nightly
@pytest.mark.parametrize("restarts", [False, True])
async def test_a_live_workload_is_rebalanced_once(tmp_path: Path, restarts: bool) -> None:
    """10 pods stay ready while 8 and 2 become 5 and 5, also over a restart. Then nothing moves any more."""
    async with federation(tmp_path, m1=8, m2=2) as f:
        f.demand(500)
        f.scale()
        async with f.controller(calm=True) as first:
            await until(lambda: f.condition("MetricsComplete")[0] == "True")
            await asyncio.sleep(60)
            before = len(f.rescales)
            ask(f, ASKED)
            if restarts:
                await until(lambda: f.total > 10, 120)
                await first.stop()
            else:
                assert await least_ready(f, 600) == 10
        if restarts:
            async with f.controller(calm=True):
                assert await least_ready(f, 600) == 10
                await asyncio.sleep(QUIET_SECONDS)

        assert f.replicas == {"m1": 5, "m2": 5}
        assert f.condition("Rebalanced")[:2] == ("True", "Rebalanced")
        written = [(one.member, one.replicas) for one in f.rescales[before:]]
        assert written == [("m2", 4), ("m1", 6), ("m2", 5), ("m1", 5)]
        moves = [event["message"] for event in f.events("ReplicasMoved")]
        changes = ["m2 2 -> 4", "m1 8 -> 6, m2 4 -> 5", "m1 6 -> 5"]
        assert moves == [f"rebalance of {ASKED}: {change}" for change in changes]


async def test_a_hub_that_drops_fields_remembers_the_timestamp() -> None:
    """With Karmada's CRD the record annotation has the rebalance, and a restart does not begin it again."""
    async with world(m1=8, m2=2) as w:
        karmada_crds.install(w.hub)
        w.load(500)
        w.scale()
        stored = w.hub.find(HPA_PATH, "web", "shop")
        assert stored is not None
        metadata = {**stored["metadata"], "annotations": {REBALANCE_ANNOTATION: ASKED}}
        w.hub.put(HPA_PATH, {**stored, "metadata": metadata})
        async with w.controller(sync_period=15):
            await asyncio.sleep(120)
            after = dict(w.replicas)
        for name, replicas in (("m1", 9), ("m2", 1)):
            w.members[name].deploy(replicas)
        async with w.controller(sync_period=15):
            await asyncio.sleep(120)

        assert "decision" not in w.status()
        assert after == {"m1": 5, "m2": 5}
        assert w.replicas == {"m1": 9, "m2": 1}
