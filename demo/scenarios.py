"""The scenarios that `make demo SCENARIO=...` plays."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from demo.clusters import Clusters
from demo.curve import Load
from demo.distributed.burst import CPU, Burst
from demo.distributed.burst import MEMBERS as CENTRE_AND_CLOUD
from demo.distributed.hub_down import HubDown
from demo.distributed.world import DistributedWorld
from demo.picture import Picture
from demo.play import Play
from demo.stages import MEMBERS, Stage
from demo.story import Story
from demo.world import World

Say = Callable[[str], None]
Show = Callable[[Picture, int], None]
W = TypeVar("W", bound=Clusters)


@dataclass(frozen=True)
class Scenario(Generic[W]):
    """A scenario: its members, their load (None: the stage's own), the world on a stage, and one pass.

    `commands` are commands to try next, each with its purpose. A column of the curves shows
    `samples_per_column` readings, so that a long pass fits into a terminal.
    """

    world: Callable[[Stage, Say], W]
    play: Callable[[W, Say, Show], Play]
    members: Sequence[str] = MEMBERS
    load: Load | None = None
    commands: Sequence[tuple[str, str]] = ()
    samples_per_column: int = 1


def _distributed(objects: str, cpu: Mapping[str, str]) -> Callable[[Stage, Say], DistributedWorld]:
    file = Path(__file__).parent / "distributed" / objects
    return lambda stage, say: DistributedWorld(stage, say, file, cpu)


DEFAULT: Final = "member-lost"
SCENARIOS: Final[Mapping[str, Scenario[Any]]] = {
    DEFAULT: Scenario(
        World,
        lambda world, say, show: Story(world, world.rules, say, show),
        commands=(
            (
                "why nothing was scaled down while one member was lost:",
                ".venv/bin/fedhpa replay -o text demo/lost.json",
            ),
        ),
    ),
    # At the peak 17 pods are needed. At the end one pod suffices, so the cloud scales down in one step.
    "burst": Scenario(
        _distributed("burst.yaml", CPU),
        Burst,
        members=CENTRE_AND_CLOUD,
        load=Load(quiet=60, peak=1700, rise_seconds=8.0, fall_seconds=2.0),
        samples_per_column=3,
    ),
    "hub-down": Scenario(
        _distributed("hub_down.yaml", {}),
        HubDown,
        load=Load(quiet=60, peak=1200, rise_seconds=8.0, fall_seconds=5.0),
    ),
}
