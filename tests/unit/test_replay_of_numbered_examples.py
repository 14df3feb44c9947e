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


@pytest.mark.parametrize(
    ("policy", "least", "most", "exact", "members", "expected"),
    [
        pytest.param(
            "Aggregated",
            8,
            24,
            False,
            (Member(0, capacity=8), Member(0, capacity=2), Member(0, capacity=2)),
            [(8, 20), (1, 2), (1, 2)],
            id="example_03",
        ),
        pytest.param(
            "StaticWeighted", 1, 2, False, (Member(0),) * 3, [(1, 1), (1, 1), (0, 0)], id="example_06"
        ),
        pytest.param(
            "StaticWeighted", 2, 10, True, (Member(0),) * 3, [(1, 5), (1, 5), (0, 0)], id="example_07"
        ),
        pytest.param(
            "StaticWeighted",
            2,
            10,
            True,
            (Member(0, weight=1), Member(0, weight=2), Member(0, weight=3)),
            [(0, 0), (1, 4), (1, 6)],
            id="example_08",
        ),
        pytest.param(
            "StaticWeighted",
            3,
            12,
            False,
            (Member(0, weight=6, high=3), Member(0, weight=2), Member(0, weight=1)),
            [(2, 3), (1, 6), (1, 3)],
            id="example_09",
        ),
        pytest.param(
            "DynamicWeighted", 3, 9, False, (Member(0, capacity=0),) * 3, [(1, 3)] * 3, id="example_10"
        ),
        pytest.param(
            "Prioritized",
            4,
            12,
            False,
            (
                Member(0, priority=3, capacity=2),
                Member(0, priority=2, capacity=3),
                Member(0, priority=1, capacity=9),
            ),
            [(2, 2), (2, 3), (1, 7)],
            id="example_11",
        ),
        pytest.param(
            "Prioritized",
            3,
            8,
            False,
            (Member(0, priority=1, capacity=5), Member(0, priority=1, capacity=5)),
            [(3, 5), (1, 3)],
            id="example_12",
        ),
    ],
)
def test_first_bounds(
    policy: str, least: int, most: int, exact: bool, members: Any, expected: list[tuple[int, int]]
) -> None:
    """No member has an HPA yet, and nothing runs."""
    obj = federated(least, most, policy, wishes(named(members)))
    if exact:
        obj["spec"]["federatedHPAAssignment"]["minimumPolicy"] = "Exact"
    clusters = [one_cluster(name, member) | {"hpa": None} for name, member in named(members).items()]

    answer = replayed(scenario(obj, *clusters))
    replicas = {each["cluster"]: each.get("replicas") for each in answer["assignment"]}

    assert list(bounds(answer).values()) == expected
    assert [replicas[name] for name in sorted(replicas)] == [minimum or None for minimum, _ in expected]
    assert answer["steps"][0]["step"] == "initial"


@pytest.mark.parametrize(
    ("policy", "most", "members", "expected"),
    [
        pytest.param(
            "StaticWeighted",
            22,
            (Member(6, weight=2), Member(6, weight=1), Member(6, weight=1)),
            [8, 7, 7],
            id="example_13",
        ),
        pytest.param(
            "Prioritized",
            24,
            (Member(10, least=8, pending=6, priority=2), Member(1, priority=1)),
            [11, 13],
            id="example_14",
        ),
        pytest.param(
            "Prioritized", 8, (Member(4, priority=3), Member(1, priority=1)), [7, 1], id="example_15"
        ),
        pytest.param(
            "StaticWeighted", 12, (Member(4, need=8), Member(1), Member(2)), [9, 1, 2], id="example_16"
        ),
        pytest.param(
            "StaticWeighted", 12, (Member(4, need=8), Member(4), Member(2)), [6, 4, 2], id="example_17"
        ),
        pytest.param("StaticWeighted", 10, (Member(6), Member(6), Member(6)), [4, 3, 3], id="example_18"),
        pytest.param(
            "Prioritized", 10, (Member(8, priority=2), Member(6, priority=1)), [8, 2], id="example_19"
        ),
        pytest.param(
            "StaticWeighted",
            12,
            (Member(2, pending=2), Member(4, need=6), Member(2)),
            [3, 7, 2],
            id="example_20",
        ),
        pytest.param(
            "StaticWeighted",
            12,
            (Member(4, need=8), Member(3, most=4, gone="missing"), Member(2)),
            [6, 4, 2],
            id="example_21",
        ),
        pytest.param(
            "StaticWeighted",
            12,
            (Member(4, least=2), Member(3, gone="lost"), Member(2)),
            [7, 0, 5],
            id="example_23",
        ),
        pytest.param(
            "StaticWeighted",
            12,
            (Member(4, most=7), Member(4, gone="back"), Member(3, most=5)),
            [4, 4, 4],
            id="example_24",
        ),
        pytest.param(
            "Prioritized",
            24,
            (Member(8, least=8, priority=2, capacity=40, need=12, most=9), Member(1, priority=1, need=2)),
            [22, 2],
            id="example_26",
        ),
        pytest.param(
            "Aggregated",
            24,
            (Member(8, least=8, capacity=8), Member(1, capacity=2), Member(1, capacity=2)),
            [20, 2, 2],
            id="example_27",
        ),
        pytest.param(
            "DynamicWeighted",
            24,
            (Member(1, capacity=1), Member(5, least=5, capacity=5), Member(2, least=2, capacity=2)),
            [3, 15, 6],
            id="example_28",
        ),
        pytest.param(
            "StaticWeighted",
            12,
            (Member(3, weight=6, high=3, need=9), Member(1, weight=2), Member(1, weight=1)),
            [3, 6, 3],
            id="example_29",
        ),
        pytest.param(
            "StaticWeighted", 12, (Member(2, pending=1), Member(2, pending=1)), [3, 3], id="all stuck"
        ),
    ],
)
def test_a_later_pass(policy: str, most: int, members: Any, expected: list[int]) -> None:
    """Members have HPAs that run at their maxima. The status knows the pass before."""
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


@pytest.mark.parametrize(("seconds", "expected"), [(30, [6, 4, 2]), (60, [8, 4, 2])])
def test_examples_21_and_22(seconds: int, expected: list[int]) -> None:
    """A Missing cluster counts in full for a minute."""
    since = format_time((parse_time(NOW) or 0) - seconds)
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
