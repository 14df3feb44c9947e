"""The memory of one object, and its restoration after a restart."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from controller.federatedhpa.memory import ObjectMemory
from fedhpa.api.times import format_time
from fedhpa.api.wire import Scale, ScaleSpec
from fedhpa.assignment import ClusterState, Course
from fedhpa.decision import (
    KNOWN_BEFORE,
    Absence,
    ClusterMemory,
    ClusterScale,
    ClusterSnapshot,
    ControllerSettings,
    Decision,
    Failure,
    History,
    MemoryState,
    Rebalance,
    Recommendation,
    Resets,
    ScaleEvent,
    SizeChange,
    Snapshot,
    TemplateScale,
    WorkloadReading,
    decide,
    decode_object,
)
from fedhpa.decision.memory import Awaited, Standing
from fedhpa.scaling.records import PodRecord
from fedhpa.scaling.requests import PodRequests
from tests.support.recordings import recording

NOW = 1_800_000_000.0
HPA: dict[str, Any] = {
    "metadata": {"name": "web", "namespace": "shop", "uid": "u1"},
    "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "maxReplicas": 10},
}


def answering(name: str, replicas: int) -> ClusterSnapshot:
    pod = PodRecord(name, "shop", "web-0", {}, PodRequests())
    return ClusterSnapshot(name=name, scale=ClusterScale(replicas, replicas, "app=web"), pods=(pod,))


def away(name: str) -> ClusterSnapshot:
    return ClusterSnapshot(name=name, ready=False, error="connection refused")


def reconcile(memory: ObjectMemory, now: float, *clusters: ClusterSnapshot) -> Decision:
    """Decide on these clusters, and keep the result."""
    known = tuple(
        msgspec.structs.replace(cluster, absence=memory.state.absences.get(cluster.name))
        for cluster in clusters
    )
    snapshot = Snapshot(hpa=decode_object(HPA), clusters=known, memory=memory.state)
    decision = decide(snapshot, memory.history, now, ControllerSettings())
    memory.note_decision(snapshot, decision)
    return decision


def restored(
    state: MemoryState | None = None, now: float = NOW, at: float = NOW, **status: Any
) -> ObjectMemory:
    memory = ObjectMemory("u1", recording(state, at))
    memory.restore({**HPA, "status": status}, now)
    return memory


def test_loss_counts_from_the_first() -> None:
    """The clock of a lost cluster starts at the first reconcile without it; an answer is noted."""
    memory = ObjectMemory("u1", recording())
    reconcile(memory, NOW, answering("m1", 2), answering("m2", 3))
    before = dict(memory.state.absences)
    reconcile(memory, NOW + 10, answering("m1", 2), away("m2"))
    reconcile(memory, NOW + 20, answering("m1", 2), away("m2"))
    away_since = dict(memory.state.absences)
    reconcile(memory, NOW + 30, answering("m1", 2), answering("m2", 3))

    assert before == {}
    assert away_since == {"m2": Absence(NOW + 10)}
    assert memory.state.absences == {"m2": Absence(NOW + 10, NOW + 30)}


def test_share_outlives_the_answer() -> None:
    """The last share is kept while a cluster is missing, and dropped once it is no candidate."""
    memory = ObjectMemory("u1", recording())
    reconcile(memory, NOW, answering("m1", 2), answering("m2", 3))
    reconcile(memory, NOW + 10, answering("m1", 4), away("m2"))
    kept = dict(memory.last_replicas)
    reconcile(memory, NOW + 20, answering("m1", 4))

    assert kept == {"m1": 4, "m2": 3}
    assert memory.last_replicas == {"m1": 4}


def test_hub_in_the_way_teaches_nothing() -> None:
    """A reconcile without any cluster changes nothing."""
    memory = ObjectMemory("u1", recording())
    reconcile(memory, NOW, answering("m1", 2))
    reconcile(memory, NOW + 10)

    assert memory.last_replicas == {"m1": 2}
    assert memory.state.absences == {}


def test_the_record_restores_history_and_clusters() -> None:
    """History, shares and the clocks of losses are restored."""
    state = MemoryState(
        history=History((Recommendation(NOW, 7),), (ScaleEvent(NOW - 60, 2),)),
        absences={"m2": Absence(NOW - 240, NOW - 30)},
        clusters={"m1": ClusterMemory(replicas=4), "m2": ClusterMemory(replicas=3), "m4": ClusterMemory()},
    )
    memory = restored(state)

    assert memory.history == state.history
    assert memory.last_replicas == {"m1": 4, "m2": 3}
    assert memory.state.absences == state.absences
    assert memory.status_written_at == NOW


@pytest.mark.parametrize(("assigned_for", "share"), [("", 4), ("hash/10", 6)])
def test_members_that_scale_themselves_have_newer_shares_in_the_status(assigned_for: str, share: int) -> None:
    """In mode Distributed the record follows their sizes late. Otherwise it has what was written last."""
    state = MemoryState(clusters={"m1": ClusterMemory(replicas=4)}, assigned_for=assigned_for)
    memory = restored(state, clusters=[{"name": "m1", "currentReplicas": 6}])

    assert memory.last_replicas == {"m1": share}


def test_without_a_record_the_status_has_the_shares() -> None:
    """All else begins anew."""
    memory = restored(currentReplicas=6, clusters=[{"name": "m1", "currentReplicas": 6}])

    assert memory.last_replicas == {"m1": 6}
    assert (memory.history, memory.size) == (History(), None)


@pytest.mark.parametrize(
    "status",
    [
        "fine",
        {"clusters": {"m1": 3}},
        {"clusters": [{"name": "m1", "currentReplicas": "three"}]},
        {"lastSeen": "noon", "clusters": [{"name": "m1"}]},
        {"clusters": ["m1", {"name": 5}]},
    ],
)
def test_a_spoiled_status_shows_nothing(status: Any) -> None:
    """A status that another program spoiled raises no error."""
    memory = ObjectMemory("u1", recording(MemoryState(size=3), NOW))
    memory.restore({**HPA, "status": status}, NOW)

    assert (memory.last_replicas, memory.size) == ({}, 3)


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        (0, [(NOW - 100, 9), (NOW, 4)]),
        (20, [(NOW - 100, 9), (NOW, 4), (NOW + 20, 4)]),
        (3600, [(NOW - 100, 9), (NOW, 4), (NOW + 600, 4)]),
        (-5, [(NOW - 100, 9), (NOW, 4)]),
    ],
)
def test_last_recommendation_held_until_the_status_would_have_been_written_again(
    later: float, expected: list[tuple[float, int]]
) -> None:
    """The status may be ten minutes old: the last recommendation counts as repeated until then."""
    state = MemoryState(history=History((Recommendation(NOW - 100, 9), Recommendation(NOW, 4))))

    found = restored(state, NOW + later).history.recommendations

    assert found is not None
    assert [(entry.time, entry.replicas) for entry in found] == expected


def test_a_status_shows_until_when_the_process_before_worked() -> None:
    """It is written every ten minutes, the record only when a later decision would differ."""
    state = MemoryState(history=History((Recommendation(NOW, 4),)))

    found = restored(state, NOW + 7200, lastSeen=format_time(NOW + 3000)).history.recommendations

    assert found == (Recommendation(NOW, 4), Recommendation(NOW + 3600, 4))


@pytest.mark.parametrize(("sizes", "ups", "downs"), [((2, 3), [], []), ((3, 4), [2], []), ((1, 3), [], [1])])
def test_what_was_scaled_since_the_last_record_counts_once(
    sizes: tuple[int, int], ups: list[int], downs: list[int]
) -> None:
    """If a leader scaled and stopped before it wrote the record, the next leader counts that scale."""
    clusters = {"m1": ClusterMemory(replicas=2), "m2": ClusterMemory(replicas=3)}
    memory = restored(MemoryState(size=5, clusters=clusters))
    hpa = decode_object({**HPA, "spec": {**HPA["spec"], "behavior": {}}})
    seen = Snapshot(hpa=hpa, clusters=(answering("m1", sizes[0]), answering("m2", sizes[1])))
    memory.count_unreported_scale(seen, NOW + 10)
    memory.count_unreported_scale(seen, NOW + 20)

    assert memory.history.scale_ups == tuple(ScaleEvent(NOW + 10, change) for change in ups)
    assert memory.history.scale_downs == tuple(ScaleEvent(NOW + 10, change) for change in downs)


def test_template_that_was_scaled_since_the_last_record_counts() -> None:
    """A template that was scaled counts; one that cannot be read is compared later."""
    memory = restored(MemoryState(size=5))
    hpa = decode_object({**HPA, "spec": {**HPA["spec"], "behavior": {}}})
    seen = Snapshot(hpa=hpa, clusters=(answering("m1", 5),), target=Failure("out of order"))
    memory.count_unreported_scale(seen, NOW + 10)
    before = memory.history.scale_ups
    memory.count_unreported_scale(msgspec.structs.replace(seen, target=TemplateScale(7)), NOW + 20)

    assert before == ()
    assert memory.history.scale_ups == (ScaleEvent(NOW + 20, 2),)


def test_word_of_a_cluster_that_went_away_counts() -> None:
    """A cluster without the workload stays so until it answers with one."""
    memory = ObjectMemory("u1", recording())
    absent = msgspec.structs.replace(away("m1"), workload=WorkloadReading(is_absent=True))
    gone, back = away("m1"), reading("m1", 1)
    states = []
    for found in (gone, absent, gone, back, gone):
        memory.note_workloads({"m1": found}, NOW)
        states.append("m1" in memory.without_workload)

    assert states == [False, True, True, False, False]


def test_a_404_counts_after_a_minute_of_nothing_else() -> None:
    """A cluster that had the workload keeps its place in the first minute; another answer begins it anew."""
    memory = ObjectMemory("u1", recording())
    absent = msgspec.structs.replace(away("m1"), workload=WorkloadReading(is_absent=True))
    memory.last_replicas = {"m1": 3}
    answers = [(0, absent), (59, absent), (60, away("m1")), (70, absent), (129, absent), (130, absent)]
    states = []
    for seconds, found in answers:
        memory.note_workloads({"m1": found, "m2": absent}, NOW + seconds)
        states.append("m1" in memory.without_workload)

    assert states == [False, False, False, False, False, True]
    assert memory.without_workload == {"m1", "m2"}


def test_other_target_is_another_workload() -> None:
    """A new target drops the shares; the first target after a restart keeps them."""
    memory = ObjectMemory("u1", recording(), last_replicas={"m1": 3})
    memory.set_target("/deployments/web")
    first = dict(memory.last_replicas)
    memory.set_target("/deployments/api")

    assert (first, memory.last_replicas) == ({"m1": 3}, {})


def test_a_doubt_is_counted_without_a_break() -> None:
    """The time of implausible answers starts anew after a plausible one."""
    memory = ObjectMemory("u1", recording())
    empty = ClusterSnapshot(name="m2", scale=ClusterScale(3, 3, "app=web"))
    reconcile(memory, NOW, answering("m1", 2), empty)
    reconcile(memory, NOW + 20, answering("m1", 2), empty)
    before = memory.implausible_for("m2", NOW + 25), memory.implausible_for("m1", NOW + 25)
    reconcile(memory, NOW + 30, answering("m1", 2), answering("m2", 3))
    between = memory.implausible_for("m2", NOW + 35)
    reconcile(memory, NOW + 40, answering("m1", 2), empty)

    assert before == (25.0, 0.0)
    assert (between, memory.implausible_for("m2", NOW + 41)) == (0.0, 1.0)
    assert memory.implausible_for("m2", NOW - 60) == 0.0


def reading(name: str, replicas: int) -> ClusterSnapshot:
    scale = Scale(spec=ScaleSpec(replicas))
    return ClusterSnapshot(name=name, workload=WorkloadReading(scale=scale))


def test_the_decided_size_survives_a_restart() -> None:
    """It is that of the record; copies that all have another number show what a former leader wrote last."""
    memory = restored(MemoryState(size=5))
    three, five, ten = reading("m1", 3), reading("m2", 5), reading("m3", 10)

    assert memory.decided_size({"m1": three, "m3": ten}) == 5
    assert memory.decided_size({"m3": ten}) == 10
    assert ObjectMemory("u1", recording()).decided_size({"m2": five}) is None
    memory.reported_size = None
    assert memory.decided_size({"m3": ten}) == 5


def test_replicas_that_were_failed_over_are_not_failed_over_again() -> None:
    """Also while the status that was read is the one before the failover."""
    memory = ObjectMemory("u1", recording(), last_replicas={"m1": 4, "m2": 4})
    snapshot = Snapshot(hpa=decode_object(HPA), clusters=(answering("m1", 4), away("m2")))
    decision = decide(snapshot, History(), NOW, ControllerSettings())
    memory.note_decision(snapshot, msgspec.structs.replace(decision, failed_over=frozenset(("m2",))))

    assert memory.last_replicas == {"m1": 4, "m2": 0}


def test_a_step_of_the_clock_moves_all_times_of_the_state() -> None:
    """No wait gets longer or shorter: for a stuck cluster, a new host, a pass, or a cluster to go to 0."""
    standing = Standing("Leaving", since=NOW, asked_since=NOW, stuck_since=NOW, new=True, serves_since=NOW)
    cluster = ClusterMemory(
        seen=NOW,
        scaled=NOW,
        standing=standing,
        lacking_since=NOW,
        answered_since=NOW,
        replicas=1,
        assignment=ClusterState(zero_since=NOW, idle_since=NOW),
    )
    rebalance = Rebalance("", NOW, is_return=True, blocked_since=NOW, rests_until=NOW)
    state = MemoryState(
        absences={"m1": Absence(NOW, NOW, 1.0, NOW)},
        rebalance=rebalance,
        clusters={"m1": cluster, "m2": ClusterMemory()},
        course=Course(written=NOW, step_at=NOW, size=4),
        awaited={"m3": Awaited(NOW)},
        resets=Resets((NOW, NOW), SizeChange(1, 2)),
        history=History((Recommendation(NOW, 4),), (ScaleEvent(NOW, 1),)),
    )
    memory = ObjectMemory("u1", recording(), state)

    memory.redate(3600.0)

    text = msgspec.json.encode(state).decode()
    assert msgspec.json.encode(memory.state).decode() == text.replace(str(NOW), str(NOW + 3600.0))
    assert memory.state.clusters["m2"] is state.clusters["m2"]


def test_a_cluster_that_was_rebuilt_was_known_before() -> None:
    """Of another cluster under the same name nothing is remembered, but it is no new host."""
    known = ClusterMemory(replicas=4, uid="a", standing=Standing("Cordoned", since=NOW))
    memory = ObjectMemory("u1", recording(), MemoryState(size=8, clusters={"m1": known}))
    member: Any = SimpleNamespace(short_uid="b")

    assert memory.forget_replaced({"m1": member}) == ["m1"]

    hpa = decode_object(HPA)
    snapshot = Snapshot(hpa=hpa, clusters=(answering("m1", 4),), memory=memory.state)
    decision = decide(snapshot, memory.history, NOW, ControllerSettings())
    assert "ClusterBeganHosting" not in [event.reason for event in decision.events]
    assert not memory.was_seen("m1")


def test_a_name_that_nobody_registers_is_forgotten() -> None:
    """A blank memory of a cluster stays only while its name is registered."""
    clusters = {"m1": ClusterMemory(replicas=4), "m2": KNOWN_BEFORE, "m3": KNOWN_BEFORE}
    memory = ObjectMemory("u1", recording(), MemoryState(size=8, clusters=clusters))
    member: Any = SimpleNamespace(short_uid="")

    memory.forget_replaced({"m1": member, "m2": member})

    assert memory.state.clusters.keys() == {"m1", "m2"}
