"""Targets are looked up without delaying admission: in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from fedhpa.api.autoscalers import Target
from fedhpa.kube.resources import MAX_KINDS
from tests.support.memory_api import MemoryApi
from webhook.targets import (
    CALL_SECONDS,
    FOUND_SECONDS,
    MAX_CACHED,
    MAX_CALLS,
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
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "resources": [
            {"name": "deployments", "kind": "Deployment", "namespaced": True},
            {"name": "deployments/scale", "kind": "Scale", "namespaced": True},
            {"name": "daemonsets", "kind": "DaemonSet", "namespaced": True},
        ],
    }
    for name in names:
        api.objects[scale(name)] = {"kind": "Scale", "apiVersion": "autoscaling/v1", "spec": {"replicas": 1}}
    return api


def scale(name: str) -> str:
    return f"{APPS}/namespaces/shop/deployments/{name}/scale"


@asynccontextmanager
async def targets_of(api: MemoryApi) -> AsyncIterator[Targets]:
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


async def test_an_existing_target_is_no_problem_and_is_cached() -> None:
    """A second look-up within ten seconds makes no call."""
    api = api_with("web")
    async with targets_of(api) as targets:
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


async def test_a_missing_target_is_cached_briefly() -> None:
    """A missing target is often created moments later, so the answer is cached for one second."""
    api = api_with()
    async with targets_of(api) as targets:
        before = await targets.problem(deployment(), "apps/v1")
        api.objects[scale("web")] = {"kind": "Scale", "apiVersion": "autoscaling/v1", "spec": {"replicas": 1}}
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
async def test_a_target_that_cannot_be_scaled_is_a_problem(
    target: Target, api_version: str, expected: str
) -> None:
    """A kind that is not served or has no scale subresource is a problem, too."""
    async with targets_of(api_with()) as targets:
        problem = await targets.problem(target, api_version)

    assert problem is not None
    assert expected in problem


@pytest.mark.parametrize("api_version", ["", "x" * 254])
async def test_an_invalid_api_version_is_not_looked_up(api_version: str) -> None:
    """No call is made for a version that no server can serve."""
    api = api_with()
    async with targets_of(api) as targets:
        problem = await targets.problem(deployment(), api_version)

    assert problem is None
    assert api.calls == []


async def test_a_hub_that_hangs_costs_a_moment_once() -> None:
    """The first look-up waits for PATIENCE_SECONDS, and others do not wait. Later one waits again."""
    api = api_with("web")
    api.hang = True
    async with targets_of(api) as targets:
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


async def test_a_late_answer_serves_the_next_request() -> None:
    """The request does not wait for a hub that takes half a second, but the answer is cached."""
    api = api_with()
    slow = asyncio.Event()
    ask = api.request

    async def late(*arguments: object, **more: object) -> object:
        await slow.wait()
        return await ask(*arguments, **more)  # type: ignore[arg-type]  # passed on as they came

    api.request = late  # type: ignore[assignment, method-assign]  # a hub that is slow
    async with targets_of(api) as targets:
        first = await targets.problem(deployment(), "apps/v1")
        await asyncio.sleep(0.5)
        slow.set()
        await asyncio.sleep(0.1)
        second = await targets.problem(deployment(), "apps/v1")

    assert first is None
    assert second == MISSING


@pytest.mark.parametrize("status", [403, 500, 503])
async def test_a_refusal_of_the_hub_is_no_problem(status: int) -> None:
    """Missing permissions or errors of the hub give no warning."""
    api = api_with()
    async with targets_of(api) as targets:
        await targets.problem(deployment("other"), "apps/v1")
        api.fail = status
        problem = await targets.problem(deployment(), "apps/v1")

    assert problem is None


async def test_an_expired_answer_is_not_used_while_the_hub_fails() -> None:
    """A problem is no longer reported once its answer has expired."""
    api = api_with()
    async with targets_of(api) as targets:
        before = await targets.problem(deployment(), "apps/v1")
        api.fail = 500
        await asyncio.sleep(MISSING_SECONDS + 0.1)
        after = await targets.problem(deployment(), "apps/v1")

    assert before == MISSING
    assert after is None


async def test_calls_and_memory_are_bounded() -> None:
    """The calls in flight and the cached answers are bounded, whatever number of targets a tenant names."""
    api = api_with()
    api.hang = True
    async with targets_of(api) as targets:
        async with asyncio.TaskGroup() as group:
            for number in range(200):
                group.create_task(targets.problem(deployment(f"web-{number}"), "apps/v1"))
        in_flight = len(api.calls)
        api.hang = False
        await asyncio.sleep(QUIET_SECONDS + CALL_SECONDS)
        for number in range(MAX_CACHED + MAX_KINDS):
            await targets.problem(deployment(f"web-{number}"), f"group-{number}/v1")

    assert in_flight == MAX_CALLS
    assert len(targets._answers) == MAX_CACHED
    assert len(targets._mapper._known) <= MAX_KINDS


async def test_another_hub_is_looked_up_again() -> None:
    """Cached answers are dropped when the kubeconfig is replaced."""
    api = api_with()
    async with targets_of(api) as targets:
        await targets.problem(deployment(), "apps/v1")
        api.objects[scale("web")] = {"kind": "Scale", "apiVersion": "autoscaling/v1", "spec": {"replicas": 1}}
        await api.use(api.config)

        assert await targets.problem(deployment(), "apps/v1") is None


async def test_no_call_is_made_unless_it_runs() -> None:
    """Without `run` there is no answer and no call."""
    api = api_with()
    targets = Targets(api, clock=asyncio.get_running_loop().time)

    assert await targets.problem(deployment(), "apps/v1") is None
    assert api.calls == []
