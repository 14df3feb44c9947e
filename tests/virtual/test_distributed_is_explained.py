"""`fedhpa record`, `explain` and `preview` of an object in mode Distributed, beside a running controller."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from benchmarks.world.network import Cable
from controller.federatedhpa.one_shot import one_shot_reader, settings_for
from fedhpa.api.member_hpas import DELETION_WAITS
from fedhpa.cli.explain import explanation_of, render
from fedhpa.cli.preview import preview_of, to_text
from fedhpa.cli.replay import answer
from fedhpa.kube.client import ApiClient
from fedhpa.kube.credentials import StaticCredentials
from testbed.embedded.api.types import User
from tests.support.federation import until
from tests.support.federation.distributed import Distributed, distributed
from tests.support.federation.planes import NAMESPACE, Object

pytestmark = pytest.mark.looptime(noop_cycles=0)

PER_POD = 50


@asynccontextmanager
async def hub_of(d: Distributed) -> AsyncIterator[ApiClient]:
    """A client of the hub as a person has it."""
    d.f.hub.authenticator.tokens["person"] = User("person", ("system:masters",))
    config = d.f.hub.config(StaticCredentials("Bearer person"), Cable(d.f.network))
    async with ApiClient(config) as hub:
        yield hub


def stored(d: Distributed) -> Object:
    found = d.object
    assert found is not None
    return found


async def running(d: Distributed) -> None:
    """Six replicas at target, with bounds for two to twelve."""
    await d.begin()
    await asyncio.sleep(60)


async def test_a_recording_has_the_member_hpas_and_repeats_the_decision(tmp_path: Path) -> None:
    """The bounds are those of the status, and a quiet fleet gets no write."""
    async with distributed(tmp_path, m1=4, m2=2) as d, d.f.controller(calm=True):
        await running(d)
        began = d.f.now()
        async with hub_of(d) as hub:
            settings = await settings_for(hub, stored(d))
            async with one_shot_reader(hub, settings, clock=d.f.clock) as reader:
                scenario = (await reader.read(stored(d))).scenario()
        line, readable = answer(json.dumps(scenario).encode())
        decision = json.loads(line)

        assert readable
        for cluster in scenario["clusters"]:
            least, most = d.bounds[cluster["name"]] or (0, 0)
            assert (cluster["hpa"]["spec"]["minReplicas"], cluster["hpa"]["spec"]["maxReplicas"]) == (
                least,
                most,
            )
            assert cluster["hpa"]["status"]["currentReplicas"] == cluster["scale"]["specReplicas"]
        assert {
            each["cluster"]: (each["minReplicas"], each["maxReplicas"]) for each in decision["assignment"]
        } == (d.bounds)
        assert decision["writes"] == []
        assert d.writes(began) == []


async def test_the_record_explains_the_bounds(tmp_path: Path) -> None:
    async with distributed(tmp_path, m1=4, m2=2) as d, d.f.controller(calm=True):
        await running(d)
        async with hub_of(d) as hub:
            found = await explanation_of(hub, stored(d), d.f.clock)

        text = render(found, d.f.clock.wall())

    assert "6 replicas run, the members scale on their own" in text
    for name, (least, most) in ((name, found or (0, 0)) for name, found in d.bounds.items()):
        assert f"    {name}: {least} to {most} replicas, {d.f.replicas[name]} run" in text
    assert "Assigned=True Assigned: 2 clusters have bounds as assigned" in text


async def test_a_preview_shows_the_bounds_after_a_change(tmp_path: Path) -> None:
    """A larger maxReplicas is divided, and nothing is written."""
    async with distributed(tmp_path, m1=4, m2=2) as d, d.f.controller(calm=True):
        await running(d)
        before, began = dict(d.bounds), d.f.now()
        changed = stored(d)
        changed = {**changed, "spec": {**changed["spec"], "maxReplicas": 20}}
        async with hub_of(d) as hub:
            found = await preview_of(hub, changed, NAMESPACE, clock=d.f.clock)
        text = to_text(found)

        assert found.now is not None
        assert found.then is not None
        assert found.now.hpa_writes == ()
        assert sum(share.max_replicas for share in found.then.bounds) == 20
        assert "maxReplicas was 12, and is 20" in text
        assert d.bounds == before
        assert d.writes(began) == []


async def test_a_deletion_under_pause_waits_and_says_so(tmp_path: Path) -> None:
    """With --pause nothing is written anywhere, so the finalizer stays. Log and explain name the remedy."""
    async with distributed(tmp_path, m1=4, m2=2) as d:
        async with d.f.controller(calm=True):
            await running(d)
        bounds = d.bounds
        d.delete()
        with capture_logs() as logs:
            async with d.f.controller(calm=True, paused=True) as controller:
                began = d.f.now()
                await asyncio.sleep(1200)
                hub_writes = [
                    seen
                    for seen in d.f.hub.writes()
                    if seen.at >= began and seen.user.endswith(controller.identity)
                ]
        async with hub_of(d) as hub:
            found = await explanation_of(hub, stored(d), d.f.clock)
        paused = d.bounds, d.writes(began), [seen for seen in hub_writes if "federatedhpas" in seen.path]
        async with d.f.controller(calm=True):
            await until(lambda: d.object is None, 1200)

        assert paused == (bounds, [], [])
        assert [entry["remedy"] for entry in logs if entry["event"] == "deletion waits"] == [DELETION_WAITS]
        assert found.note == f"it was deleted 20 min ago, and waits: {DELETION_WAITS}"
        assert set(d.bounds.values()) == {None}
