"""The record annotation has at most 16 KiB, and what a restart needs most is left out last."""

from __future__ import annotations

from typing import Any

import pytest

from fedhpa.api.record_annotation import MAX_RECORD_BYTES, RECORD_ANNOTATION
from fedhpa.decision import is_shortened, read_status, record_text, with_record

TIME = "2026-03-11T12:00:00Z"


def status(metrics: int = 1, clusters: int = 2, entries: int = 2, lost: int = 0) -> Any:
    """A status as the controller writes it."""
    shown = {f"member{place:04}": {"pods": 5, "value": "4"} for place in range(min(clusters, 32))}
    return {
        "currentReplicas": 4,
        "desiredReplicas": 8,
        "clusters": [
            {
                "name": f"member{place:04}" + "n" * 50,
                "state": "Lost" if place >= clusters - lost else "Answered",
                "currentReplicas": 5,
                "lastSeen": TIME,
                "message": "m" * 500,
            }
            for place in range(clusters)
        ],
        "decision": {
            "version": 1,
            "time": TIME,
            "currentReplicas": 4,
            "desiredReplicas": 8,
            "rescale": True,
            "reason": "r" * 256,
            "error": None,
            "coverage": {"expected": 2, "answered": 2, "missing": {}, "policy": "ScaleUpOnly"},
            "metrics": [
                {"index": place, "type": "Pods", "name": "n" * 250, "target": {}, "clusters": shown}
                for place in range(metrics)
            ],
            "steps": [{"step": "bounds", "from": 8, "to": 8, "reason": "r" * 256}],
            "absences": {f"member{place:04}" + "n" * 50: {"since": TIME} for place in range(lost)},
            "history": {
                "recommendations": [
                    {"time": f"2026-03-11T11:{place // 60:02}:{place % 60:02}Z", "replicas": 500 - place}
                    for place in range(entries)
                ],
                "scaleUps": [{"time": TIME, "change": 1000} for _ in range(entries)],
                "scaleDowns": [{"time": TIME, "change": -1000} for _ in range(entries)],
            },
        },
    }


def restored(text: str) -> Any:
    metadata = {"uid": "u", "annotations": {RECORD_ANNOTATION: text}}
    return with_record({"metadata": metadata, "status": {"currentReplicas": 4}})["status"]


def test_a_small_record_is_the_whole_decision() -> None:
    """The record restores all fields that the hub drops."""
    wanted = status()
    found = restored(record_text("u", wanted))

    assert (found["decision"], found["clusters"]) == (wanted["decision"], wanted["clusters"])
    assert not is_shortened(found["decision"])


@pytest.mark.parametrize("metrics", [1, 64])
@pytest.mark.parametrize("clusters", [2, 1_000])
@pytest.mark.parametrize("entries", [2, 120])
@pytest.mark.parametrize("lost", [0, 2, 1_000])
def test_bound_holds(metrics: int, clusters: int, entries: int, lost: int) -> None:
    """Of any decision a record fits, and a restart reads it."""
    lost = min(lost, clusters)
    text = record_text("u", status(metrics, clusters, entries, lost))
    found = read_status(restored(text))

    assert 0 < len(text.encode()) <= MAX_RECORD_BYTES
    assert found.size == 8
    history = found.decision.history()
    assert history.recommendations is not None
    assert len(history.recommendations) >= min(entries, 8)
    # The newest recommendations are kept.
    assert history.recommendations[-1].replicas == 501 - entries


def test_history_outlasts_details_that_people_read() -> None:
    """64 metrics and 1,000 clusters leave the whole history of a usual autoscaler in the record."""
    wanted = status(metrics=64, clusters=1_000, entries=20, lost=3)
    found = restored(record_text("u", wanted))

    assert found["decision"]["history"] == wanted["decision"]["history"]
    assert found["decision"]["absences"] == wanted["decision"]["absences"]
    assert is_shortened(found["decision"])
    # Clusters that are lost cannot be read again at the start, so they come first.
    assert [entry["state"] for entry in found["clusters"][:4]] == ["Lost", "Lost", "Lost", "Answered"]


def test_the_status_is_preferred() -> None:
    """A record does not replace what the status has."""
    metadata = {"uid": "u", "annotations": {RECORD_ANNOTATION: record_text("u", status())}}
    kept = {"metadata": metadata, "status": {"decision": {"version": 1}, "currentReplicas": 1}}
    dropped = {"metadata": metadata, "status": {"currentReplicas": 1}}

    assert with_record(kept) is kept
    assert with_record(dropped)["status"]["currentReplicas"] == 1


@pytest.mark.parametrize("annotations", [None, [], "x", {}, {RECORD_ANNOTATION: 5}])
def test_objects_without_a_record_stay(annotations: Any) -> None:
    """No record, and an annotation of another type, change nothing."""
    raw = {"metadata": {"uid": "u", "annotations": annotations}, "status": {}}

    assert with_record(raw) is raw
