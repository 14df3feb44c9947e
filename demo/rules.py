"""The rules of the demo: one fires while the controller is stopped, and the next one fires on time.

Rules fire at full minutes, so the two fires are a minute apart.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from fedhpa.api.times import format_time, parse_time

CAUGHT_UP, FIRED = "cron-caught-up", "cron-fired"
MINUTE = 60.0
# Seconds before a fire at which the controller is told to stop, and from its start on.
STOP_BEFORE, START_AFTER = 5.0, 0.5
# A fire that was applied within this many seconds was on time. Times in the history are whole seconds.
ON_TIME_SECONDS = 5.0
READ_SECONDS = 0.5
EFFECT_SECONDS = 30.0
# A machine that is too slow to stop the controller before a fire gets another minute.
TRIES = 3


@dataclass(frozen=True)
class RulesPicture:
    """The CronFederatedHPA, and the replicas of its target in all members (None: unknown)."""

    object: Mapping[str, Any] = field(default_factory=dict)
    replicas: int | None = None

    @property
    def line(self) -> str:
        """The state of the rules for people; "" before the object has a status."""
        summary = (self.object.get("status") or {}).get("summary") or {}
        if not summary:
            return ""
        last = summary.get("last") or "none"
        size = "?" if self.replicas is None else self.replicas
        return f"{summary.get('target')}: {size} pods; last {last}; next {summary.get('next')}"

    def applied(self, due: float) -> tuple[float, int] | None:
        """Returns when the fire of the instant `due` was applied, and the replicas that it set; or None."""
        for history in (self.object.get("status") or {}).get("executionHistories") or ():
            for done in history.get("successfulExecutions") or ():
                if parse_time(done["scheduleTime"]) == due:
                    return parse_time(done["executionTime"]) or 0.0, int(done["appliedReplicas"])
        return None


class World(Protocol):
    """The demo's world, as the rules need it."""

    async def create_rules(self) -> None:
        """Applies the CronFederatedHPA."""

    async def read_rules(self) -> RulesPicture:
        """Reads the CronFederatedHPA and its target."""

    async def stop_controller(self) -> None:
        """Stops the controller, and returns once it has ended."""

    async def start_controller(self) -> None:
        """Starts the controller, and returns once it is ready."""


class Rules:
    """Plays the two fires. `wall` is the clock that the rules follow, in POSIX seconds.

    `restarting` is held while no controller runs.
    """

    def __init__(self, world: World, wall: Callable[[], float] = time.time) -> None:
        self._world = world
        self._wall = wall
        self._restarted = False
        self.restarting = asyncio.Lock()
        self.observed: list[str] = []

    async def run(self, say: Callable[[str], None]) -> None:
        """Plays the fires that were not played yet."""
        if not self._restarted:
            await self.restart_over_a_fire(say)
        await self._fire_on_time(say)

    async def restart_over_a_fire(self, say: Callable[[str], None]) -> None:
        """Stops the controller before a fire, starts it after the fire, and waits for the effect."""
        self._restarted = True
        await self._world.create_rules()
        for _ in range(TRIES):
            due = self._next_minute(self._wall() + STOP_BEFORE)
            say(f"a rule is due at {format_time(due)}; the controller will be stopped over it")
            await self._sleep_until(due - STOP_BEFORE)
            async with self.restarting:
                await self._world.stop_controller()
                stopped = self._wall()
                if stopped < due:
                    say("the controller is stopped")
                await self._sleep_until(due + START_AFTER)
                before = await self._world.read_rules()
                began = self._wall()
                await self._world.start_controller()
            if stopped >= due or before.applied(due) is not None:
                continue
            say("the controller is started again")
            applied = await self._effect_of(due)
            if applied is not None and applied >= int(began):
                self._observe(CAUGHT_UP, say)
            return

    async def _fire_on_time(self, say: Callable[[str], None]) -> None:
        due = self._next_minute(self._wall())
        say(f"the next rule is due at {format_time(due)}")
        await self._sleep_until(due)
        applied = await self._effect_of(due)
        if applied is not None and applied <= due + ON_TIME_SECONDS:
            self._observe(FIRED, say)

    async def _effect_of(self, due: float) -> float | None:
        """Returns when a fire was applied, once the target has its size; None if that takes too long."""
        until = self._wall() + EFFECT_SECONDS
        while self._wall() < until:
            found = await self._world.read_rules()
            applied = found.applied(due)
            if applied is not None and found.replicas == applied[1]:
                return applied[0]
            await asyncio.sleep(READ_SECONDS)
        return None

    async def _sleep_until(self, instant: float) -> None:
        await asyncio.sleep(max(0.0, instant - self._wall()))

    @staticmethod
    def _next_minute(instant: float) -> float:
        return (instant // MINUTE + 1) * MINUTE

    def _observe(self, name: str, say: Callable[[str], None]) -> None:
        self.observed.append(name)
        say(f"observed: {name}")
