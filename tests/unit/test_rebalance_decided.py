"""An annotation asks for one rebalance: it adds replicas first, and removes only what is replaced."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from fedhpa.api.times import format_time, parse_time
from fedhpa.decision import Decision, Rebalance, decide, decode_scenario, to_json, to_text
from fedhpa.decision.record.memory import decode_memory
from tests.support.scenarios import NOW, answered, carry_on, cluster, condition, decided, pod, scenario

ANNOTATION = "autoscaling.karmada.io/rebalance"
ASKED = "2026-03-11T13:00:00Z"
START = parse_time(NOW) or 0.0


def asked(given: dict[str, Any], value: str = ASKED) -> dict[str, Any]:
    """The scenario with the annotation."""
    given["federatedHPA"]["metadata"]["annotations"] = {ANNOTATION: value}
    return given


class Loop:
    """A workload in two or more clusters whose decisions are carried out, pass by pass."""

    def __init__(self, *replicas: int, usage: int = 50, **spec: Any) -> None:
        self.replicas = {f"m{index + 1}": count for index, count in enumerate(replicas)}
        self.unready = dict.fromkeys(self.replicas, 0)
        self.usage, self.spec = usage, spec
        self.total_load = usage * sum(replicas)
        self.annotation: str | None = ASKED
        self.answer: dict[str, Any] = {}
        self.now = self.started = START
        self.decisions: list[Decision] = []

    def run(self) -> Decision:
        """One pass: the decision is made, written and stored."""
        count = sum(self.replicas.values())
        clusters = []
        for name, replicas in self.replicas.items():
            found = cluster(name, [self.total_load // count] * replicas)
            for index in range(self.unready[name]):
                starting = pod(f"web-{replicas - 1 - index}")
                starting["metadata"]["creationTimestamp"] = format_time(self.started)
                starting["status"]["conditions"][0]["status"] = "False"
                found["pods"][replicas - 1 - index] = starting
                del found["podMetrics"][-1]
            clusters.append(found)
        given = scenario(clusters, target=None, spec=self.spec, now=format_time(self.now))
        if self.annotation is not None:
            asked(given, self.annotation)
        del given["history"]
        if self.answer:
            carry_on(given, self.answer)
        decision = decided(given)
        for name, share in decision.assignment.items() if decision.writes else ():
            # A ReplicaSet removes the pods first that are not ready.
            unready = self.unready[name] + share - self.replicas[name]
            self.unready[name] = max(unready, 0)
            self.replicas[name] = share
            self.started = self.now
        self.answer = json.loads(msgspec.json.encode(to_json(decision)))
        self.decisions.append(decision)
        self.now += 15
        return decision

    def ready(self) -> None:
        """All pods become ready."""
        self.unready = dict.fromkeys(self.replicas, 0)

    @property
    def shares(self) -> tuple[int, ...]:
        """The replicas of each cluster."""
        return tuple(self.replicas.values())

    def state(self) -> tuple[str, str]:
        """Status and reason of the condition."""
        found = next(one for one in self.decisions[-1].conditions if one.type == "Rebalanced")
        return found.status, found.reason


def test_it_adds_first_and_removes_what_is_replaced() -> None:
    """8 and 2 replicas become 5 and 5: three more run first, and go elsewhere once these are ready."""
    loop = Loop(8, 2)

    first = loop.run()
    assert not first.writes  # the state is stored first
    assert loop.state() == ("False", "Rebalancing")
    second = loop.run()
    assert (loop.shares, second.desired_replicas) == ((8, 5), 10)
    assert second.status["currentReplicas"] == 10  # what runs when it is made
    assert not loop.run().writes  # three pods are not ready
    waiting = "goes on to m1 5, m2 5; it waits for 3 pods to be ready"
    assert f"  rebalance: the rebalance of {ASKED} {waiting}\n" in to_text(loop.decisions[-1])
    loop.ready()
    loop.run()
    assert loop.shares == (5, 5)
    done = loop.run()

    assert not done.writes
    assert loop.state() == ("True", "Rebalanced")
    assert [event.reason for event in done.events] == ["Rebalanced"]
    assert "stay at 10 replicas, in other clusters" in to_text(second)
    assert "to move it: nothing, replicas are being moved" in to_text(second)
    assert [event.message for event in second.events] == [f"rebalance of {ASKED}: m2 2 -> 5"]


def test_once_for_each_timestamp() -> None:
    """The same timestamp does nothing more; a new one begins again."""
    loop = Loop(5, 5)
    loop.run()
    loop.run()
    assert loop.state() == ("True", "Rebalanced")
    loop.replicas = {"m1": 9, "m2": 1}

    assert [loop.run().writes for _ in range(4)] == [False] * 4
    loop.annotation = "2026-03-11T13:20:00Z"
    loop.run()
    loop.run()
    loop.ready()
    loop.run()

    assert loop.shares == (5, 5)


def test_no_window_brings_the_surge_back() -> None:
    """After the rebalance the size is as before, also with the recommendations of the last minutes."""
    loop = Loop(8, 2)
    for _ in range(40):
        loop.run()
        loop.ready()

    assert loop.shares == (5, 5)
    assert sum(decision.writes for decision in loop.decisions) == 2


def test_at_the_maximum_a_few_more_run() -> None:
    """Where maxReplicas leaves no room, at most 10 % of it run besides, and nothing is removed unreplaced."""
    loop = Loop(16, 4, maxReplicas=20)
    sums = []
    for _ in range(20):
        before = loop.shares
        loop.run()
        loop.ready()
        sums.append(sum(loop.shares))
        assert sum(loop.shares) >= 20
        # Two go for two that are ready, and two more start.
        assert sum(abs(a - b) for a, b in zip(before, loop.shares, strict=True)) <= 4

    assert loop.shares == (10, 10)
    assert max(sums) == 22
    assert loop.state() == ("True", "Rebalanced")


def test_the_surge_stays_below_the_maximum() -> None:
    """With room for one more below maxReplicas, one replica moves at a time."""
    loop = Loop(8, 2, maxReplicas=11)
    for _ in range(12):
        loop.run()
        loop.ready()
        assert sum(loop.shares) <= 11

    assert loop.shares == (5, 5)


def test_usage_that_rises_is_no_reason_to_remove() -> None:
    """While the surge runs, load for it comes: it stays, and the size has grown."""
    loop = Loop(8, 2)
    loop.run()
    loop.run()
    loop.total_load = 50 * 13
    loop.ready()
    for _ in range(8):
        loop.run()
        loop.ready()
        assert sum(loop.shares) >= 12

    assert loop.state() == ("True", "Rebalanced")
    assert max(loop.shares) - min(loop.shares) <= 1


def test_pods_that_never_become_ready_end_it() -> None:
    """After an hour the surge goes, first the pods that are not ready, and the condition says so."""
    loop = Loop(8, 2)
    loop.run()
    loop.run()
    assert loop.shares == (8, 5)
    loop.now += 3600
    ended = loop.run()

    # The third one shows if pods become ready there after all.
    assert loop.shares == (8, 3)
    assert loop.state() == ("False", "TimedOut")
    assert "RebalanceTimedOut" in [event.reason for event in ended.events]
    assert not loop.run().writes


def test_an_annotation_that_is_removed_stops_it() -> None:
    """Without the annotation the rebalance stops, and the same timestamp never begins again."""
    loop = Loop(8, 2)
    loop.run()
    loop.annotation = None
    loop.run()
    assert loop.state() == ("True", "NotAsked")
    loop.annotation = ASKED

    assert [loop.run().writes for _ in range(3)] == [False] * 3


@pytest.mark.parametrize("value", ["tomorrow", "2026-03-11", "", "1" * 900])
def test_a_bad_timestamp_is_named(value: str) -> None:
    """A condition and one event name the annotation and the remedy; an empty value asks for nothing."""
    given = asked(scenario([cluster("m1", [50] * 8), cluster("m2", [50] * 2)], target=None), value)
    answer = answered(given)

    assert not answer["rescale"]
    if not value:
        assert all(one["type"] != "Rebalanced" for one in answer["conditions"])
        return
    status, reason, message = condition(answer, "Rebalanced")
    assert (status, reason) == ("False", "InvalidTimestamp")
    assert message.startswith(f"annotation {ANNOTATION}: ")
    assert "write the present time, such as" in message
    assert len(message) < 300
    carry_on(given, answer)
    assert [one["reason"] for one in answer["events"]] == ["RebalanceRefused"]
    assert answered(given)["events"] == []


def test_a_time_to_come_is_waited_for() -> None:
    """A timestamp ahead of the clock begins at that time."""
    given = asked(
        scenario([cluster("m1", [50] * 8), cluster("m2", [50] * 2)], target=None), "2030-01-01T00:00:00Z"
    )

    assert condition(answered(given), "Rebalanced")[:2] == ("False", "Waiting")


@pytest.mark.parametrize(
    ("changes", "remedy"),
    [
        ({"target": {"replicas": 10, "scheduling": "Divided"}}, "create a WorkloadRebalancer"),
        (
            {"spec": {"federatedHPAAssignment": {"federatedHPAAssignmentType": "Duplicated"}}},
            "Duplicated divides nothing",
        ),
        (
            {
                "spec": {
                    "mode": "Distributed",
                    "scaleAssist": False,
                    "federatedHPAAssignment": {"federatedHPAAssignmentType": "StaticWeighted"},
                }
            },
            "scaleAssist: false leaves bounds as they are",
        ),
    ],
)
def test_what_cannot_be_rebalanced_says_so(changes: dict[str, Any], remedy: str) -> None:
    """The condition names the annotation and the remedy."""
    given = scenario([cluster("m1", [50] * 5), cluster("m2", [50] * 5)], **{"target": None, **changes})

    status, reason, message = condition(answered(asked(given)), "Rebalanced")

    assert (status, reason) == ("False", "NotSupported")
    assert remedy in message


def test_while_a_cluster_is_missing_nothing_moves() -> None:
    """A missing cluster may run more or less than is known, so the rebalance waits."""
    away = {"name": "m2", "ready": False, "error": "unreachable", "scale": {"error": "unreachable"}}
    given = asked(scenario([cluster("m1", [50] * 8), {**away, "lastReplicas": 2}], target=None))

    assert condition(answered(given), "Rebalanced")[1] == "Waiting"


def test_a_dry_run_moves_nothing() -> None:
    """A dry run neither begins nor ends a rebalance."""
    loop = Loop(8, 2, dryRun=True)
    for _ in range(4):
        assert not loop.run().writes

    assert loop.shares == (8, 2)


def test_the_state_is_read_back() -> None:
    """The state of a rebalance is stored and read without a change."""
    loop = Loop(8, 2)
    loop.run()

    stored = decode_memory(loop.answer["record"]).rebalance
    assert stored == Rebalance(ASKED, START, goal={"m1": 5, "m2": 5}, before={"m2": 2})


def test_nothing_begins_or_goes_on_that_cannot_be_recorded() -> None:
    """A restart would not know of it."""
    given = asked(scenario([cluster("m1", [50] * 8), cluster("m2", [50] * 2)]))
    found = decode_scenario(json.dumps(given).encode())
    problem = "ScalingRecord shop/federatedhpa.web cannot be written"
    snapshot = msgspec.structs.replace(found.snapshot, record_problem=problem)

    decision = decide(snapshot, found.history, found.now, found.settings)

    assert decision.memory.rebalance is None
    conditions: Any = decision.status["conditions"]
    ready = next(one for one in conditions if one["type"] == "Ready")
    assert (ready["status"], ready["reason"], ready["message"]) == ("False", "NoRecord", problem)


def test_the_surge_goes_with_the_annotation() -> None:
    """Where the annotation is removed in between, the size stays, and the replicas that wait go at once."""
    loop = Loop(8, 2)
    loop.run()
    loop.run()
    assert loop.shares == (8, 5)
    loop.annotation = None

    stopped = loop.run()

    assert loop.shares == (8, 2)
    assert stopped.desired_replicas == 10
    assert loop.state() == ("True", "NotAsked")
    assert not loop.run().writes
