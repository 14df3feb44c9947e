"""One pass of a scenario of the demo: it acts, waits, and takes each observation from the objects alone."""

import asyncio
from collections.abc import Callable
from typing import ClassVar, Protocol

from demo.curve import Curve, Load
from demo.picture import Picture

# After the pass: seconds of a rise or fall, and of the rest between them.
WAVE_SECONDS, REST_SECONDS = 20.0, 10.0
READ_SECONDS = 0.5  # seconds
STEP_SECONDS = 90.0


class World(Protocol):
    """The clusters of a scenario, as every pass needs them."""

    @property
    def load(self) -> Load:
        """The demands on the workload."""

    async def create_scaler(self) -> None:
        """Applies the FederatedHPA."""

    async def play(self, demand_millis: int) -> None:
        """Sets the CPU that all pods use together."""

    async def read(self, seconds: float) -> Picture:
        """Reads the objects."""


class NotSeen(Exception):
    """A step of a pass was not seen in time."""


class Play:
    """One pass, and then waves of load until cancelled. Each scenario defines `observations` and `_tell`."""

    observations: ClassVar[tuple[str, ...]]

    def __init__(
        self, world: World, say: Callable[[str], None], show: Callable[[Picture, int], None]
    ) -> None:
        self._load = world.load
        self._play = world.play
        self._create_scaler = world.create_scaler
        self._read = world.read
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
        return list(self._seen)

    @property
    def missing(self) -> list[str]:
        """The observations not made so far."""
        return [name for name in self.observations if name not in self.observed]

    async def run(self, *, once: bool) -> None:
        """Plays the pass; with `once` returns after it, else adds waves of load until cancelled."""
        self._started = _now()
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(self._watch())
            beside = group.create_task(self._beside())
            try:
                await self._tell()
            except NotSeen as error:
                self._say(f"not seen: {error}")
            if once:
                await beside
            else:
                await self._waves()
            watching.cancel()

    async def _tell(self) -> None:
        """Acts and observes. Raises NotSeen."""
        raise NotImplementedError

    async def _beside(self) -> None:
        """Plays what happens at the same time."""

    async def _watch(self) -> None:
        while True:
            demand = self._curve.at(_now())
            await self._play(demand)
            picture = await self._read(_now() - self._started)
            self._show(picture, demand)
            async with self._news:
                self._picture = picture
                self._news.notify_all()
            await asyncio.sleep(READ_SECONDS)

    async def _waves(self) -> None:
        while True:
            for demand, word in ((self._load.peak, "rises"), (self._load.quiet, "falls")):
                await asyncio.sleep(REST_SECONDS)
                self._say(f"the load {word}")
                self._move(demand, WAVE_SECONDS)
                await asyncio.sleep(WAVE_SECONDS)

    async def _until(
        self, holds: Callable[[Picture], bool], what: str, *, seconds: float = STEP_SECONDS
    ) -> Picture:
        """Returns the first picture that holds. Raises NotSeen."""
        try:
            async with asyncio.timeout(seconds), self._news:
                while self._picture is None or not holds(self._picture):
                    await self._news.wait()
                return self._picture
        except TimeoutError:
            raise NotSeen(f"{what}, within {seconds:.0f} s") from None

    @property
    def _seconds(self) -> float:
        """Seconds since the start of the pass."""
        return _now() - self._started

    def _move(self, demand: int, seconds: float) -> None:
        self._curve.move(demand, now=_now(), seconds=seconds)

    def _observe(self, name: str) -> None:
        self._seen.append(name)
        self._say(f"observed: {name}")


def _now() -> float:
    return asyncio.get_running_loop().time()
