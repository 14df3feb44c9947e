"""The events of the demo: a refused object, rising load, a lost member while the load falls, its return.

The rules (rules.py) play at the same time.

The story acts and waits. It takes each observation from the objects alone (picture.py).
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from demo.curve import Curve, Load
from demo.picture import OBSERVATIONS, Picture, scaled_down, scaled_up
from demo.rules import Rules

# After the story: seconds of a rise or fall, and of the rest between them.
WAVE_SECONDS, REST_SECONDS = 20.0, 10.0
READ_SECONDS = 0.5  # seconds
STEP_SECONDS = 90.0
# Seconds without a change after the hub shows low usage. The controller reconciles every second
# (objects.yaml), and would scale down at each reconcile if it ignored the lost member.
HOLD_SECONDS = 4.0
# Percent of the request. With a target of 50 and a tolerance of a tenth, this usage calls for fewer pods.
LOW = 35.0


class World(Protocol):
    """The demo's world, as the story needs it."""

    @property
    def load(self) -> Load:
        """The demands on the workload."""

    async def create_scaler(self) -> None:
        """Applies the FederatedHPA."""

    async def try_the_refused(self) -> str:
        """Applies an object that only the webhook can refuse; returns the refusal, or ""."""

    async def play(self, demand_millis: int) -> None:
        """Sets the CPU that all pods use together."""

    async def lose(self, name: str) -> None:
        """Stops a member's API server."""

    async def bring_back(self, name: str) -> None:
        """Starts a member's API server again."""

    async def read(self, seconds: float) -> Picture:
        """Reads the objects."""


class NotSeen(Exception):
    """A step of the story was not seen in time."""


class Story:
    """One pass of the story, and then waves of load until cancelled."""

    def __init__(
        self,
        world: World,
        rules: Rules,
        say: Callable[[str], None],
        show: Callable[[Picture, int], None],
    ) -> None:
        self._world = world
        self._rules = rules
        self._say = say
        self._show = show
        self._curve = Curve(world.load.quiet)
        self._started = 0.0
        self._news = asyncio.Condition()
        self._picture: Picture | None = None
        self._seen: list[str] = []

    @property
    def observed(self) -> list[str]:
        """The observations made so far."""
        return [*self._seen, *self._rules.observed]

    @property
    def missing(self) -> list[str]:
        """The observations not made so far."""
        return [name for name in OBSERVATIONS if name not in self.observed]

    async def run(self, *, once: bool) -> None:
        """Plays the story; with `once` returns after it, else adds waves of load until cancelled."""
        self._started = _now()
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(self._watch())
            firing = group.create_task(self._rules.run(self._say))
            try:
                await self._tell()
            except NotSeen as error:
                self._say(f"not seen: {error}")
            if once:
                await firing
            else:
                await self._waves()
            watching.cancel()

    async def _watch(self) -> None:
        while True:
            demand = self._curve.at(_now())
            await self._world.play(demand)
            picture = await self._world.read(_now() - self._started)
            self._show(picture, demand)
            async with self._news:
                self._picture = picture
                self._news.notify_all()
            await asyncio.sleep(READ_SECONDS)

    async def _tell(self) -> None:
        start = await self._until(lambda p: p.total > 0, "the workload")
        self._say("applying an object that only the webhook can refuse")
        refusal = await self._world.try_the_refused()
        if refusal:
            self._say(refusal)
            self._observe("refused")
        self._say("applying the FederatedHPA; the load rises")
        await self._world.create_scaler()
        self._move(self._world.load.peak, self._world.load.rise_seconds)
        risen = _now() - self._started + self._world.load.rise_seconds
        up = await self._until(lambda p: scaled_up(start, p), "more pods in at least two clusters")
        self._observe("scaled-up")
        lost = sorted(up.members)[-1]
        # Only at full load: during the rise there may be too many pods for a moment.
        up = await self._until(lambda p: p.seconds > risen and p.total == p.most, "as many pods as allowed")
        await self._lose_and_find(lost, up)
        down = await self._until(lambda p: scaled_down(up, p), "fewer pods")
        self._observe("scaled-down")
        self._say(f"the load is served by {down.total} pods again")

    async def _lose_and_find(self, lost: str, up: Picture) -> None:
        self._say(f"{lost} is lost (its API server is gone); the load falls at the same time")
        await self._world.lose(lost)
        self._move(self._world.load.quiet, self._world.load.fall_seconds)
        gone = await self._until(lambda p: lost in p.missing, f"{lost} is named as missing")
        self._say(gone.missing)
        self._observe("member-lost")
        others = [name for name in up.members if name != lost]
        low = await self._until(lambda p: (p.utilization(*others) or 100) < LOW, "low usage of the others")
        self._say(
            f"usage of {', '.join(others)} is low, usage of {lost} is unknown: nothing may be scaled down"
        )
        async with self._rules.restarting:  # without a controller, the observation would prove nothing
            begin = max(low.seconds, _now() - self._started)
            last = await self._until(lambda p: p.seconds > begin + HOLD_SECONDS, "time passes")
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
        self._seen.append(name)
        self._say(f"observed: {name}")


def _now() -> float:
    return asyncio.get_running_loop().time()
