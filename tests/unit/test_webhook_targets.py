"""Whether a target is there is found out without holding anybody up: in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.support.memory_api import MemoryApi
from webhook.owners import Target
from webhook.targets import (
    CALL_SECONDS,
    FOUND_SECONDS,
    MAX_CALLS,
    MAX_KINDS,
    MAX_REMEMBERED,
    MISSING_SECONDS,
    PATIENCE_SECONDS,
    QUIET_SECONDS,
    Targets,
)

APPS = "/apis/apps/v1"
MISSING = 'Deployment "web" does not exist in namespace "shop"'

pytestmark = pytest.mark.looptime


def deployment(name: str = "web") -> Target:
    return Target("shop", "apps", "Deployment", name)


def api_with(*names: str) -> MemoryApi:
    """A hub that serves Deployments, with a scale, and ConfigMaps, without."""
    api = MemoryApi()
    api.objects[APPS] = {
        "resources": [
            {"name": "deployments", "kind": "Deployment", "namespaced": True},
            {"name": "deployments/scale", "kind": "Scale", "namespaced": True},
            {"name": "daemonsets", "kind": "DaemonSet", "namespaced": True},
        ]
    }
    for name in names:
        api.objects[scale(name)] = {"spec": {"replicas": 1}}
    return api


def scale(name: str) -> str:
    return f"{APPS}/namespaces/shop/deployments/{name}/scale"


@asynccontextmanager
async def looking(api: MemoryApi) -> AsyncIterator[Targets]:
    targets = Targets(api, clock=asyncio.get_running_loop().time)
    task = asyncio.create_task(targets.run())
    await asyncio.sleep(0)
    try:
        yield targets
    finally:
        task.cancel()
        await asyncio.wait([task])


def elapsed(since: float) -> float:
    return asyncio.get_running_loop().time() - since


async def test_a_target_that_is_there_is_no_problem_and_asked_for_once() -> None:
    """The second look within ten seconds makes no call."""
    api = api_with("web")
    async with looking(api) as targets:
        first = await targets.problem(deployment(), "apps/v1")
        calls = len(api.calls)
        second = await targets.problem(deployment(), "apps/v1")
        unchanged = len(api.calls)
        await asyncio.sleep(FOUND_SECONDS + 0.1)
        await targets.problem(deployment(), "apps/v1")

    assert (first, second) == (None, None)
    assert calls == unchanged
    assert api.calls[-1] == ("GET", scale("web"))
    assert len(api.calls) == calls + 1


async def test_a_target_that_is_missing_is_noticed_soon_when_it_comes() -> None:
    """What is missing is about to be created: that it is not there is remembered for a second."""
    api = api_with()
    async with looking(api) as targets:
        before = await targets.problem(deployment(), "apps/v1")
        api.objects[scale("web")] = {"spec": {"replicas": 1}}
        await asyncio.sleep(MISSING_SECONDS + 0.1)
        after = await targets.problem(deployment(), "apps/v1")

    assert before == MISSING
    assert after is None


@pytest.mark.parametrize(
    ("target", "api_version", "expected"),
    [
        (Target("shop", "apps", "DaemonSet", "web"), "apps/v1", "DaemonSet has no scale subresource"),
        (Target("shop", "apps", "Deploymnt", "web"), "apps/v1", 'serves no kind "Deploymnt" of "apps/v1"'),
        (Target("shop", "no.such", "Thing", "web"), "no.such/v1", 'serves no kind "Thing" of "no.such/v1"'),
    ],
)
async def test_a_target_that_cannot_be_scaled_is_told(
    target: Target, api_version: str, expected: str
) -> None:
    """A kind that is not served, or has no scale, is the target's problem as much as its absence."""
    async with looking(api_with()) as targets:
        problem = await targets.problem(target, api_version)

    assert problem is not None
    assert expected in problem


@pytest.mark.parametrize("api_version", ["", "x" * 254])
async def test_what_names_no_kind_is_not_asked_about(api_version: str) -> None:
    """Nothing is sent for a version that no server could know."""
    api = api_with()
    async with looking(api) as targets:
        problem = await targets.problem(deployment(), api_version)

    assert problem is None
    assert api.calls == []


