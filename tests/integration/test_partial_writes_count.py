"""Writes that succeeded in some clusters only count for rate limits, and are shown."""

from __future__ import annotations

from typing import Any

import pytest

from controller.apply import scales
from fedhpa.kube.resources import put_scale
from tests.support.controller import ControllerWorld, world
from tests.support.fakeapi import eventually

pytestmark = pytest.mark.looptime(noop_cycles=0)

# Four replicas in half an hour.
LIMIT = {"scaleUp": {"policies": [{"type": "Pods", "value": 4, "periodSeconds": 1800}]}}
BOTH: dict[str, Any] = {"clusterAffinity": {"clusterNames": ["m1", "m2"]}}


def total(w: ControllerWorld) -> int:
    return sum(w.replicas.values())


async def test_rate_limit_holds_while_one_cluster_refuses() -> None:
    """A cluster that refuses its share does not let the others grow without limit."""
    async with world(m1=5, m2=5) as w:
        w.load(10_000)
        w.members["m2"].refused["PUT", "/scale"] = 403
        w.scale(maxReplicas=100, behavior=LIMIT, **BOTH)
        async with w.controller() as controller:
            await eventually(lambda: total(w) > 10)
            await w.reconciles(controller, 20)
            refused = total(w)
            w.members["m2"].refused.clear()
            await w.reconciles(controller, 20)

        assert refused <= 14
        assert total(w) <= 14


async def test_part_that_was_written_is_shown_and_survives_a_restart() -> None:
    """The event names the written shares, and the next leader counts them, too."""
    async with world(m1=5, m2=5) as w:
        w.load(10_000)
        w.members["m2"].refused["PUT", "/scale"] = 403
        w.scale(maxReplicas=100, behavior=LIMIT, **BOTH)
        async with w.controller():
            await eventually(lambda: w.events("FailedRescale"))
            await eventually(lambda: w.status())
        first = total(w)
        async with w.controller() as second:
            await w.reconciles(second, 20)

        assert "; written all the same: m1: " in w.events("FailedRescale")[0]
        assert w.record()["state"]["history"]["scaleUps"]
        assert first > 10
        assert total(w) <= 14


async def test_other_clients_write_beside_ours_does_not_hide_ours() -> None:
    """If one cluster was scaled by another client meanwhile, what was written to the others counts."""
    async with world(m1=5, m2=5) as w:
        w.load(10_000)
        w.scale(maxReplicas=100, behavior=LIMIT, **BOTH)
        plane, turns = w.members["m2"], iter(range(3))

        def meddle(method: str, path: str) -> None:
            if method == "PUT" and path.endswith("/scale") and next(turns, None) is not None:
                plane.deploy(plane.replicas() % 2 + 5)

        plane.before = meddle
        async with w.controller() as controller:
            await eventually(lambda: total(w) > 11)
            await w.reconciles(controller, 20)

        assert w.replicas["m1"] <= 9
        assert total(w) <= 15


async def test_write_without_an_answer_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that was made but whose answer was lost counts once the new size is seen."""
    async with world(m1=5, m2=5) as w:
        w.load(10_000)
        w.scale(maxReplicas=100, behavior=LIMIT, **BOTH)
        lost: list[str] = []

        async def put(client: Any, *arguments: Any, **named: Any) -> Any:
            answer = await put_scale(client, *arguments, **named)
            if len(lost) < 4:
                lost.append(client.config.name)
                raise KeyError("answer")
            return answer

        monkeypatch.setattr(scales, "put_scale", put)
        async with w.controller() as controller:
            await eventually(lambda: total(w) > 10)
            await w.reconciles(controller, 20)

        assert lost
        assert total(w) <= 14
