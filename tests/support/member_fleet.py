"""A small model of members with HPAs of their own, for passes of mode Distributed in random worlds.

Time goes in steps of 15 s: load moves, pods start, each HPA syncs, and the hub makes a pass.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from fedhpa.assignment import Bounds, Member, Outcome, Plan, Previous, Result, Rules, plan

STEP = 15.0
START = 30.0
WINDOW = 300.0
TARGET = 0.5


@dataclass
class Site:
    """A member cluster: its HPA, the times at which its pods are ready, and what befell it."""

    name: str
    share: float = 0.0
    nodes: int = 1000
    hpa: Bounds | None = None
    pods: list[float] = field(default_factory=list)
    recommended: list[tuple[float, int]] = field(default_factory=list)
    limited_since: float | None = None
    stuck_since: float | None = None
    alive: bool = True
    heard: bool = True
    missing_since: float | None = None
    membership: str = ""
    load: float = 0.0
    priority: int = 0

    def ready(self, now: float) -> int:
        """The pods that serve."""
        return sum(at <= now for at in self.pods[: self.nodes])

    def usage(self, now: float) -> Fraction:
        """The replicas that would keep the usage exactly at target: pods serve at most their request."""
        ready = self.ready(now)
        return (
            Fraction(min(self.load / TARGET, ready / TARGET)).limit_denominator(1000)
            if ready
            else Fraction(0)
        )

    def scale(self, replicas: int, now: float) -> None:
        """Starts or stops pods, those that are not ready first."""
        self.pods.sort()
        while len(self.pods) > replicas:
            self.pods.pop()
        while len(self.pods) < replicas:
            self.pods.append(now + START)

    def sync(self, now: float) -> None:
        """One sync of the HPA: tolerance, window, limits and bounds as in Kubernetes."""
        if self.hpa is None or not self.pods:
            return
        wanted, running = self.usage(now), len(self.pods)
        ratio = float(wanted) / max(self.ready(now), 1)
        desired = running if abs(ratio - 1) <= 0.1 else math.ceil(wanted)
        if ratio > 1 and self.ready(now) < running:
            desired = max(running, desired)
        self.recommended = [(at, n) for at, n in self.recommended if now - at < WINDOW] + [(now, desired)]
        desired = max(n for _, n in self.recommended)
        desired = min(desired, max(2 * running, running + 4))
        limited = desired > self.hpa.maximum
        self.limited_since = (self.limited_since or now) if limited else None
        self.scale(min(max(desired, self.hpa.minimum), self.hpa.maximum), now)


class World:
    """Sites, a load, and a hub that makes passes. `check` sees each plan before its writes."""

    def __init__(
        self, rules: Rules, sites: list[Site], load: Callable[[float], float], seed: int = 0
    ) -> None:
        self.rules, self.sites, self.demand = rules, sites, load
        self.chance = random.Random(seed)
        self.now = 1_800_000_000.0
        self.began = self.now
        self.previous = Previous(states={})
        self.unserved = self.asked_for = self.pod_seconds = 0.0
        self.writes = 0
        self.failing = 0.0
        self.last_write = self.now
        self.states: dict[str, str] = {}
        self.check: Callable[[World, list[Member], Plan], None] = lambda *_: None

    def member(self, site: Site) -> Member:
        """The site as a hub reads it."""
        state = self.previous.states.get(site.name)
        missing = 0.0 if site.missing_since is None else self.now - site.missing_since
        ready, running = site.ready(self.now), len(site.pods)
        full = site.hpa is not None and running >= site.hpa.maximum
        usage = site.usage(self.now)
        pinned = full and site.limited_since is not None and usage > running and site.heard
        return Member(
            cluster=site.name,
            minimum=None if state is None else state.minimum,
            maximum=(0 if state is None else state.maximum or 0),
            written=site.hpa if site.heard else None if state is None else state.bounds,
            running=running,
            ready=ready,
            load=usage if site.heard else None,
            pinned_for=self.now - (site.limited_since or self.now) if pinned else None,
            priority=site.priority,
            membership="Stuck" if site.stuck_since is not None and not site.membership else site.membership,
            answers=site.heard,
            missing_for=missing,
            lost=missing >= 300,
            back=site.heard and self.states.get(site.name) == "missing",
            was_stuck=self.states.get(site.name) == "stuck",
        )

    def step(self) -> None:
        """One step of 15 s."""
        self.now += STEP
        total = self.demand(self.now - self.began)
        serving = sum(site.ready(self.now) for site in self.sites if site.alive)
        tied = any(site.share for site in self.sites)
        for site in self.sites:
            part = site.share if tied else site.ready(self.now) / serving if serving else 0.0
            site.load = total * part if site.alive else 0.0
            served = min(site.load, site.ready(self.now))
            self.unserved += (site.load - served) * STEP
            self._watch(site)
        if not serving:
            self.unserved += total * STEP
        self.asked_for += total * STEP
        self.pod_seconds += sum(len(site.pods) for site in self.sites if site.alive) * STEP
        for site in self.sites:
            if site.alive:
                site.sync(self.now)
        self._hub()

    def _watch(self, site: Site) -> None:
        waits = site.alive and len(site.pods) > site.nodes
        others = any(
            each is not site and each.alive and len(each.pods) <= each.nodes and each.stuck_since is None
            for each in self.sites
        )
        if not waits:
            site.stuck_since = None
        elif (
            site.stuck_since is None
            and others
            and min(self.now - at + START for at in site.pods[site.nodes :]) >= 180
        ):
            site.stuck_since = self.now
        if site.heard and site.alive:
            site.missing_since = None
        elif site.missing_since is None:
            site.missing_since = self.now

    def _hub(self) -> None:
        members = [self.member(site) for site in self.sites]
        chosen = "".join(sorted(one.cluster for one in members if not one.leaving))
        made = plan(replace(self.rules, assigned_for=chosen), members, self.previous, self.now)
        self.check(self, members, made)
        outcomes: list[Outcome] = []
        named = {site.name: site for site in self.sites}
        while batch := made.next_writes(outcomes):
            for write in batch:
                result = Result.CONFIRMED
                if self.chance.random() < self.failing:
                    result = self.chance.choice((Result.REFUSED, Result.UNKNOWN))
                if result is not Result.REFUSED:
                    named[write.cluster].hpa = write.after
                    self.writes += 1
                    self.last_write = self.now
                outcomes.append(Outcome(write=write, result=result))
        for name, replicas in made.scales.items():
            named[name].scale(replicas, self.now)
        self.previous = made.after(outcomes)
        self.states = {
            one.cluster: "stuck" if one.stuck else "" if one.answers else "missing" for one in members
        }

    def run(self, seconds: float) -> None:
        """Lets time pass."""
        for _ in range(int(seconds / STEP)):
            self.step()

    def cut(self, name: str, *, alive: bool = False) -> None:
        """A cluster dies, or is only away from the hub."""
        site = next(site for site in self.sites if site.name == name)
        site.heard, site.alive = False, alive

    def back(self, name: str) -> None:
        """It answers again, with the pods that it had."""
        site = next(site for site in self.sites if site.name == name)
        site.heard = site.alive = True


def maxima(sites: list[Site]) -> Mapping[str, int]:
    """The maxima in the members."""
    return {site.name: 0 if site.hpa is None else site.hpa.maximum for site in sites}
