"""Rules under chaos, as a state machine: whatever happened, once all is well the size is that of the oracle.

Three objects share a workload in three members. Between two looks at it the controller dies at any write,
requests are refused or conflict, members are silent, the clock steps, objects are edited and deleted, people
scale, and a second controller runs. The oracle knows minutes of an hour, and nothing of the product.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

import looptime
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from fedhpa.kube import Clock
from tests.support.controller import NAMESPACE, world
from tests.support.nightly import NIGHT, examples
from tests.support.rules import CRONS, DEPLOYMENT, delete_rules, put_rules, rules_running
from tests.support.timing import EPOCH

T = TypeVar("T")
MINUTE, HOUR = 60.0, 3600.0
NAMES = ("a", "b", "c")
MEMBERS = ("m1", "m2", "m3")
# Longer than the longest pause between two tries, and than a member needs to be known as well again.
CALM = 240.0


@dataclass(frozen=True)
class Rule:
    """A rule that fires at a minute of each hour; its windows have minutes."""

    minute: int
    size: int
    window: int = 0
    at_least: bool = False

    def spec(self) -> dict[str, Any]:
        found: dict[str, Any] = {"name": "r", "schedule": f"{self.minute} * * * *"}
        more = {"duration": f"{self.window}m", "atLeast": self.at_least} if self.window else {}
        return {**found, "targetReplicas": self.size, **more}


@dataclass
class Oracle:
    """The size that should hold: the newest window over what people and plain rules set last."""

    base: int
    at: float
    rules: dict[str, Rule] = field(default_factory=dict)
    begins: dict[str, float] = field(default_factory=dict)
    # The opening of each open window.
    windows: dict[str, float] = field(default_factory=dict)

    def size(self) -> int:
        """The size that the target should have."""
        found = self.base
        for name in sorted(self.windows, key=lambda each: (self.windows[each], each)):
            one = self.rules[name]
            found = max(found, one.size) if one.at_least else one.size
        return found

    def advance(self, now: float) -> None:
        """Lets each minute pass: windows close, plain rules fire, windows open."""
        minute = int(self.at // MINUTE) + 1
        while minute * MINUTE <= now:
            self._pass(minute * MINUTE)
            minute += 1
        self.at = max(self.at, now)
        # After a step back the end of a window comes by the clock.

    def _pass(self, at: float) -> None:
        for name, opened in list(self.windows.items()):
            if at >= opened + self.rules[name].window * MINUTE:
                del self.windows[name]
        fired = [n for n, one in sorted(self.rules.items()) if at % HOUR == one.minute * MINUTE]
        fired = [name for name in fired if at > self.begins[name]]
        for name in fired:
            if not self.rules[name].window:
                self.base = self.rules[name].size
        for name in fired:
            if self.rules[name].window:
                self.windows[name] = at

    def edit(self, name: str, new: Rule | None, now: float) -> None:
        """An object is written: its window stays only if the rule still opens it."""
        old = self.rules.pop(name, None)
        kept = old is not None and new is not None and new.minute == old.minute
        if not kept or new is None or not new.window:
            self.windows.pop(name, None)
        if new is not None:
            self.rules[name] = new
            self.begins[name] = self.begins[name] if kept else now
            if name in self.windows and now >= self.windows[name] + new.window * MINUTE:
                del self.windows[name]

    def person(self, size: int) -> None:
        """Somebody scales: all windows end, and nothing is restored."""
        self.base = size
        self.windows.clear()


rules = st.builds(
    Rule,
    st.sampled_from(range(0, 60, 5)),
    st.integers(0, 12),
    st.sampled_from((0, 0, 7, 20, 75)),
    st.booleans(),
)
FAULTS = (
    ("PUT", "/status", 500),
    ("PUT", "/status", 409),
    ("PATCH", "/status", 403),
    ("PATCH", "/cronfederatedhpas/b", 403),
    ("PUT", "deployment.web/status", 500),
    ("POST", "/scalingrecords", 500),
    ("DELETE", "deployment.web", 500),
    ("GET", "deployment.web", 500),
)


class ChaosOfRules(RuleBasedStateMachine):
    """All times are virtual. Each step leaves the world running."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = looptime.patch_event_loop(asyncio.SelectorEventLoop(), noop_cycles=0)
        self.loop.setup_looptime()
        self.ahead = 0.0
        self.stop_world, self.w = self._hold(lambda: world(m1=1, m2=1, m3=1))
        known = self.w.clock
        self.w.clock = Clock(known.monotonic, lambda: known.wall() + self.ahead, boot=known.boot)
        self.controllers: list[asyncio.Event] = []
        self.oracle = Oracle(3, self.now)
        self._start()

    # -- the world ---------------------------------------------------------------------------------------
    @property
    def now(self) -> float:
        return EPOCH + self.loop.time() + self.ahead

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def _hold(self, context: Callable[[], Any]) -> tuple[asyncio.Event, Any]:
        """Enters a context in a task of its own, and returns what ends it, and its value."""

        async def held(entered: asyncio.Future[Any], end: asyncio.Event) -> None:
            async with context() as value:
                entered.set_result(value)
                await end.wait()

        async def enter() -> tuple[asyncio.Event, Any]:
            entered, end = self.loop.create_future(), asyncio.Event()
            end.task = self.loop.create_task(held(entered, end))  # type: ignore[attr-defined]
            return end, await entered

        return self._run(enter())

    def _end(self, end: Any) -> None:
        async def leave() -> None:
            end.set()
            await end.task

        self._run(leave())

    def _start(self) -> None:
        self.controllers.append(self._hold(lambda: rules_running(self.w))[0])

    def _stop(self) -> None:
        while self.controllers:
            self._end(self.controllers.pop())

    def _pass(self, seconds: float) -> None:
        self._run(asyncio.sleep(seconds))

    def _heal(self) -> None:
        """Ends all faults, and lets the controller catch up."""
        self.w.hub.refused.clear()
        self.w.hub.before = lambda *_: None
        for member in self.w.members.values():
            member.held = set()
            member.refused.clear()
        if not self.controllers:
            self._start()
        self._pass(CALM)
        # Nothing fires while somebody looks.
        if self.now % (5 * MINUTE) > 4 * MINUTE:
            self._pass(2 * MINUTE)
        self.oracle.advance(self.now)

    def _check(self) -> None:
        assert sum(self.w.replicas.values()) == self.oracle.size(), (self.w.replicas, self.oracle)

    # -- steps -------------------------------------------------------------------------------------------
    @rule(minutes=st.integers(1, 50))
    def time_passes(self, minutes: int) -> None:
        self._pass(minutes * MINUTE)

    @rule()
    def look(self) -> None:
        """All is well again, and the size is right."""
        self._heal()
        self._check()

    @rule(name=st.sampled_from(NAMES), new=rules)
    def write(self, name: str, new: Rule) -> None:
        """Somebody creates or edits an object while all is well."""
        self._heal()
        put_rules(self.w, new.spec(), target=DEPLOYMENT, name=name, uid=f"{name}-{self.now}"[:60])
        self.oracle.edit(name, new, self.now)
        self._pass(10)

    @precondition(lambda self: self.oracle.rules)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        """Somebody deletes an object while all is well. Its window closes first."""
        self._heal()
        name = data.draw(st.sampled_from(sorted(self.oracle.rules)))
        delete_rules(self.w, name)
        self.oracle.edit(name, None, self.now)
        self._pass(CALM)
        stored = self.w.hub.find(CRONS, name, NAMESPACE)
        assert stored is not None
        assert not stored["metadata"].get("finalizers")
        self.w.hub.remove(CRONS, name, NAMESPACE)
        self._pass(5)

    @rule(member=st.sampled_from(MEMBERS), size=st.integers(0, 9))
    def scale(self, member: str, size: int) -> None:
        """A person scales the workload of one member while all is well."""
        self._heal()
        if self.w.members[member].replicas() == size:
            return
        self.w.members[member].deploy(size)
        self.oracle.person(sum(self.w.replicas.values()))
        self._pass(55)
        self.oracle.advance(self.now)

    @rule(minutes=st.integers(0, 90))
    def away(self, minutes: int) -> None:
        """No controller runs for some time."""
        self._stop()
        self._pass(minutes * MINUTE)
        self._start()

    @rule(last=st.integers(0, 12), minutes=st.integers(1, 65))
    def dies(self, last: int, minutes: int) -> None:
        """The controller cannot write any more after some writes, and another one takes over."""
        left = [last]

        def count(method: str, path: str) -> None:
            if method != "GET" and "/events" not in path:
                left[0] -= 1
                if left[0] == -1:
                    for plane in (self.w.hub, *self.w.members.values()):
                        plane.refused |= {(each, ""): 500 for each in ("POST", "PUT", "PATCH", "DELETE")}

        for plane in (self.w.hub, *self.w.members.values()):
            plane.before = count
        self._pass(minutes * MINUTE)
        self._stop()
        for plane in (self.w.hub, *self.w.members.values()):
            plane.before = lambda *_: None
            for each in ("POST", "PUT", "PATCH", "DELETE"):
                plane.refused.pop((each, ""), None)
        self._start()

    @rule(fault=st.sampled_from(FAULTS), minutes=st.integers(1, 70))
    def refuses(self, fault: tuple[str, str, int], minutes: int) -> None:
        """The hub refuses some requests for a time."""
        method, path, code = fault
        self.w.hub.refused[method, path] = code
        self._pass(minutes * MINUTE)
        self.w.hub.refused.pop((method, path), None)

    @rule(member=st.sampled_from(MEMBERS), minutes=st.integers(1, 60), restart=st.booleans())
    def silence(self, member: str, minutes: int, restart: bool) -> None:  # by hypothesis
        """A member does not answer about its scale for some time, and maybe the controller restarts."""
        self.w.members[member].held = {("GET", "/scale"), ("PUT", "/scale")}
        if restart:
            self._stop()
            self._start()
        self._pass(minutes * MINUTE)
        self.w.members[member].held = set()

    @rule(minutes=st.integers(2, 100))
    def clock_is_ahead(self, minutes: int) -> None:
        """The wall clock is stepped forward, and stays."""
        self.ahead += minutes * MINUTE

    @rule(minutes=st.integers(1, 20))
    def two_lead(self, minutes: int) -> None:
        """For some time two controllers run."""
        self._start()
        self._pass(minutes * MINUTE)
        while len(self.controllers) > 1:
            self._end(self.controllers.pop(0))

    def teardown(self) -> None:
        try:
            self._heal()
            self._check()
        finally:
            self._stop()
            self._end(self.stop_world)
            self.loop.close()


@pytest.mark.parametrize("many", [pytest.param(examples(2, 100), marks=NIGHT)])
def test_the_size_is_right_whatever_happened(many: int) -> None:
    """Ten minutes of it at night."""
    found = settings(
        max_examples=many,
        stateful_step_count=12,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    run_state_machine_as_test(ChaosOfRules, settings=found)
