"""The order of events: an object is refused, the load rises, a member is lost as it falls, and comes back.

The story acts and waits; whether something happened is judged by looking at the objects (picture.py) alone.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from demo.curve import Curve, Load
from demo.picture import OBSERVATIONS, Picture, scaled_down, scaled_up

# After the story: how long the load takes to rise or to fall, and how long it then stays.
WAVE_SECONDS, REST_SECONDS = 20.0, 10.0
LOOK_EVERY = 0.5  # seconds
STEP_SECONDS = 90.0
# How long nothing may change after the low usage is visible on the hub: several looks of the controller
# (one a second, objects.yaml), each of which would scale down if it took the two members for all there is.
HOLD_SECONDS = 4.0
# Percent of the request. The target is 50 with a tolerance of a tenth, so this alone would take pods away.
LOW = 35.0


class World(Protocol):
    """What the story needs of a world."""

    @property
    def load(self) -> Load:
        """What may be demanded of it."""

    async def create_scaler(self) -> None:
        """Apply the FederatedHPA."""

    async def try_the_refused(self) -> str:
        """The refusal of an object that only the webhook can refuse, or ""."""

    async def play(self, demand_millis: int) -> None:
        """Let all pods together use so much CPU."""

    async def lose(self, name: str) -> None:
        """Take a member away."""

    async def bring_back(self, name: str) -> None:
        """Bring it back."""

    async def look(self, seconds: float) -> Picture:
        """Read the objects."""


class NotSeen(Exception):
    """A step of the story did not show in time."""


class Story:
    """One pass of the story, and then the load curve for as long as somebody watches."""

    def __init__(
        self, world: World, say: Callable[[str], None], show: Callable[[Picture, int], None]
    ) -> None:
        self._world = world
        self._say = say
        self._show = show
        self._curve = Curve(world.load.quiet)
        self._started = 0.0
        self._news = asyncio.Condition()
        self._picture: Picture | None = None
        self.observed: list[str] = []

    @property
    def missing(self) -> list[str]:
        """Observations not made so far."""
        return [name for name in OBSERVATIONS if name not in self.observed]

    async def run(self, *, once: bool) -> None:
        """Play the story; with `once` return after it, else go on with the load curve until cancelled."""
        self._started = _now()
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(self._watch())
            try:
                await self._tell()
            except NotSeen as error:
                self._say(f"not seen: {error}")
            if not once:
                await self._waves()
            watching.cancel()

    async def _watch(self) -> None:
        while True:
            demand = self._curve.at(_now())
            await self._world.play(demand)
            picture = await self._world.look(_now() - self._started)
            self._show(picture, demand)
            async with self._news:
                self._picture = picture
                self._news.notify_all()
            await asyncio.sleep(LOOK_EVERY)

    async def _tell(self) -> None:
        start = await self._until(lambda p: p.total > 0, "the workload")
        self._say("an object is applied that only the webhook can refuse")
        refusal = await self._world.try_the_refused()
        if refusal:
            self._say(refusal)
            self._observe("refused")
        self._say("the FederatedHPA is applied, and the load rises")
        await self._world.create_scaler()
        self._move(self._world.load.peak, self._world.load.rise_seconds)
        risen = _now() - self._started + self._world.load.rise_seconds
        up = await self._until(lambda p: scaled_up(start, p), "more pods in at least two clusters")
        self._observe("scaled-up")
        lost = sorted(up.members)[-1]
        # Not before the load is there: on the way up there may be too many pods for a moment.
        up = await self._until(lambda p: p.seconds > risen and p.total == p.most, "as many pods as allowed")
        await self._lose_and_find(lost, up)
        down = await self._until(lambda p: scaled_down(up, p), "fewer pods")
        self._observe("scaled-down")
        self._say(f"the load is served by {down.total} pods again")

    async def _lose_and_find(self, lost: str, up: Picture) -> None:
        self._say(f"{lost} is lost (its API server is gone), and in the same moment the load falls")
        await self._world.lose(lost)
        self._move(self._world.load.quiet, self._world.load.fall_seconds)
        gone = await self._until(lambda p: lost in p.missing, f"{lost} is named as missing")
        self._say(gone.missing)
        self._observe("member-lost")
        others = [name for name in up.members if name != lost]
        low = await self._until(lambda p: (p.utilization(*others) or 100) < LOW, "low usage of the others")
        self._say(f"usage of {', '.join(others)} is low, that of {lost} unknown: nothing may be scaled down")
        last = await self._until(lambda p: p.seconds > low.seconds + HOLD_SECONDS, "time passes")
        if all(last.replicas[name] == up.replicas[name] for name in others) and lost in last.missing:
            self._observe("nothing-scaled-on-missing-data")
        self._say(f"{lost} comes back")
        await self._world.bring_back(lost)
        await self._until(lambda p: p.complete and lost in p.replicas, f"{lost} answers again")
        self._observe("member-back")

    async def _waves(self) -> None:
        while True:
            for demand, word in ((self._world.load.peak, "rises"), (self._world.load.quiet, "falls")):
                await asyncio.sleep(REST_SECONDS)
                self._say(f"the load {word}")
                self._move(demand, WAVE_SECONDS)
                await asyncio.sleep(WAVE_SECONDS)

    async def _until(self, holds: Callable[[Picture], bool], what: str) -> Picture:
        try:
            async with asyncio.timeout(STEP_SECONDS), self._news:
                while self._picture is None or not holds(self._picture):
                    await self._news.wait()
                return self._picture
        except TimeoutError:
            raise NotSeen(f"{what}, within {STEP_SECONDS:.0f} s") from None

    def _move(self, demand: int, seconds: float) -> None:
        self._curve.move(demand, now=_now(), seconds=seconds)

    def _observe(self, name: str) -> None:
        self.observed.append(name)
        self._say(f"observed: {name}")


def _now() -> float:
    return asyncio.get_running_loop().time()