async def test_a_hub_that_hangs_costs_a_moment_once() -> None:
    """The first look waits as long as patience lasts, others not at all; later one is patient again."""
    api = api_with("web")
    api.hang = True
    async with looking(api) as targets:
        start = asyncio.get_running_loop().time()
        assert await targets.problem(deployment(), "apps/v1") is None
        first = elapsed(start)
        for number in range(20):
            assert await targets.problem(deployment(f"web-{number}"), "apps/v1") is None
        others = elapsed(start) - first
        await asyncio.sleep(QUIET_SECONDS + CALL_SECONDS)
        api.hang = False
        api.objects.pop(scale("web"))
        later = await targets.problem(deployment(), "apps/v1")

    assert first == pytest.approx(PATIENCE_SECONDS)
    assert others == 0
    assert later == MISSING


async def test_a_late_answer_serves_the_next() -> None:
    """A hub that takes half a second is not waited for, but what it says is kept."""
    api = api_with()
    slow = asyncio.Event()
    ask = api.request

    async def late(*arguments: object, **more: object) -> object:
        await slow.wait()
        return await ask(*arguments, **more)  # type: ignore[arg-type]  # passed on as they came

    api.request = late  # type: ignore[assignment, method-assign]  # a hub that is slow
    async with looking(api) as targets:
        first = await targets.problem(deployment(), "apps/v1")
        await asyncio.sleep(0.5)
        slow.set()
        await asyncio.sleep(0.1)
        second = await targets.problem(deployment(), "apps/v1")

    assert first is None
    assert second == MISSING


@pytest.mark.parametrize("status", [403, 500, 503])
async def test_a_hub_that_refuses_says_nothing_about_the_target(status: int) -> None:
    """Without the right to look, or while the hub is out of order, there is no warning."""
    api = api_with()
    async with looking(api) as targets:
        await targets.problem(deployment("other"), "apps/v1")
        api.fail = status
        problem = await targets.problem(deployment(), "apps/v1")

    assert problem is None


async def test_an_old_answer_is_not_repeated_while_the_hub_fails() -> None:
    """That a target was missing is no longer known once that answer has expired."""
    api = api_with()
    async with looking(api) as targets:
        before = await targets.problem(deployment(), "apps/v1")
        api.fail = 500
        await asyncio.sleep(MISSING_SECONDS + 0.1)
        after = await targets.problem(deployment(), "apps/v1")

    assert before == MISSING
    assert after is None


async def test_many_targets_make_few_calls_and_fill_no_memory() -> None:
    """However many a tenant names, the calls in flight and what is remembered are bounded."""
    api = api_with()
    api.hang = True
    async with looking(api) as targets:
        async with asyncio.TaskGroup() as group:
            for number in range(200):
                group.create_task(targets.problem(deployment(f"web-{number}"), "apps/v1"))
        in_flight = len(api.calls)
        api.hang = False
        await asyncio.sleep(QUIET_SECONDS + CALL_SECONDS)
        for number in range(MAX_REMEMBERED + MAX_KINDS):
            await targets.problem(deployment(f"web-{number}"), f"group-{number}/v1")

    assert in_flight == MAX_CALLS
    assert len(targets._answers) == MAX_REMEMBERED
    assert len(targets._kinds) <= MAX_KINDS
    assert len(targets._mapper._known) <= MAX_KINDS


async def test_another_hub_is_asked_anew() -> None:
    """What the last one said is not held against a kubeconfig that was replaced."""
    api = api_with()
    async with looking(api) as targets:
        await targets.problem(deployment(), "apps/v1")
        api.objects[scale("web")] = {"spec": {"replicas": 1}}
        await api.use(api.config)

        assert await targets.problem(deployment(), "apps/v1") is None


async def test_nothing_is_asked_unless_it_runs() -> None:
    """Before it runs, and after, there is no answer and no call."""
    api = api_with()
    targets = Targets(api, clock=asyncio.get_running_loop().time)

    assert await targets.problem(deployment(), "apps/v1") is None
    assert api.calls == []
