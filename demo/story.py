"""The events of the demo: a refused object, rising load, a lost member while the load falls, its return.

The controller restarts while the member is away, and knows it from its record alone. The rules (rules.py)
play at the same time.
"""

from collections.abc import Callable
from typing import Protocol

from demo import play
from demo.picture import OBSERVATIONS, Picture, scaled_down, scaled_up
from demo.rules import Rules

# Seconds without a change after the hub shows low usage. The controller reconciles every second
# (objects.yaml), and would scale down at each reconcile if it ignored the lost member.
HOLD_SECONDS = 4.0
# The member is away for about so long on a quiet machine.
AWAY_SECONDS = 25.0
# Percent of the request. With a target of 50 and a tolerance of a tenth, this usage calls for fewer pods.
LOW = 35.0


class World(play.World, Protocol):
    """The demo's world, as the story needs it."""

    async def try_the_refused(self) -> str:
        """Applies an object that only the webhook can refuse; returns the refusal, or ""."""

    async def lose(self, name: str) -> None:
        """Stops a member's API server."""

    async def bring_back(self, name: str) -> None:
        """Starts a member's API server again."""

    async def stop_controller(self) -> None:
        """Stops the controller, and returns once it has ended."""

    async def start_controller(self) -> None:
        """Starts the controller, and returns once it is ready."""


class Story(play.Play):
    """A member is lost, the controller restarts, and the load falls."""

    observations = OBSERVATIONS

    def __init__(
        self,
        world: World,
        rules: Rules,
        say: Callable[[str], None],
        show: Callable[[Picture, int], None],
    ) -> None:
        super().__init__(world, say, show)
        self._actions = world
        self._rules = rules

    @property
    def observed(self) -> list[str]:
        """The observations made so far."""
        return [*self._seen, *self._rules.observed]

    async def _beside(self) -> None:
        await self._rules.run(self._say)

    async def _tell(self) -> None:
        start = await self._until(lambda p: p.total > 0, "the workload")
        self._say("applying an object that only the webhook can refuse")
        refusal = await self._actions.try_the_refused()
        if refusal:
            self._say(refusal)
            self._observe("refused")
        self._say("applying the FederatedHPA; the load rises")
        await self._create_scaler()
        self._move(self._load.peak, self._load.rise_seconds)
        risen = self._seconds + self._load.rise_seconds
        up = await self._until(lambda p: scaled_up(start, p), "more pods in at least two clusters")
        self._observe("scaled-up")
        lost = sorted(up.members)[-1]
        # While a member is away, a new controller does not know the size that a rule left in all members.
        await self._rules.leave_alone(AWAY_SECONDS)
        # Only at full load: during the rise there may be too many pods for a moment.
        up = await self._until(lambda p: p.seconds > risen and p.total == p.most, "as many pods as allowed")
        await self._lose_and_find(lost, up)
        down = await self._until(lambda p: scaled_down(up, p), "fewer pods")
        self._observe("scaled-down")
        self._say(f"the load is served by {down.total} pods again")

    async def _lose_and_find(self, lost: str, up: Picture) -> None:
        self._say(
            f"{lost} is lost (its API server is gone); the controller restarts, and has no last answer of it"
        )
        await self._actions.lose(lost)
        # One that runs on would use the member's last answer for a minute.
        await self._actions.stop_controller()
        await self._actions.start_controller()
        gone = await self._until(lambda p: lost in p.missing, f"{lost} is named as missing")
        self._say(gone.missing)
        self._observe("member-lost")
        self._say("the load falls")
        self._move(self._load.quiet, self._load.fall_seconds)
        others = [name for name in up.members if name != lost]
        low = await self._until(lambda p: (p.utilization(*others) or 100) < LOW, "low usage of the others")
        self._say(
            f"usage of {', '.join(others)} is low, usage of {lost} is unknown: nothing may be scaled down"
        )
        begin = low.seconds + HOLD_SECONDS
        last = await self._until(lambda p: p.seconds > begin, "time passes")
        if all(last.replicas[name] == up.replicas[name] for name in others) and lost in last.missing:
            self._observe("nothing-scaled-on-missing-data")
        self._say(f"{lost} comes back")
        await self._actions.bring_back(lost)
        await self._until(lambda p: p.complete and lost in p.replicas, f"{lost} answers again")
        self._observe("member-back")
