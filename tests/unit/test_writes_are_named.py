"""Mode Distributed names each write for people: in the Decision, `fedhpa explain`, `preview` and a dry run.

`changes` of a decision is compared with all writes that the controller would carry out.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from fedhpa.assignment import Bounds, Outcome, RemoveHpa, Result, SetBounds, SetScale, Write
from fedhpa.decision import Decision, decide, decode_scenario, to_json, to_text
from fedhpa.decision.record.decision import compact_decision, decode_compact
from tests.support.distributed_scenarios import assigned, cluster, federated, hpa, scenario


def made(raw: dict[str, Any], drift: tuple[str, ...] = (), left: tuple[str, ...] = ()) -> Decision:
    """The decision where HPAs of the first cluster have other fields, and some clusters are not selected."""
    found = decode_scenario(json.dumps(raw).encode())
    first, *others = found.snapshot.clusters
    first = msgspec.structs.replace(first, drift=drift)
    snapshot = msgspec.structs.replace(found.snapshot, clusters=(first, *others), leftovers=left)
    return decide(snapshot, found.history, found.now, found.settings)


def carried_out(decision: Decision, present: dict[str, int]) -> list[Write]:
    """All writes of a decision, if each succeeds."""
    outcomes: list[Outcome] = []
    while batch := decision.next_writes(present, outcomes):
        outcomes += [Outcome(write=one, result=Result.CONFIRMED) for one in batch]
    return [one.write for one in outcomes]


def begin(**spec: Any) -> dict[str, Any]:
    """Two clusters without an HPA, of which one runs nothing."""
    return scenario(federated(2, 12, **spec), cluster("a", 4), cluster("b", 0))


def test_each_write_of_a_pass_is_named() -> None:
    """New HPAs, first replicas, and the removal in a cluster that is no longer selected."""
    decision = made(begin(), left=("old",))

    assert decision.changes == (
        "old loses its replicas and its HPA: it is not selected",
        "a no HPA -> 1-8",
        "b no HPA -> 1-4",
        "b set to 1 replica",
    )
    writes = carried_out(decision, {"a": 4, "b": 0, "old": 3})
    assert writes[:2] == [SetScale("old", 0), RemoveHpa("old")]
    assert {(type(one), one.cluster) for one in writes[2:]} == {
        (SetBounds, "a"),
        (SetBounds, "b"),
        (SetScale, "b"),
    }


def test_a_repair_is_named_also_after_a_change_of_the_object() -> None:
    """No event tells of it then, because nobody edited the HPA."""
    raw = assigned(begin())
    raw["federatedHPA"]["metadata"]["generation"] = 3
    decision, same = made(raw, drift=("metrics", "behavior")), Bounds(minimum=1, maximum=8)

    assert decision.changes == ("a gets metrics, behavior",)
    assert carried_out(decision, {"a": 4, "b": 1}) == [SetBounds(cluster="a", before=same, after=same)]
    assert "    a gets metrics, behavior\n" in to_text(decision)


def test_a_cluster_that_loses_its_hpa_is_named() -> None:
    """A drained cluster is empty, so its HPA goes."""
    raw = assigned(begin())
    taint = {"key": "fedhpa.io/drain", "effect": "NoSchedule"}
    gone = {"specReplicas": 0, "statusReplicas": 0, "selector": "app=web"}
    raw["clusters"][1] |= {"taints": [taint], "scale": gone, "membership": "Leaving"}
    raw["clusters"][1]["hpa"] = hpa(1, 4, 0)
    decision = made(raw)

    assert any(text.startswith("b 1-4 -> no HPA") for text in decision.changes), decision.changes


def test_a_dry_run_names_the_same_and_writes_nothing() -> None:
    """The condition Assigned has them, with removals and repairs."""
    real, dry = (made(begin(**spec), drift=("metrics",), left=("old",)) for spec in ({}, {"dryRun": True}))

    assert dry.changes == real.changes
    assert real.writes
    assert not dry.writes
    (message,) = (one.message for one in dry.conditions if one.type == "Assigned")
    assert all(text in message for text in dry.changes)


@pytest.mark.parametrize("stored", [False, True], ids=["preview", "explain"])
def test_the_text_names_each(stored: bool) -> None:
    """`preview` shows the decision, and `explain` the one in the record."""
    decision = made(begin(), left=("old",))
    shown = decision
    if stored:
        fields = json.loads(msgspec.json.encode(compact_decision(decision)))
        shown = decode_compact(fields, decision.memory)
    text = to_text(shown)

    assert "  writes:\n" in text
    assert all(f"    {one}\n" in text for one in decision.changes)
    assert to_json(decision)["changes"] == list(decision.changes)


def test_an_event_names_a_removal() -> None:
    """Also where no bound changes."""
    decision = made(assigned(begin()), left=("old",))

    (message,) = (one.message for one in decision.events if one.reason == "BoundsAssigned")
    assert message.startswith("old loses its replicas and its HPA")


def test_a_quiet_pass_names_nothing() -> None:
    """And its text has no such lines."""
    decision = made(assigned(begin()))

    assert decision.changes == ()
    assert "writes:" not in to_text(decision)
