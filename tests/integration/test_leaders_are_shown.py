"""The series of leaders has each shard from the start, and 1 for those that this process leads."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from prometheus_client import CollectorRegistry

from controller.cronfederatedhpa import CronMetrics
from controller.decision_series import ControllerMetrics
from controller.flags import SECTIONS
from controller.process import Leading
from controller.shards import Division, Shard
from fedhpa.kube import SYSTEM, ApiClient
from fedhpa.serving.flags.parsing import parse_flags
from tests.support.controller import controller_settings, world
from tests.support.fakeapi import eventually
from tests.support.timing import background


async def test_shards_that_are_led_are_shown() -> None:
    """A process that leads both shards shows two ones, and zeros once its work ends."""
    values = parse_flags(SECTIONS, ["--shards=2"], {})
    registry = CollectorRegistry()
    metrics = ControllerMetrics(registry, clock=SYSTEM.monotonic)

    def leaders() -> list[float | None]:
        shards = [str(Shard(index, Division(2))) for index in range(2)]
        return [registry.get_sample_value("fedhpa_controller_leader", {"shard": shard}) for shard in shards]

    async with world(m1=1) as w, ApiClient(w.hub.config()) as hub:

        async def work(*_: object) -> None:
            await asyncio.Event().wait()

        nobody, rules = cast(Any, None), CronMetrics(registry)
        leading = Leading(values, controller_settings(), hub, nobody, nobody, metrics, rules, SYSTEM)
        async with background(leading.lead_shards(work, SYSTEM)):
            await eventually(lambda: leaders() == [1.0, 1.0])

        assert leaders() == [0.0, 0.0]
