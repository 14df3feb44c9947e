"""`make demo SCENARIO=hub-down`: members scale while the hub is stopped, and keep their bounds."""

from collections.abc import Callable
from typing import Protocol

from demo import play
from demo.distributed.burst import assigned, at_least_the_minimum, bounds_text, served
from demo.picture import Picture, scaled_up

# Seconds after the hub's return without a change of an HPA. A new controller makes its first pass at once.
QUIET_SECONDS = 15.0
# A new controller waits for the Lease of the old one, and reads all members.
BACK_SECONDS = 180.0


class World(play.World, Protocol):
    """The demo's world, as this scenario needs it."""

    async def stop_hub(self) -> None:
        """Stops the controller and the hub's API server."""

    async def start_hub(self) -> None:
        """Starts the hub's API server and the controller again."""


class HubDown(play.Play):
    """The load rises while the hub is away. The members serve it, and the hub takes over without a write."""

    observations = ("assigned", "hub-away", "scaled-without-hub", "hub-back", "nothing-rewritten")

    def __init__(
        self, world: World, say: Callable[[str], None], show: Callable[[Picture, int], None]
    ) -> None:
        super().__init__(world, say, show)
        self._world = world

    async def _tell(self) -> None:
        self._say("applying the FederatedHPA: StaticWeighted, member1 weighs as much as the others together")
        await self._create_scaler()
        start = await self._until(assigned, "an HPA in each member")
        self._say(f"each member has an HPA: {bounds_text(start)}")
        self._observe("assigned")
        before = await self._until(at_least_the_minimum, "the minimum in each member")
        self._say("the hub and its controller are stopped; the load rises")
        await self._world.stop_hub()
        await self._until(lambda p: p.hub_away, "a hub that does not answer")
        self._observe("hub-away")
        self._move(self._load.peak, self._load.rise_seconds)
        risen = self._seconds + self._load.rise_seconds
        alone = await self._until(
            lambda p: p.seconds > risen and scaled_up(before, p) and served(p), "members that scale alone"
        )
        if alone.hub_away:
            self._say(f"the members serve the load with {alone.total} pods, without the hub")
            self._observe("scaled-without-hub")
        self._say("the hub and the controller are started again")
        await self._world.start_hub()
        back = await self._until(_knows, "a hub that knows the sizes", seconds=BACK_SECONDS)
        self._say(f"the hub knows again that {back.total} pods run")
        self._observe("hub-back")
        last = await self._until(lambda p: p.seconds > back.seconds + QUIET_SECONDS, "time passes")
        if last.hpas == before.hpas:
            self._say("no HPA was written since the hub was stopped")
            self._observe("nothing-rewritten")


def _knows(picture: Picture) -> bool:
    """True if the FederatedHPA's status has the replicas that run."""
    status = picture.object.get("status") or {}
    return not picture.hub_away and status.get("currentReplicas") == picture.total
