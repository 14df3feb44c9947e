"""The objects that a drain waits for, each with its reason, and where their replicas would go."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fedhpa.api.known_cluster import KnownCluster
from fedhpa.api.taints import Taint
from fedhpa.cli.drain.objects import forecasts, placed_by_karmada, scaled_by_rules_alone, waiting
from fedhpa.cli.explain import memberships
from tests.support.draining import NAMES, rule, scaler, status

NOW = 1_800_000_000.0
FRESH = "2027-01-15T07:59:50Z"
OLD = "2027-01-15T07:00:00Z"
CLUSTERS = {name: KnownCluster(name) for name in NAMES}
THREE = {"member1": 4, "member2": 4, "member3": 4}


def put(shares: dict[str, int], spec: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """A FederatedHPA shop/web with a status. `changes` are those of its entry of member2."""
    found = scaler("web", **(spec or {}))
    found["status"] = status(shares, lastSeen=FRESH)
    for entry in found["status"]["clusters"]:
        if entry["name"] == "member2":
            entry.update(changes)
    return found


def reasons(*raws: Any, since: float = NOW - 10) -> list[str]:
    return [f"{one.replicas} {one.reason}" for one in waiting(raws, "member2", since, NOW)]


LEAVING: dict[str, Any] = {"membership": "Leaving", "waitsFor": "waiting for 2 new pods in member1"}
PAUSED = put(THREE, **LEAVING)
PAUSED["status"]["lastSeen"] = OLD
NEW = scaler("web")
LEASES = "check that a controller runs without --pause: kubectl get leases -A"


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (put(THREE, **LEAVING), "4 waiting for 2 new pods in member1"),
        (put(THREE, membership="Leaving"), "4 moving"),
        (
            put(THREE, membership="Leaving", waitsFor="taint fedhpa.io/drain:NoSchedule: its replicas move"),
            "4 its replicas move",
        ),
        (
            put(THREE, membership="Cordoned", waitsFor="every cluster drains"),
            "4 Cordoned: every cluster drains",
        ),
        (put(THREE), "4 waits for the controller's next decision"),
        (put(THREE, {"dryRun": True}), "4 spec.dryRun is true, so nothing is moved"),
        (
            put({**THREE, "member2": 0}, membership="Leaving", waitsFor="its last pods end"),
            "0 its last pods end",
        ),
        (
            put({**THREE, "member2": 0}, state="Lost"),
            "None waits for the controller's next decision",
        ),
        (put(THREE, membership="Leaving", state="Lost"), "4 the cluster does not answer (state Lost)"),
        (PAUSED, f"4 waiting for 2 new pods in member1 (the status is 60 min old: {LEASES})"),
        (NEW, f"None it has no decision yet: {LEASES}"),
        (put(THREE, readyReplicas=5, **LEAVING), "5 waiting for 2 new pods in member1"),
        (put(THREE, currentReplicas=None, state="Missing"), "None waits for the controller's next decision"),
        (put(THREE, waitsFor="a\x1b[31mb", membership="Leaving"), "4 a?[31mb"),
        ({"metadata": {"name": "web", "namespace": "shop"}, "status": 3}, "None its status cannot be read"),
        ("no object", "None its status cannot be read"),
    ],
)
def test_each_object_says_what_it_waits_for(raw: Any, reason: str) -> None:
    assert reasons(raw) == [reason]


def test_a_taint_that_nobody_answers_names_the_controller() -> None:
    """The taint acts at once, so a minute of silence means that no controller works."""
    waits = put(THREE, membership="Cordoned", waitsFor="every cluster drains")

    assert reasons(waits, since=NOW - 300) == ["4 Cordoned: every cluster drains"]
    assert reasons(put(THREE), since=NOW - 300) == [
        f"4 no controller has answered the taint in 5 min: {LEASES}"
    ]


def test_nothing_waits_in_a_cluster_without_replicas() -> None:
    """Its entry is gone, or has no replicas and does not leave. Entries of other clusters do not matter."""
    gone = {name: 4 for name in NAMES if name != "member2"}

    assert reasons(put(gone), put({**gone, "member2": 0})) == []


def test_karmada_places_the_objects_that_hold_replicas_in_mode_centralized() -> None:
    def of(name: str, propagation: str, mode: str, replicas: int) -> dict[str, Any]:
        raw = put({"member2": replicas}, {"mode": mode})
        raw["metadata"]["name"] = name
        raw["status"]["summary"]["propagation"] = propagation
        return raw

    raws = [
        of("placed", "karmada", "Centralized", 1),
        of("empty", "karmada", "Centralized", 0),
        of("distributed", "karmada", "Distributed", 1),
        of("direct", "direct", "Centralized", 1),
    ]

    assert placed_by_karmada([*raws, NEW, 3], "member2") == ["shop/placed"]


def test_rules_alone_scale_workloads_without_a_federatedhpa() -> None:
    """Rules of a FederatedHPA, and rules of a workload that has one, move nothing by themselves."""
    bounds = rule("bounds", "web")
    bounds["spec"]["scaleTargetRef"].update(kind="FederatedHPA", apiVersion="autoscaling.karmada.io/v1alpha1")
    suspended = rule("suspended", "other")
    suspended["spec"]["rules"][0]["suspend"] = True
    crons = [rule("night", "batch"), rule("both", "web"), bounds, suspended, "no object"]

    found = list(scaled_by_rules_alone(crons, [scaler("web")]))

    assert [(one.name, one.target) for one in found] == [("shop/night", "Deployment batch")]


def policy(name: str, *preferences: dict[str, Any]) -> dict[str, Any]:
    assignment = {"federatedHPAAssignmentType": name, "clusterAutoscalingPreference": list(preferences)}
    return {"federatedHPAAssignment": assignment}


def preference(cluster: str, **fields: int) -> dict[str, Any]:
    return {"targetCluster": {"clusterNames": [cluster]}, **fields}


def text(raw: Any, clusters: dict[str, KnownCluster] | None = None) -> str:
    (found,) = forecasts([raw], "member2", CLUSTERS if clusters is None else clusters)
    json.dumps(found.to_json())
    return str(found)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, "4 replicas: 2 to member1, 2 to member3; room there: unknown"),
        (
            policy("StaticWeighted", preference("member1", staticWeight=3)),
            "4 replicas: 4 to member1; room there: unknown",
        ),
        (
            policy("Aggregated"),
            "4 replicas: among member1, member3; the division by Aggregated is unknown until they move; room",
        ),
        (policy("Duplicated"), "4 replicas would go; each other cluster has its own (Duplicated)"),
        (
            policy(
                "StaticWeighted",
                preference("member1", autoscalingMaxThreshold=5),
                preference("member3", autoscalingMaxThreshold=4),
            ),
            "4 replicas: 1 to member1; autoscalingMaxThreshold leaves no room for 3; room there: unknown",
        ),
        ({"dryRun": True}, "4 replicas would stay: spec.dryRun is true, so nothing is moved"),
        ({"mode": "Distributed"}, "4 replicas: 2 to member1, 2 to member3; room there: unknown"),
        ({"maxReplicas": None}, "4 replicas would stay: spec.maxReplicas: Required value: or"),
    ],
)
def test_the_forecast_follows_the_policy(spec: dict[str, Any], words: str) -> None:
    """The division is that of the decision where no capacity and no load is needed for it."""
    assert text(put(THREE, spec)).startswith(f"shop/web: {words}")


@pytest.mark.parametrize(
    ("taint", "takes"),
    [
        (Taint("fedhpa.io/cordon", "", "NoSchedule"), False),
        (Taint("network", "", "NoExecute"), False),
        (Taint("network", "", "PreferNoSchedule"), True),
        (Taint("cluster.karmada.io/not-ready", "", "NoSchedule"), True),
        (Taint("tolerated", "", "NoSchedule"), True),
        (Taint("fedhpa.io/drain", "", "NoSchedule"), False),
    ],
)
def test_a_tainted_cluster_takes_nothing_unless_the_object_tolerates_it(taint: Taint, takes: bool) -> None:
    """The taint of a drain cannot be tolerated."""
    keys = [{"key": key, "operator": "Exists"} for key in ("tolerated", "fedhpa.io/drain")]
    known = CLUSTERS | {"member3": KnownCluster("member3", taints=(taint,))}

    assert ("to member3" in text(put(THREE, {"clusterTolerations": keys}), known)) == takes


def test_a_cluster_that_is_no_member_takes_nothing() -> None:
    """Nor does one that does not answer, or that is not registered. Then the replicas stay."""
    raw = put(THREE)
    first, _, third = raw["status"]["clusters"]
    first["membership"], third["state"] = "Stuck", "Lost"

    assert text(raw).endswith("would stay: no other cluster of the object takes replicas")
    assert text(put(THREE), {}).endswith("would stay: no other cluster of the object takes replicas")


@pytest.mark.parametrize(
    ("condition", "room", "lacks"),
    [
        (("True", "if any one cluster is lost, the others have room"), "enough, by the last decision", False),
        (
            ("False", "without member2, 1 of 12 replicas has no room"),
            "not enough, the last decision says",
            True,
        ),
        (
            ("False", "without member1, 1 of 12 replicas has no room"),
            "unknown, the last decision says",
            False,
        ),
        (("Unknown", "the capacity of no cluster is known any more"), "unknown, the last", False),
    ],
)
def test_room_is_what_the_last_decision_wrote(condition: tuple[str, str], room: str, lacks: bool) -> None:
    """The condition names the worst cluster to lose, which says little about another one."""
    raw = put(THREE)
    said = {"type": "SurvivesClusterLoss", "status": condition[0], "message": condition[1]}
    raw["status"]["conditions"] = [said]
    (found,) = forecasts([raw], "member2", CLUSTERS)

    assert found.room.startswith(room)
    assert (found.lacks_room, found.is_finding) == (lacks, lacks)


def test_explain_names_clusters_that_are_no_member() -> None:
    """Members and entries that cannot be read have no line."""
    entries = [
        {"name": "member1", "currentReplicas": 4},
        {"name": "member2", "currentReplicas": 4, **LEAVING},
        {"name": "member3", "membership": "Cordoned"},
        "no entry",
    ]

    assert memberships({"clusters": entries}) == [
        "member2 (Leaving): 4 replicas there, waiting for 2 new pods in member1",
        "member3 (Cordoned): an unknown number of replicas there",
    ]
    assert memberships({}) == memberships({"clusters": 3}) == []
