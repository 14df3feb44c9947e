"""The rules of the demo: the execution that an outage missed is caught up, and the next one is on time.

Rules fire at full minutes. A viewer waits for one of them only, because the status of the object tells of
executions some minutes ago, as after a long outage.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from fedhpa.api.times import format_time, parse_time

CAUGHT_UP, FIRED = "cron-caught-up", "cron-fired"
MINUTE = 60.0
# The outage, as the status of the object tells it.
AWAY_SECONDS = 10 * MINUTE
# An execution that was applied within this many seconds was on time. Times in the history are whole seconds.
ON_TIME_SECONDS = 5.0
# On a busy machine one execution may be late.
TRIES = 2
READ_SECONDS = 0.5
EFFECT_SECONDS = 30.0


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

    def after(self, instant: float) -> tuple[float, float] | None:
        """Returns when the oldest execution after an instant was due and applied.

        None before the target has the size of the newest execution.
        """
        done = sorted(
            (
                parse_time(each["scheduleTime"]) or 0.0,
                parse_time(each["executionTime"]) or 0.0,
                int(each["appliedReplicas"]),
            )
            for history in (self.object.get("status") or {}).get("executionHistories") or ()
            for each in history.get("successfulExecutions") or ()
        )
        if not done or done[-1][2] != self.replicas:
            return None
        return next(((due, at) for due, at, _ in done if due > instant), None)


class World(Protocol):
    """The demo's world, as the rules need it."""

    async def create_rules(self, last: str) -> None:
        """Applies the CronFederatedHPA with a status: each rule was executed at `last`."""

    async def read_rules(self) -> RulesPicture:
        """Reads the CronFederatedHPA and its target."""

    async def stop_controller(self) -> None:
        """Stops the controller, and returns once it has ended."""

    async def start_controller(self) -> None:
        """Starts the controller, and returns once it is ready."""


class Rules:
    """Shows the two executions. `wall` is the clock that the rules follow, in POSIX seconds."""

    def __init__(self, world: World, wall: Callable[[], float] = time.time) -> None:
        self._world = world
        self._wall = wall
        self._played = False
        self._due = 0.0
        self._planned, self._ended = asyncio.Event(), asyncio.Event()
        self.observed: list[str] = []

    async def run(self, say: Callable[[str], None]) -> None:
        """Shows the executions, unless that was done."""
        if not self._played:
            self._played = True
            await self._end_an_outage(say)
            for _ in range(TRIES):
                if FIRED not in self.observed:
                    await self._fire_on_time(say)
            self._ended.set()

    async def leave_alone(self, seconds: float) -> None:
        """Waits until the rules need neither controller nor members for so many seconds."""
        await self._planned.wait()
        if self._due - self._wall() < seconds:
            await self._ended.wait()

    async def _end_an_outage(self, say: Callable[[str], None]) -> None:
        await self._world.stop_controller()
        last = (self._wall() - AWAY_SECONDS) // MINUTE * MINUTE
        say(f"the controller is stopped; the status names {format_time(last)} as the last execution")
        await self._world.create_rules(format_time(last))
        await self._world.start_controller()
        started = self._wall()
        say("the controller is started again")
        if (found := await self._execution_after(last)) and found[0] < started:
            self._observe(CAUGHT_UP, say)

    async def _fire_on_time(self, say: Callable[[str], None]) -> None:
        due = self._due = (self._wall() // MINUTE + 1) * MINUTE
        self._planned.set()
        say(f"the next rule is due at {format_time(due)}")
        await asyncio.sleep(max(0.0, due - self._wall()))
        found = await self._execution_after(due - 1)
        if found and found[1] <= due + ON_TIME_SECONDS:
            self._observe(FIRED, say)

    async def _execution_after(self, instant: float) -> tuple[float, float] | None:
        """Returns when the oldest execution after an instant was due and applied; None after too long."""
        until = self._wall() + EFFECT_SECONDS
        while self._wall() < until:
            if found := (await self._world.read_rules()).after(instant):
                return found
            await asyncio.sleep(READ_SECONDS)
        return None

    def _observe(self, name: str, say: Callable[[str], None]) -> None:
        self.observed.append(name)
        say(f"observed: {name}")
