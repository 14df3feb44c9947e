"""A workload that is missing where the controller looks is named with the places that have it."""

from __future__ import annotations

from typing import Any

import pytest

from controller.federatedhpa.workload_search import (
    Search,
    forbidden_on_hub,
    missing_in_members,
    missing_on_hub,
    no_candidates,
)
from fedhpa.members.hpas import forbidden_in_member
from tests.support.scenarios import answered, cluster, condition, scenario

GONE = 'deployments.apps "web" not found'
WEB = "Deployment shop/web"
RIGHT = "get deployments/scale of API group apps in namespace shop"
THREE = ("member1", "member2", "member3")
MANY = tuple(f"member{number}" for number in range(1, 1_001))


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (
            missing_in_members(WEB, THREE, Search(found=["the hub"])),
            (
                "Deployment shop/web: 404 in member1, member2, member3; it exists on the hub: "
                "is --propagation=karmada meant?"
            ),
        ),
        (
            missing_in_members(WEB, THREE, Search(absent=["the hub"])),
            (
                "Deployment shop/web: 404 in member1, member2, member3, and on the hub: "
                "create it in the clusters"
            ),
        ),
        (
            missing_in_members(WEB, THREE[:1], Search(unknown={"the hub": "forbidden"})),
            (
                "Deployment shop/web: 404 in member1: create it in the clusters; "
                "the hub cannot be asked: forbidden"
            ),
        ),
        (
            missing_on_hub(WEB, GONE, Search(found=["member2"], absent=["member1"])),
            (f"{WEB}: 404 on the hub; it exists in member2: is --propagation=direct meant? ({GONE})"),
        ),
        (
            missing_on_hub(
                WEB, GONE, Search(absent=["member1", "member2"], unknown={"member3": "no answer"})
            ),
            (
                f"{WEB}: 404 on the hub, and in member1, member2: create it on the hub ({GONE}); "
                "member3 cannot be asked: no answer"
            ),
        ),
        (missing_on_hub(WEB, GONE, Search()), f"{WEB}: 404 on the hub: create it on the hub ({GONE})"),
        (
            forbidden_on_hub(WEB, RIGHT, 'deployments.apps "web" is forbidden', Search()),
            (
                f"Deployment shop/web: the controller may not {RIGHT} on the hub "
                '(HTTP 403: deployments.apps "web" is forbidden)'
            ),
        ),
        (
            forbidden_on_hub(WEB, RIGHT, "forbidden", Search(found=["member1"])),
            (
                f"Deployment shop/web: the controller may not {RIGHT} on the hub; it exists in member1: "
                "is --propagation=direct meant? (HTTP 403: forbidden)"
            ),
        ),
        (
            forbidden_in_member(RIGHT, "forbidden"),
            f"the controller may not {RIGHT} in this cluster (HTTP 403: forbidden)",
        ),
        (no_candidates(0), "no Cluster is registered on the hub: register the member clusters"),
        (no_candidates(3), "spec.clusterAffinity selects none of the 3 registered clusters"),
    ],
    ids=[
        "only on the hub",
        "nowhere, with direct",
        "the hub refuses",
        "only in a member",
        "nowhere, with karmada",
        "without members",
        "the hub forbids it",
        "the hub forbids it and a member has it",
        "a member forbids it",
        "no cluster",
        "no selected cluster",
    ],
)
def test_the_message_says_where_it_is_and_what_is_wrong(said: str, expected: str) -> None:
    """The message names the places, and the flag or the right that is probably wrong."""
    assert said == expected


def test_a_thousand_clusters_do_not_fill_the_message() -> None:
    """Eight clusters are named, and the others are counted; a long reason is cut."""
    in_members = missing_in_members(WEB, MANY, Search(unknown={"the hub": "x" * 5_000}))
    on_hub = missing_on_hub(WEB, GONE, Search(absent=MANY, unknown=dict.fromkeys(MANY, "y" * 5_000)))

    assert "member8 and 992 more clusters" in in_members
    assert max(len(in_members), len(on_hub)) < 3_000


def test_a_decision_without_a_cluster_names_what_each_said() -> None:
    """If no cluster answers, the reason of each is in the message, not a guess."""
    gone = [cluster(name, [], ready=False, error=f"{name} is away") for name in ("m1", "m2")]

    status, reason, message = condition(answered(scenario(gone)), "AbleToScale")

    assert (status, reason) == ("False", "FailedGetScale")
    assert message.endswith("failed to get replicas in any of clusters: m1: m1 is away; m2: m2 is away")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"target": None}, ("False", "NoClusters")),
        ({"target": {"replicas": 2}}, ("False", "NoClusters")),
    ],
    ids=["direct", "with a template"],
)
def test_no_cluster_is_never_complete(changes: dict[str, Any], expected: tuple[str, str]) -> None:
    """Metrics of no cluster at all are not complete metrics."""
    assert condition(answered(scenario([], **changes)), "MetricsComplete")[:2] == expected


def test_a_hub_that_gives_no_scale_says_nothing_about_metrics() -> None:
    """While the template cannot be read, no cluster is asked, and MetricsComplete stays as it was."""
    given = scenario([], target={"error": "the hub does not answer"})
    given["federatedHPA"]["status"] = {
        "conditions": [{"type": "MetricsComplete", "status": "True", "reason": "AllClustersAnswered"}]
    }

    assert condition(answered(given), "MetricsComplete")[:2] == ("True", "AllClustersAnswered")
    assert "MetricsComplete" not in [
        one["type"] for one in answered(scenario([], target={"error": "away"}))["conditions"]
    ]
