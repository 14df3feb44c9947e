"""An error in a task of one member does not stop reads of the others; the object is decided on and scaled."""

from __future__ import annotations

import asyncio
import functools
import inspect
import random
from collections.abc import Callable
from typing import Any

import pytest

from controller.federatedhpa import metric_reader
from controller.federatedhpa.capacity import NodeCapacity
from controller.federatedhpa.competition import CompetingAutoscalers
from controller.flags import HUB
from fedhpa.api.errors import InvalidObject
from fedhpa.kube.resources import ResourceMapper
from fedhpa.members import metrics
from fedhpa.members.client import MemberClient
from fedhpa.members.lists import SharedLists
from fedhpa.members.watches import PodCache, ScaleCache
from tests.support.controller import ControllerWorld, reconciliations, world
from tests.support.fakeapi import eventually
from tests.support.nightly import examples

pytestmark = pytest.mark.looptime(noop_cycles=0)

BAD = "m2"
# A first list of pods may take ten seconds.
FIRST_LIST = 30.0
# Each place where a reconcile takes something from a member: the owner of the function, and its name.
PLACES: list[tuple[Any, str]] = [
    (ScaleCache, "cached"),
    (ScaleCache, "read"),
    (PodCache, "of_available"),
    (PodCache, "reflector"),
    (SharedLists, "fresh"),
    (SharedLists, "get"),
    (ResourceMapper, "resolve"),
    (metrics, "custom_version"),
    (metric_reader, "_own_samples"),
    (CompetingAutoscalers, "_refresh"),
    (NodeCapacity, "_read"),
    (MemberClient, "list"),
    (MemberClient, "get"),
    (MemberClient, "put"),
]
RAISED: list[Callable[[], BaseException]] = [
    lambda: KeyError("replicas"),
    lambda: RecursionError("maximum recursion depth exceeded"),
    lambda: OverflowError("int too large to convert to float"),
    lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    lambda: InvalidObject("spec is odd"),
    lambda: TimeoutError(),
    lambda: OSError(24, "Too many open files"),
    lambda: ExceptionGroup("several", [ValueError("a"), TypeError("b")]),
    # Another task cancelled what this one waited for.
    lambda: asyncio.CancelledError(),
]
PODS_METRIC = {
    "type": "Pods",
    "pods": {"metric": {"name": "hits"}, "target": {"type": "AverageValue", "averageValue": "1"}},
}
BOTH: dict[str, Any] = {"clusterAffinity": {"clusterNames": ["m1", BAD]}}


def concerns(arguments: tuple[Any, ...]) -> bool:
    """True if a call is about the bad member."""
    for one in arguments:
        names = (one, getattr(one, "name", ""), getattr(getattr(one, "config", None), "name", ""))
        if BAD in names or getattr(getattr(one, "member", None), "name", "") == BAD:
            return True
    return False


def sabotage(
    monkeypatch: pytest.MonkeyPatch,
    place: tuple[Any, str],
    error: Callable[[], BaseException],
    fails: Callable[[], bool] = lambda: True,
) -> list[str]:
    """Let calls about the bad member raise; returns the list of those that did."""
    owner, name = place
    original, raised = getattr(owner, name), list[str]()
    is_async = inspect.iscoroutinefunction(original)

    def check(arguments: tuple[Any, ...]) -> None:
        if concerns(arguments) and fails():
            raised.append(name)
            cause = error()
            # Only what is awaited can have been cancelled.
            raise cause if is_async or isinstance(cause, Exception) else ValueError(name)

    @functools.wraps(original)
    async def later(*arguments: Any, **named: Any) -> Any:
        check(arguments)
        return await original(*arguments, **named)

    @functools.wraps(original)
    def now(*arguments: Any, **named: Any) -> Any:
        check(arguments)
        return original(*arguments, **named)

    monkeypatch.setattr(owner, name, later if is_async else now)
    return raised


async def good_member_is_scaled(w: ControllerWorld, **settings: Any) -> None:
    """Six times the wanted load: the good member grows, the status is written, and the series move."""
    w.load(1200)
    async with w.controller(**settings) as controller:
        await eventually(lambda: w.replicas["m1"] > 2, FIRST_LIST)
        await eventually(lambda: w.status().get("desiredReplicas"))
        before = reconciliations(controller)
        await eventually(lambda: reconciliations(controller) >= before + 3)

        assert not controller.task.done()


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place[1])
@pytest.mark.parametrize("number", range(3))
async def test_exception_of_one_member_costs_only_that_member(
    monkeypatch: pytest.MonkeyPatch, place: tuple[Any, str], number: int
) -> None:
    """A task of one member that always raises stops no decision."""
    error = RAISED[(PLACES.index(place) * 3 + number) % len(RAISED)]
    async with world(m1=2, m2=2) as w:
        raised = sabotage(monkeypatch, place, error)
        w.scale(**BOTH)
        if place[1] in ("resolve", "custom_version", "_own_samples"):
            w.scale(metrics=[*w_metrics(), PODS_METRIC], **BOTH)
        await good_member_is_scaled(w)

        assert raised or place[1] in ("_own_samples", "resolve", "_read", "get")


def w_metrics() -> list[Any]:
    resource = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
    return [{"type": "Resource", "resource": resource}]


@pytest.mark.parametrize("seed", range(examples(3, 2000)))
async def test_exceptions_at_random_places_and_times_cost_only_that_member(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Errors in calls of one member do not stop scaling of the other. All are complete again afterwards."""
    chance = random.Random(seed)
    healed = False

    def fails(share: float) -> bool:
        return not healed and chance.random() < share

    async with world(m1=2, m2=2) as w:
        for place in chance.sample(PLACES, 4):
            error, share = chance.choice(RAISED), chance.choice((0.2, 0.5, 1.0))
            sabotage(monkeypatch, place, error, functools.partial(fails, share))
        w.scale(**BOTH)
        w.load(600)
        async with w.controller() as controller:
            await eventually(lambda: w.replicas["m1"] > 2, FIRST_LIST)
            before = reconciliations(controller)
            await eventually(lambda: reconciliations(controller) >= before + 3)
            healed = True
            await eventually(lambda: w.condition("MetricsComplete")[0] == "True", 60)
            await eventually(lambda: sum(w.replicas.values()) == 12, 60)

            assert not controller.task.done()


async def test_missing_member_is_named_with_the_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    """The condition names the member and what its task raised."""
    async with world(m1=2, m2=2) as w:
        sabotage(monkeypatch, (PodCache, "of_available"), lambda: KeyError("replicas"))
        w.scale(**BOTH)
        async with w.controller():
            await eventually(lambda: w.condition("MetricsComplete")[0] == "False")

        assert "m2: internal error: KeyError: 'replicas'" in w.condition("MetricsComplete")[2]
        assert w.state(BAD) == "Missing"


async def test_exception_in_the_hubs_metrics_stops_no_reconcile(monkeypatch: pytest.MonkeyPatch) -> None:
    """With --metrics-via=hub an exception while its answer is read becomes the clusters' reason."""
    async with world(m1=2, m2=2) as w:
        original = SharedLists.get

        async def broken(*arguments: Any, **named: Any) -> Any:
            if getattr(arguments[1], "name", "") == "hub":
                raise KeyError("items")
            return await original(*arguments, **named)

        monkeypatch.setattr(SharedLists, "get", broken)
        w.scale(**BOTH)
        async with w.controller(metrics_via=HUB) as controller:
            await eventually(lambda: w.condition("MetricsComplete")[0] == "False")
            await w.reconciles(controller)

        assert "internal error: KeyError: 'items'" in w.condition("MetricsComplete")[2]
