"""A cluster whose answer was missed for less than a minute is represented by its last answer."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fedhpa.decision import ClusterSnapshot, Decision, Failure, Snapshot, decide, decode_scenario
from fedhpa.decision.bridge import BRIDGE_SECONDS, bridged
from tests.support.scenarios import answered, cluster, condition, scenario

AGE = 12.0


def read(given: dict[str, Any]) -> tuple[Snapshot, Any]:
    decoded = decode_scenario(msgspec.json.encode(given))
    return decoded.snapshot, decoded


def away(one: ClusterSnapshot) -> ClusterSnapshot:
    """The cluster as it is read while its API does not answer."""
    share = None if isinstance(one.scale, Failure) else one.scale.spec_replicas
    return ClusterSnapshot(
        name=one.name, error="unreachable", last_replicas=share, missing_since=one.missing_since
    )


def without_metrics(one: ClusterSnapshot) -> ClusterSnapshot:
    """The cluster as it is read while its metrics API fails."""
    return msgspec.structs.replace(one, usage=Failure("HTTP 503"))


def decided(
    clusters: list[dict[str, Any]], misses: dict[str, Any], *, missed_for: float = 0.0, **fields: Any
) -> Decision:
    """The decision in which each cluster in `misses` is read as its function says, after AGE seconds."""
    snapshot, given = read(scenario(clusters, **({"target": None} | fields)))
    now = given.now
    present = tuple(
        msgspec.structs.replace(misses[one.name](one), missing_since=now - missed_for if missed_for else None)
        if one.name in misses
        else one
        for one in snapshot.clusters
    )
    answers = {one.name: (one, now - AGE) for one in snapshot.clusters}
    snapshot = msgspec.structs.replace(snapshot, clusters=present, answers=answers)
    return decide(snapshot, given.history, now, given.settings)


TWO = [cluster("member1", [50] * 4), cluster("member2", [50] * 4)]


@pytest.mark.parametrize("miss", [away, without_metrics])
def test_the_last_answer_of_a_missed_cluster_counts(miss: Any) -> None:
    """The missed cluster counts as answered, its age is shown, and no policy applies."""
    decision = decided(TWO, {"member2": miss})

    assert decision.coverage.answered == ("member1", "member2")
    assert decision.coverage.bridged == {"member2": AGE}
    assert decision.coverage.missing == {}
    assert decision.missed == {"member2"}
    assert (decision.current_replicas, decision.desired_replicas) == (8, 8)
    assert decision.metrics[0].pods is not None
    assert decision.metrics[0].pods.ready == 8
    entry = {one["name"]: one for one in decision.status["clusters"]}["member2"]  # type: ignore[attr-defined]
    assert "state" not in entry  # Answered
    reason = "unreachable" if miss is away else "HTTP 503"
    assert entry["message"] == f"represented by its answer of 12 s ago: {reason}"


@pytest.mark.parametrize("miss", [away, without_metrics])
def test_a_bridged_cluster_keeps_its_share_when_the_size_falls(miss: Any) -> None:
    """The other cluster shrinks to its own part only, because the bridged one may need what it runs."""
    idle = [cluster("member1", [10] * 4), cluster("member2", [10] * 4)]
    fields: dict[str, Any] = {"spec": {"minReplicas": 1}, "history": {"recommendations": []}}

    decision = decided(idle, {"member2": miss}, **fields)

    shares = decision.assignment
    assert shares == {"member1": 1, "member2": 4}
    assert decision.desired_replicas == 5
    step = decision.steps[-1]
    assert (step.step, step.before, step.after) == ("assignment", 2, 5)
    assert step.reason == "member2 keeps its replicas while the last answer stands for it"


def test_growth_goes_to_clusters_whose_scale_answers() -> None:
    """A cluster that does not answer gets nothing, and one without metrics gets its part."""
    busy = [cluster("member1", [100] * 4), cluster("member2", [100] * 4)]

    silent = decided(busy, {"member2": away})
    without = decided(busy, {"member2": without_metrics})

    assert silent.assignment == {"member1": 12, "member2": 4}
    assert without.assignment == {"member1": 8, "member2": 8}


def test_after_a_minute_the_cluster_is_missing_since_the_first_miss() -> None:
    """The loss clock counts from the first miss, and partialMetrics applies."""
    decision = decided(TWO, {"member2": away}, missed_for=60.0)

    assert decision.coverage.missing == {"member2": "unreachable"}
    assert decision.coverage.bridged == {}
    assert decision.memory.absences["member2"].since == decision.now - 60.0


def test_a_snapshot_without_a_short_miss_stays_as_it_is() -> None:
    """After the minute nothing is exchanged, so the fleet is not looked at a second time."""
    snapshot, given = read(scenario(TWO, target=None))
    first, second = snapshot.clusters
    missed = msgspec.structs.replace(away(second), missing_since=given.now - BRIDGE_SECONDS)
    snapshot = msgspec.structs.replace(
        snapshot, clusters=(first, missed), answers={second.name: (second, given.now - AGE)}
    )

    assert bridged(snapshot, {second.name: "unreachable"}, given.now, 300.0) is snapshot


def test_a_shorter_time_to_loss_ends_the_bridge() -> None:
    """With lostAfterSeconds of 20 a cluster is not represented for longer than that."""
    spec = {"partialMetrics": {"lostAfterSeconds": 20}}

    assert decided(TWO, {"member2": away}, missed_for=19.0, spec=spec).coverage.bridged
    assert not decided(TWO, {"member2": away}, missed_for=20.0, spec=spec).coverage.bridged


def test_nothing_is_decided_from_last_answers_alone() -> None:
    """If no cluster answers now, there is no decision, and both are missing."""
    decision = decided(TWO, {"member1": away, "member2": away})

    assert decision.error is not None
    assert set(decision.coverage.missing) == {"member1", "member2"}


def test_an_implausible_answer_is_a_miss() -> None:
    """An empty list of pods beside running replicas is bridged like an error."""

    def emptied(one: ClusterSnapshot) -> ClusterSnapshot:
        return msgspec.structs.replace(one, pods=(), usage=(), implausible_for=0.0)

    decision = decided(TWO, {"member2": emptied})

    assert decision.coverage.bridged == {"member2": AGE}
    assert decision.implausible == {"member2"}
    assert decision.desired_replicas == 8


def test_the_template_is_not_lowered_while_a_cluster_is_bridged() -> None:
    """Karmada would take replicas from every cluster, so the size waits."""
    idle = [cluster("member1", [10] * 4), cluster("member2", [10] * 4)]
    fields: dict[str, Any] = {"target": {"replicas": 8}, "history": {"recommendations": []}}

    assert decided(idle, {}, **fields).desired_replicas < 8
    assert decided(idle, {"member2": away}, **fields).desired_replicas == 8


def test_a_scenario_says_that_a_cluster_is_bridged() -> None:
    """`bridgedSeconds` marks the lists as the last answer; without `ready` its share cannot change."""
    bridged = {**cluster("member2", [100] * 4), "ready": False, "error": "unreachable", "bridgedSeconds": AGE}

    answer = answered(scenario([cluster("member1", [100] * 4), bridged], target=None))

    assert answer["coverage"]["bridged"] == {"member2": AGE}
    assert answer["coverage"]["answered"] == ["member1", "member2"]
    assert {one["cluster"]: one["replicas"] for one in answer["assignment"]} == {"member1": 12, "member2": 4}
    assert condition(answer, "MetricsComplete")[0] == "True"


def test_a_fallback_begins_when_the_bridge_ends() -> None:
    """Policy Fallback sets its size once the cluster is missing, and not before."""
    spec = {"partialMetrics": {"policy": "Fallback", "fallbackReplicas": 30}}

    assert decided(TWO, {"member2": without_metrics}, spec=spec).desired_replicas == 8
    assert decided(TWO, {"member2": without_metrics}, missed_for=60.0, spec=spec).desired_replicas > 8
