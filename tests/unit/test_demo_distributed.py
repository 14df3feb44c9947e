"""The scenarios burst and hub-down: an observation is made on what the objects show, and on nothing else."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from demo.curve import Load
from demo.distributed import burst
from demo.distributed.burst import Burst
from demo.distributed.hub_down import HubDown
from demo.picture import REQUEST_MILLIS, TARGET, MemberView, Picture
from demo.scenarios import SCENARIOS
from demo.stages import MEMBERS
from fedhpa.admission.federatedhpa import validate_federatedhpa, warn_federatedhpa
from fedhpa.api.decode import decode
from fedhpa.api.federatedhpa import FederatedHPA

LOAD = Load(quiet=60, peak=1500, rise_seconds=6.0, fall_seconds=4.0)
AT_TARGET = REQUEST_MILLIS * TARGET / 100
WINDOW_SECONDS = 75.0


class ToyWorld:
    """Members whose HPAs follow the demand at each reading, and a hub that gives them bounds.

    `hub_holds`: the hub raises the first member's minimum as the load falls, until the others are drained.
    """

    def __init__(
        self,
        bounds: Mapping[str, tuple[int, int]],
        *,
        hub_holds: bool = True,
        hub_rewrites: bool = False,
        members_need_the_hub: bool = False,
    ) -> None:
        self.hub_holds, self.hub_rewrites = hub_holds, hub_rewrites
        self.members_need_the_hub = members_need_the_hub
        self.given = dict(bounds)
        self.bounds: dict[str, tuple[int, int]] = {}
        self.pods = dict.fromkeys(bounds, 1)
        self.high = dict.fromkeys(bounds, (0.0, 1))
        self.generation = 1
        self.hub_away = False
        self.load = LOAD
        self.demand = LOAD.quiet

    async def create_scaler(self) -> None:
        self.bounds = dict(self.given)

    async def stop_hub(self) -> None:
        self.hub_away = True

    async def start_hub(self) -> None:
        self.hub_away = False
        self.generation += self.hub_rewrites

    async def play(self, demand_millis: int) -> None:
        self.demand = demand_millis

    def scale(self, seconds: float) -> None:
        """Lets each HPA act once: up at once, down after the window."""
        ratio = self.demand / (sum(self.pods.values()) * AT_TARGET)
        first = next(iter(self.bounds))
        if self.hub_holds and ratio < 0.9 and not self.hub_away and len(self.bounds) == 2:
            self.bounds[first] = (self.pods[first], self.bounds[first][1])
        for name, (low, high) in self.bounds.items():
            wanted = math.ceil(self.pods[name] * ratio) if abs(ratio - 1) > 0.1 else self.pods[name]
            if wanted >= self.pods[name]:
                self.high[name] = (seconds, wanted)
            elif seconds - self.high[name][0] < WINDOW_SECONDS:
                wanted = self.pods[name]
            self.pods[name] = min(max(wanted, low), high)

    async def read(self, seconds: float) -> Picture:
        if self.bounds and not (self.hub_away and self.members_need_the_hub):
            self.scale(seconds)
        each = self.demand // sum(self.pods.values())
        views = {
            name: MemberView(count, count, each * count, self.bounds.get(name))
            for name, count in self.pods.items()
        }
        scaler: dict[str, Any] = {}
        if self.bounds and not self.hub_away:
            most = sum(high for _, high in self.given.values())
            scaler = {"spec": {"maxReplicas": most}, "status": {"currentReplicas": sum(self.pods.values())}}
        hpas = {name: json.dumps(self.generation) for name in self.bounds}
        return Picture(seconds=seconds, members=views, object=scaler, hub_away=self.hub_away, hpas=hpas)


CENTRE = {burst.FIRST: (6, 8), burst.SECOND: (1, 12)}
THREE = {"member1": (2, 8), "member2": (1, 4), "member3": (1, 4)}


async def played(kind: type[Burst] | type[HubDown], world: ToyWorld) -> tuple[list[str], list[str]]:
    """Plays one pass; returns the observations that are missing, and all lines."""
    lines: list[str] = []
    one = kind(world, lines.append, lambda _picture, _demand: None)
    async with asyncio.timeout(3600):
        await one.run(once=True)
    return one.missing, lines


@pytest.mark.looptime
@pytest.mark.parametrize(("kind", "bounds"), [(Burst, CENTRE), (HubDown, THREE)])
async def test_every_observation_is_made_on_a_world_that_behaves(
    kind: type[Burst] | type[HubDown], bounds: dict[str, tuple[int, int]]
) -> None:
    """Each observation is printed as a line of its own, in the order of the scenario."""
    missing, lines = await played(kind, ToyWorld(bounds))

    assert missing == []
    assert [f"observed: {name}" for name in kind.observations] == [
        line for line in lines if line.startswith("observed: ")
    ]


@pytest.mark.looptime
async def test_clusters_that_scale_down_together_did_not_drain_the_cloud_first() -> None:
    """Without a hold both HPAs scale down at the same moment."""
    missing, _ = await played(Burst, ToyWorld(CENTRE, hub_holds=False))

    assert missing == ["cloud-drained-first"]


@pytest.mark.looptime
async def test_hub_that_writes_at_its_return_is_not_passed_over() -> None:
    """Another spec of any HPA is a write."""
    missing, _ = await played(HubDown, ToyWorld(THREE, hub_rewrites=True))

    assert missing == ["nothing-rewritten"]


@pytest.mark.looptime
async def test_members_that_need_the_hub_do_not_scale_without_it() -> None:
    """A scenario that does not see its next step ends, and the rest counts as missing."""
    missing, lines = await played(HubDown, ToyWorld(THREE, members_need_the_hub=True))

    assert missing == ["scaled-without-hub", "hub-back", "nothing-rewritten"]
    assert any(line.startswith("not seen: members that scale alone") for line in lines)


@pytest.mark.looptime
async def test_bounds_below_max_replicas_are_not_called_assigned() -> None:
    """The maxima of all HPAs must add up to maxReplicas."""
    world = ToyWorld(CENTRE)
    world.given = {burst.FIRST: (6, 8), burst.SECOND: (1, 12)}

    async def half() -> None:
        world.bounds = {burst.FIRST: (6, 8)}

    world.create_scaler = half  # type: ignore[method-assign]  # a hub that reaches one member only
    missing, _ = await played(Burst, world)

    assert missing == list(Burst.observations)


@pytest.mark.parametrize("objects", ["burst.yaml", "hub_down.yaml"])
def test_objects_are_admitted_without_a_warning(objects: str) -> None:
    """The demo shows an object that a reader may copy."""
    file = Path(burst.__file__).with_name(objects)
    *_, scaler = yaml.safe_load_all(file.read_text(encoding="utf-8"))
    fhpa = decode(FederatedHPA, scaler)

    assert validate_federatedhpa(fhpa) == []
    assert list(warn_federatedhpa(fhpa, admitted=True)) == []


def test_scenarios_have_the_members_of_their_objects() -> None:
    """The data centre and the cloud are the members of burst; hub-down has the three ordinary ones."""
    assert tuple(SCENARIOS["burst"].members) == (burst.FIRST, burst.SECOND)
    assert tuple(SCENARIOS["hub-down"].members) == MEMBERS
    assert set(burst.CPU) <= set(burst.MEMBERS)
