"""Passes of mode Distributed in random worlds: the invariants hold in order, and a quiet world rests."""

from __future__ import annotations

import math
import random
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from fedhpa.api.assignment_policies import AGGREGATED, EQUAL, PRIORITIZED, STATIC_WEIGHTED
from fedhpa.assignment import Member, Plan, Rules
from tests.support.member_fleet import Site, World
from tests.support.nightly import examples

MINUTE = 60.0
SETTLES = 30 * MINUTE


def check(world: World, members: list[Member], made: Plan) -> None:
    """I3 and I1 in one pass, by what it read."""
    total = world.previous.assigned_for.partition("/")[2]
    lowered = bool(total) and int(total) != world.rules.maximum
    surplus = (world.previous.course.step_at or world.now + 1) <= world.now
    answering = [one for one in members if one.answers]
    for one in answering:
        goal = made.goals[one.cluster]
        keeps = min(one.serving, one.ready)
        if one.pinned_for is None and one.wanted is not None:
            keeps = min(keeps, one.wanted + 2)
        if not (one.leaving or lowered or surplus or one.minimum == 0):
            assert (0 if goal is None else goal.maximum) >= keeps, (one, goal)
    assigned = sum(goal.maximum for one in answering if (goal := made.goals[one.cluster]) is not None)
    runs = sum(one.serving + one.stuck for one in answering)
    needs = sum(max(one.need or 0, one.serving, one.minimum or 0, 1) for one in answering)
    away = any(not one.answers and not one.lost for one in members)
    step = max(world.rules.maximum // 10, 1)
    assert assigned <= max(world.rules.maximum + step, runs + len(answering), needs if away else 0)


def random_world(seed: int) -> World:
    """Two to four clusters with shared or tied load, some of them with few nodes."""
    chance = random.Random(seed)
    count = chance.randrange(2, 5)
    tied = chance.random() < 0.4
    sites = [
        Site(
            f"m{number}",
            share=1 / count if tied else 0.0,
            nodes=chance.choice((1000, 1000, 5, 10)),
            priority=chance.randrange(3),
        )
        for number in range(count)
    ]
    low, high, period = chance.uniform(0.5, 3), chance.uniform(3, 11), chance.choice((1200, 2400, 4800))
    policy = chance.choice((EQUAL, STATIC_WEIGHTED, AGGREGATED, PRIORITIZED))
    rules = Rules(minimum=count, maximum=30, policy=policy, uid=str(seed))
    world = World(
        rules,
        sites,
        lambda at: low + (high - low) * (1 - math.cos(2 * math.pi * min(at, 5400) / period)) / 2,
        seed,
    )
    world.check = check
    return world


def disturb(world: World) -> None:
    """One thing that happens in an hour."""
    chance, site = world.chance, world.chance.choice(world.sites)
    kind = chance.randrange(6)
    if kind == 0:
        world.cut(site.name, alive=chance.random() < 0.5)
    elif kind == 1:
        for each in world.sites:
            world.back(each.name)
    elif kind == 2:
        world.rules = replace(world.rules, maximum=chance.choice((20, 30, 40)))
    elif kind == 3:
        site.membership = chance.choice(("Leaving", "Cordoned"))
    elif kind == 4:
        site.membership = ""
    else:
        world.failing = chance.choice((0.0, 0.3))
    if all(each.membership for each in world.sites):
        site.membership = ""


@given(st.integers(0, 2**32))
@settings(max_examples=examples(15, 1_500), deadline=None)
def test_the_invariants_hold_and_a_quiet_world_rests(seed: int) -> None:
    """An hour and a half of disturbances, then nothing happens any more."""
    world = random_world(seed)
    for _ in range(18):
        world.run(5 * MINUTE)
        disturb(world)
    for site in world.sites:
        world.back(site.name)
        site.membership = ""
    world.failing = 0.0
    world.run(SETTLES)
    before = world.writes
    world.run(SETTLES)

    assert world.writes - before <= 2
