"""The numbered examples of docs/explanation/distributed.md as scenarios that `fedhpa replay` reads."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from fedhpa.api.times import format_time, parse_time
from tests.support.distributed_scenarios import (
    NOW,
    assigned,
    bounds,
    cluster,
    condition,
    federated,
    hpa,
    replayed,
    scenario,
)
from tests.support.scenarios import remembered

LONG_AGO = "2026-03-11T13:00:00Z"


class Member(NamedTuple):
    """A cluster with an HPA: `most` is its maxReplicas, what runs if not given. It is pinned with a need."""

    running: int
    least: int = 1
    most: int | None = None
    need: int | None = None
    pending: int = 0
    capacity: int | None = None
    weight: int | None = None
    priority: int | None = None
    high: int | None = None
    since: str = ""
    gone: str = ""
    """missing, lost (past the lost time-out) or back (it was lost)."""

    @property
    def maximum(self) -> int:
        return self.running + self.pending if self.most is None else self.most


def named(members: tuple[Member, ...]) -> dict[str, Member]:
    return dict(zip("abcd", members, strict=False))


def wishes(members: dict[str, Member]) -> list[dict[str, Any]]:
    """The preference of each member: the first one that names a cluster counts."""
    found: list[dict[str, Any]] = []
    for name, member in members.items():
        fields = {
            "staticWeight": member.weight,
            "priority": member.priority,
            "autoscalingMaxThreshold": member.high,
        }
        known = {field: value for field, value in fields.items() if value is not None}
        found += [{"targetCluster": {"clusterNames": [name]}, **known}] if known else []
    return found


def one_cluster(name: str, member: Member) -> dict[str, Any]:
    size = member.running + member.pending
    usage = 50 if member.need is None else 50 * member.need // size
    fields: dict[str, Any] = {"pendingReplicas": member.pending}
    if member.capacity is not None:
        fields["availableReplicas"] = member.capacity - member.running
    if member.gone in ("missing", "lost"):
        fields |= {"error": "no answer", "lastReplicas": size}
    if member.since:
        fields["missingSince"] = member.since
    return cluster(name, size, hpa(member.least, member.maximum, size, usage), **fields)


def a_pass(policy: str, most: int, *all_members: Member) -> dict[str, Any]:
    """Returns the decision of the pass after one that left the members as they are."""
    members = named(all_members)
    least = sum(member.least for member in all_members)
    obj = federated(least, most, policy, wishes(members))
    clusters = [one_cluster(name, member) for name, member in members.items()]
    entries: dict[str, dict[str, Any]] = {}
    for name, member in members.items():
        entry: dict[str, Any] = {"minReplicas": member.least, "maxReplicas": member.maximum}
        entry |= {"state": "Missing" if member.gone in ("missing", "lost") else "Answered"}
        if member.gone:
            entry |= {"lastSeen": LONG_AGO if member.gone == "lost" else "2026-03-11T13:23:00Z"}
        entries[name] = entry | ({"lost": True} if member.gone == "back" else {})
    total = sum(member.maximum for member in all_members)
    # A cluster that is away is a candidate by its part.
    known = scenario(obj, *clusters) | {"record": remembered({"clusters": entries})}
    divided_for = replayed(known)["record"]["assignedFor"].partition("/")[0]
    record = {"assignedFor": f"{divided_for}/{total}", "clusters": entries}
    return replayed(scenario(obj, *clusters) | {"record": remembered(record)})


def weighing(*weights: int, running: int = 0) -> tuple[Member, ...]:
    return tuple(Member(running, weight=weight) for weight in weights)


def holding(*capacities: int) -> tuple[Member, ...]:
    return tuple(Member(0, capacity=capacity) for capacity in capacities)


def ranked(*clusters: tuple[int, int]) -> tuple[Member, ...]:
    """Empty clusters with priorities and capacities."""
    return tuple(Member(0, priority=priority, capacity=capacity) for priority, capacity in clusters)


# minReplicas and maxReplicas, the clusters, and the bounds that each gets.
FIRST: dict[str, tuple[str, int, int, tuple[Member, ...], list[tuple[int, int]]]] = {
    "01": ("StaticWeighted", 2, 10, weighing(1, 2, 3), [(1, 1), (1, 4), (1, 5)]),
    "02": ("DynamicWeighted", 8, 24, holding(1, 5, 2), [(1, 3), (5, 15), (2, 6)]),
    "03": ("Aggregated", 8, 24, holding(8, 2, 2), [(8, 20), (1, 2), (1, 2)]),
    "04": ("Prioritized", 8, 24, ranked((2, 20), (1, 1)), [(8, 23), (1, 1)]),
    "05": ("Duplicated", 3, 10, (Member(1), Member(4), Member(20), Member(0)), [(3, 10)] * 4),
    "06": ("StaticWeighted", 1, 2, (Member(0),) * 3, [(1, 1), (1, 1), (0, 0)]),
    "07, exact": ("StaticWeighted", 2, 10, (Member(0),) * 3, [(1, 5), (1, 5), (0, 0)]),
    "08, exact": ("StaticWeighted", 2, 10, weighing(1, 2, 3), [(0, 0), (1, 4), (1, 6)]),
    "09": (
        "StaticWeighted",
        3,
        12,
        (Member(0, weight=6, high=3), Member(0, weight=2), Member(0, weight=1)),
        [(2, 3), (1, 6), (1, 3)],
    ),
    "10": ("DynamicWeighted", 3, 9, holding(0, 0, 0), [(1, 3)] * 3),
    "11": ("Prioritized", 4, 12, ranked((3, 2), (2, 3), (1, 9)), [(2, 2), (2, 3), (1, 7)]),
    "12": ("Prioritized", 3, 8, ranked((1, 5), (1, 5)), [(3, 5), (1, 3)]),
    "13": ("StaticWeighted", 1, 22, weighing(2, 1, 1, running=6), [(1, 8), (1, 7), (1, 7)]),
    "30": ("StaticWeighted", 1, 12, (Member(9), Member(1), Member(0)), [(1, 10), (1, 1), (1, 1)]),
}


@pytest.mark.parametrize("example", FIRST)
def test_first_bounds(example: str) -> None:
    """No member has an HPA yet. A cluster without replicas is started with its minimum."""
    policy, least, most, members, expected = FIRST[example]
    obj = federated(least, most, policy, wishes(named(members)))
    if example.endswith("exact"):
        obj["spec"]["federatedHPAAssignment"]["minimumPolicy"] = "Exact"
    clusters = [one_cluster(name, member) | {"hpa": None} for name, member in named(members).items()]

    answer = replayed(scenario(obj, *clusters))
    started = [each.get("replicas") for each in answer["assignment"]]
    goals = zip(members, expected, strict=True)

    assert list(bounds(answer).values()) == expected
    assert started == [minimum if minimum and not member.running else None for member, (minimum, _) in goals]
    assert answer["steps"][0]["step"] == "initial"
    assert answer["rescale"] is True
    assert len(answer["writes"]) == len([minimum for minimum, _ in expected if minimum])
    assert condition(answer, "Assigned")["status"] == "True"
    assert answer["record"]["assignedFor"]


# maxReplicas, the clusters, and their maxima.
LATER: dict[str, tuple[str, int, tuple[Member, ...], list[int]]] = {
    "13": ("StaticWeighted", 22, weighing(2, 1, 1, running=6), [8, 7, 7]),
    "14": (
        "Prioritized",
        24,
        (Member(10, least=8, pending=6, priority=2), Member(1, priority=1)),
        [11, 13],
    ),
    "15": ("Prioritized", 8, (Member(4, priority=3), Member(1, priority=1)), [7, 1]),
    "16": ("StaticWeighted", 12, (Member(4, need=8), Member(1), Member(2)), [9, 1, 2]),
    "17": ("StaticWeighted", 12, (Member(4, need=8), Member(4), Member(2)), [6, 4, 2]),
    "18": ("StaticWeighted", 10, (Member(6), Member(6), Member(6)), [4, 3, 3]),
    "19": ("Prioritized", 10, (Member(8, priority=2), Member(6, priority=1)), [8, 2]),
    "20": ("StaticWeighted", 12, (Member(2, pending=2), Member(4, need=6), Member(2)), [3, 7, 2]),
    "23": ("StaticWeighted", 12, (Member(4, least=2), Member(3, gone="lost"), Member(2)), [7, 0, 5]),
    "24": (
        "StaticWeighted",
        12,
        (Member(4, most=7), Member(4, gone="back"), Member(3, most=5)),
        [4, 4, 4],
    ),
    "26": (
        "Prioritized",
        24,
        (Member(8, least=8, priority=2, capacity=40, need=12, most=9), Member(1, priority=1, need=2)),
        [22, 2],
    ),
    "27": (
        "Aggregated",
        24,
        (Member(8, least=8, capacity=8), Member(1, capacity=2), Member(1, capacity=2)),
        [20, 2, 2],
    ),
    "28": (
        "DynamicWeighted",
        24,
        (Member(1, capacity=1), Member(5, least=5, capacity=5), Member(2, least=2, capacity=2)),
        [3, 15, 6],
    ),
    "29": (
        "StaticWeighted",
        12,
        (Member(3, weight=6, high=3, need=9), Member(1, weight=2), Member(1, weight=1)),
        [3, 6, 3],
    ),
    "all stuck": ("StaticWeighted", 12, (Member(2, pending=1), Member(2, pending=1)), [3, 3]),
}


@pytest.mark.parametrize("example", LATER)
def test_a_later_pass(example: str) -> None:
    """Members have HPAs that run at their maxima. The status knows the pass before."""
    policy, most, members, expected = LATER[example]
    answer = a_pass(policy, most, *members)

    assert [each["maxReplicas"] for each in answer["assignment"]] == expected
    assert answer["steps"][0]["step"] == "distribute"


def test_replicas_that_fit_nowhere_are_counted() -> None:
    """Each of two Stuck clusters keeps the maximum that it had."""
    answer = a_pass("StaticWeighted", 12, Member(2, pending=1), Member(2, pending=1))

    assigned = condition(answer, "Assigned")
    assert (assigned["status"], assigned["reason"]) == ("True", "CapacityLimited")
    assert "6 of maxReplicas 12" in assigned["message"]
    assert "CapacityLimited" in [each["reason"] for each in answer["events"]]


@pytest.mark.parametrize(("seconds", "expected"), [(None, [6, 4, 2]), (30, [6, 4, 2]), (60, [8, 4, 2])])
def test_examples_21_and_22(seconds: int | None, expected: list[int]) -> None:
    """A Missing cluster counts in full for a minute, and where the status does not know since when."""
    since = "" if seconds is None else format_time((parse_time(NOW) or 0) - seconds)
    members = (Member(4, need=8), Member(3, most=4, gone="missing", since=since), Member(2))

    assert [each["maxReplicas"] for each in a_pass("StaticWeighted", 12, *members)["assignment"]] == expected


def test_lacking_replicas_above_max_replicas_are_no_lack_of_room() -> None:
    """All of maxReplicas runs, so no cluster could take more."""
    full = Member(3, need=9, high=3, weight=6)

    answer = a_pass("StaticWeighted", 8, full, Member(5, most=5, weight=1))

    assert condition(answer, "Assigned")["reason"] == "Assigned"


@pytest.mark.parametrize(("usage", "scaled"), [(30, {"a": 0}), (40, {})])
def test_example_33(usage: int, scaled: dict[str, int]) -> None:
    """One pod each. At 30 % of 50 % two can run the load of three for five minutes; at 40 % they cannot."""
    weights = {"a": 1, "b": 2, "c": 3}
    preference = [
        {"targetCluster": {"clusterNames": [name]}, "staticWeight": weight}
        for name, weight in weights.items()
    ]
    obj = federated(2, 12, wishes=preference, scalingToZero=True)
    raw = scenario(obj, *(cluster(name, 1, hpa(1, 4, 1, usage)) for name in weights))
    found: dict[str, int] = {}
    for _ in range(8):
        found |= {
            each["cluster"]: each["replicas"] for each in replayed(raw)["assignment"] if "replicas" in each
        }
        raw = assigned(raw, usage=usage)

    assert found == scaled
