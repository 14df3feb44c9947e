"""FederatedHPAs that select the same pods find each other."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from controller.federatedhpa.ambiguity import Ambiguities, Neighbour, ambiguous_with
from controller.federatedhpa.memory import ObjectMemory
from controller.federatedhpa.recording import Recording
from fedhpa.api.selectors import Selector, parse_selector
from fedhpa.decision import Blocked, ClusterSnapshot, Failure, WorkloadReading
from fedhpa.kube.records import Key

WEB: Key = ("shop", "web")
Selectors = Mapping[Key, Mapping[str, Selector]]


def pods(cluster: str, *apps: str) -> dict[str, list[dict[str, str]]]:
    """One cluster's label sets: one pod of each workload."""
    return {cluster: [{"app": app, "tier": "front"} for app in apps]}


def selectors(**named: tuple[str, str]) -> Selectors:
    """Autoscalers of the namespace by name: the cluster and the selector of their workloads."""
    return {
        ("shop", name): {cluster: parse_selector(selector)} for name, (cluster, selector) in named.items()
    }


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ({}, ()),
        ({"api": ("m1", "app=api")}, ()),
        ({"twin": ("m1", "app=web")}, ("shop/twin", "shop/web")),
        ({"all": ("m1", "tier=front"), "a": ("m1", "app in (web,api)")}, ("shop/a", "shop/all", "shop/web")),
        ({"elsewhere": ("m2", "app=web")}, ()),
    ],
)
def test_autoscalers_of_the_same_pods_are_named(
    others: dict[str, tuple[str, str]], expected: tuple[str, ...]
) -> None:
    """Objects whose selectors match pods in the same cluster are named, sorted, with this one."""
    everybody = selectors(web=("m1", "app=web"), **others)

    assert ambiguous_with(WEB, pods("m1", "web", "web"), everybody) == expected


def test_other_namespaces_are_other_pods() -> None:
    """An autoscaler of another namespace never selects the same pods."""
    everybody = {WEB: {"m1": parse_selector("app=web")}, ("bank", "web"): {"m1": parse_selector("app=web")}}

    assert ambiguous_with(WEB, pods("m1", "web"), everybody) == ()


def test_without_pods_nothing_is_ambiguous() -> None:
    """Equal selectors without a matching pod are not ambiguous, as in Kubernetes."""
    everybody = selectors(web=("m1", "app=web"), twin=("m1", "app=web"))

    assert ambiguous_with(WEB, {"m1": []}, everybody) == ()


def ambiguities(now: list[float]) -> Ambiguities:
    """Nothing known yet; the time is `now[0]`."""
    return Ambiguities(lambda: now[0])


@pytest.mark.parametrize(
    ("text", "decided", "expected"),
    [
        ("app=web", True, ("shop/far", "shop/web")),
        ("app=api; tier in (front)", True, ("shop/far", "shop/web")),
        ("app=api", True, ()),
        ("", True, ()),
        ("app in (", True, ()),
    ],
)
def test_an_object_of_another_shard_is_known_by_its_status(
    text: str, decided: bool, expected: tuple[str, ...]
) -> None:
    """Any of its selectors counts. One that cannot be read selects nothing, and a deleted object neither."""
    now = [0.0]
    known, memory = ambiguities(now), ObjectMemory("uid", Recording.__new__(Recording))
    scale = WorkloadReading(selector=parse_selector("app=web"), label_sets=({"app": "web", "tier": "front"},))
    readings = {"m1": ClusterSnapshot(name="m1", scale=Failure("not read"), workload=scale)}
    known.note_target(WEB, {"scaleTargetRef": {"kind": "Deployment", "name": "web"}}, scales=True)
    known.note_selectors(WEB, memory, readings)
    known.note_neighbour(("shop", "far"), Neighbour(text, decided))
    found = known.of(WEB, memory, readings, {WEB: memory})
    known.note_neighbour(("shop", "far"), None)

    assert found == expected
    assert known.of(WEB, memory, readings, {WEB: memory}) == ()


def test_a_new_object_of_another_shard_is_waited_for_at_most_30_seconds() -> None:
    """Others of its namespace wait for its first status."""
    now = [100.0]
    known = ambiguities(now)
    known.note_neighbour(("shop", "new"), Neighbour())
    waits = known.waits(WEB, (), {})
    elsewhere = known.waits(("bank", "web"), (), {})
    now[0] += 31
    after = known.waits(WEB, (), {})
    known.note_neighbour(("shop", "newer"), Neighbour())
    again = known.waits(WEB, (), {})
    known.note_neighbour(("shop", "newer"), Neighbour("app=newer", decided=True))

    assert isinstance(waits, Blocked)
    assert "shop/new," in waits.message
    assert elsewhere is False
    assert after is False
    assert isinstance(again, Blocked)
    assert known.waits(WEB, (), {}) is False
