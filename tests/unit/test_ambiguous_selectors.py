"""FederatedHPAs that select the same pods find each other."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from controller.federatedhpa.ambiguity import ambiguous_with
from fedhpa.api.selectors import Selector, parse_selector
from fedhpa.kube.reflector import Key

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
