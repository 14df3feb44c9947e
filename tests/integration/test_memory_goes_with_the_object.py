"""The memory of an object is one value, so nothing of it is left once the object is gone."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from types import BuiltinFunctionType, CoroutineType, FunctionType, MethodType, ModuleType
from typing import Any

import pytest

from controller.cronfederatedhpa.reconciler import CronReconciler
from controller.federatedhpa.reconciler import FederatedHPAReconciler
from fedhpa.api.times import format_time
from fedhpa.kube import Key
from tests.support.controller import HPAS, NAMESPACE, ControllerWorld, federated_hpa, world
from tests.support.rules import CRONS, put_rules, rule_up, rules_running, window

pytestmark = pytest.mark.looptime(noop_cycles=0)

KEY: Key = (NAMESPACE, "only")
# Not followed: code, and the running loop, whose local variables are about the last change of any object.
LEFT_OUT = (type, ModuleType, BuiltinFunctionType, CoroutineType, asyncio.BaseEventLoop, asyncio.Task)


def referents(one: object) -> list[Any]:
    """The objects that another one holds, without the globals of a function, which modules hold."""
    if isinstance(one, LEFT_OUT):
        return []
    if isinstance(one, FunctionType):
        return [cell.cell_contents for cell in one.__closure__ or ()] + list(one.__defaults__ or ())
    if isinstance(one, MethodType):
        return [one.__self__, one.__func__]
    return gc.get_referents(one)


def holders(root: object, key: Key) -> list[str]:
    """By which objects `root` holds the key of an object, or a tuple that begins with it."""
    holder: dict[int, object] = {id(root): None}
    seen, left, found = [root], [root], list[str]()
    while left:
        one = left.pop()
        if isinstance(one, tuple) and one[: len(key)] == key:
            chain, at = list[str](), holder[id(one)]
            while at is not None:
                chain.append(type(at).__name__)
                at = holder[id(at)]
            found.append(" < ".join(chain))
        for each in referents(one):
            if id(each) not in holder:
                holder[id(each)] = one
                seen.append(each)  # while it lives, nothing else has its id
                left.append(each)
    return found


def captured(kind: type[Any], monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The objects of a class that are made from now on."""
    found: list[Any] = []
    init = kind.__init__

    def noted(self: Any, *arguments: Any, **named: Any) -> None:
        found.append(self)
        init(self, *arguments, **named)

    monkeypatch.setattr(kind, "__init__", noted)
    return found


def put(w: ControllerWorld, **metadata: Any) -> None:
    hpa = federated_hpa("only")
    w.hub.put(HPAS, {**hpa, "metadata": {**hpa["metadata"], **metadata}})


def scaled(w: ControllerWorld) -> None:
    """An object that is scaled, and whose status and record are written."""
    w.load(900)
    put(w)


def refused(w: ControllerWorld) -> None:
    """An object that is held, because its mode is unknown."""
    hpa = federated_hpa("only", mode="Sideways")
    w.hub.put(HPAS, hpa)


def unwritten(w: ControllerWorld) -> None:
    """An object whose status and record the hub refuses."""
    w.hub.refused["PUT", "/status"] = 403
    put(w)


def contested(w: ControllerWorld) -> None:
    """An object that Karmada's controller writes, too."""
    entry = {"manager": "karmada-controller-manager", "subresource": "status"}
    put(w, managedFields=[{**entry, "time": format_time(w.clock.wall())}])


@pytest.mark.parametrize("begin", [scaled, refused, unwritten, contested])
async def test_nothing_holds_the_key_of_a_federatedhpa_that_is_gone(
    begin: Callable[[ControllerWorld], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No collaborator has to be told: not the health log, the checks of the hub, or the series."""
    made = captured(FederatedHPAReconciler, monkeypatch)
    async with world(m1=3, m2=3) as w:
        begin(w)
        async with w.controller() as controller:
            await w.reconciles(controller, 3)
            (reconciler,) = made
            before = holders(reconciler, KEY)
            w.hub.remove(HPAS, "only", NAMESPACE)
            await asyncio.sleep(2)
            await reconciler.settle()
            after = holders(reconciler, KEY)
            shown = [
                sample.name
                for family in controller.series.collect()
                for sample in family.samples
                if "only" in sample.labels.values()
            ]

        assert before
        assert after == []
        assert shown == []


async def test_nothing_holds_the_key_of_rules_that_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their window ends first."""
    made = captured(CronReconciler, monkeypatch)
    async with world(m1=1) as w:
        w.scale()
        put_rules(w, rule_up(w, 1), window(w, 2, "10m"))
        async with rules_running(w) as registry:
            await asyncio.sleep(150)
            (reconciler,) = made
            key = (NAMESPACE, "office")
            before = holders(reconciler, key)
            w.hub.remove(CRONS, "office", NAMESPACE)
            await asyncio.sleep(120)
            after = holders(reconciler, key)
            shown = [
                sample.name
                for family in registry.collect()
                for sample in family.samples
                if "office" in sample.labels.values()
            ]

        assert before
        assert after == []
        assert shown == []
