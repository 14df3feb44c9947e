"""A member that answers a list with JSON that is no list is missing: nothing is scaled down for it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.controller import METRICS_PATH, PODS_PATH, SCALE_PATH, world

pytestmark = pytest.mark.looptime(noop_cycles=0)

PERIOD = 5.0
DEPLOYMENTS_PATH = "/apis/apps/v1/namespaces/shop/deployments"
LISTS = {
    "pods": (PODS_PATH,),
    "deployments and scales": (DEPLOYMENTS_PATH, SCALE_PATH),
    "usage": (f"{METRICS_PATH}/v1beta1/namespaces/shop/pods",),
}
BODIES: tuple[Any, ...] = ({"status": "ok"}, {"items": None}, {"kind": "Status", "apiVersion": "v1"})


@pytest.mark.parametrize("body", BODIES, ids=str)
@pytest.mark.parametrize("what", LISTS)
async def test_list_that_is_none_scales_nothing_down(what: str, body: Any) -> None:
    """The busy cluster without a believable list keeps its replicas, and the condition names it."""
    async with world(m1=5, m2=4) as w:
        w.members["m1"].use(10)
        w.members["m2"].use(80)
        w.members["m2"].answers |= dict.fromkeys(LISTS[what], lambda: body)
        w.scale(clusterAffinity={"clusterNames": ["m1", "m2"]})
        async with w.controller(sync_period=PERIOD):
            await asyncio.sleep(120)
            replicas, complete = w.replicas, w.condition("MetricsComplete")
            state = w.state("m2")

        assert replicas["m1"] >= 5
        assert replicas["m2"] >= 4
        assert complete[:2] == ("False", "ClustersMissing")
        assert complete[2].startswith("m2: ")
        assert state in ("Missing", "MetricsMissing")


async def test_scale_is_read_by_itself_where_the_list_is_none() -> None:
    """Without a list of Deployments nothing is missing: 370m over nine pods at 50m are eight pods."""
    async with world(m1=5, m2=4) as w:
        w.members["m1"].use(10)
        w.members["m2"].use(80)
        w.members["m2"].answers[DEPLOYMENTS_PATH] = lambda: {"status": "ok"}
        w.scale(clusterAffinity={"clusterNames": ["m1", "m2"]})
        async with w.controller(sync_period=PERIOD):
            await asyncio.sleep(4)

            assert sum(w.replicas.values()) == 8
            assert w.condition("MetricsComplete")[0] == "True"
