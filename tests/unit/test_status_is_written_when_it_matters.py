"""A status is written at once if a person would act on the change, and rarely otherwise."""

from typing import Any

import pytest

from controller.federatedhpa.recording import QUIET_SECONDS, STILL_SECONDS, worth_writing


def status(**changes: Any) -> dict[str, Any]:
    """A status as a decision renders it."""
    base: dict[str, Any] = {
        "observedGeneration": 1,
        "currentReplicas": 3,
        "desiredReplicas": 3,
        "currentMetrics": [{"type": "Resource", "resource": {"current": {"averageUtilization": 50}}}],
        "conditions": [
            {"type": "AbleToScale", "status": "True", "reason": "ReadyForNewScale", "message": "m"}
        ],
        "clusters": [{"name": "m1", "currentReplicas": 3}],
        "lastSeen": "10:00",
        "summary": {"reason": "All metrics below target"},
    }
    return {**base, **changes}


def test_first_status_is_written() -> None:
    """An object without status gets one."""
    assert worth_writing(None, status(), written_at=0.0, now=1.0)


def test_equal_status_is_never_written() -> None:
    """An equal status is never written again."""
    assert not worth_writing(status(), status(), written_at=0.0, now=1e6)


@pytest.mark.parametrize(
    "change",
    [
        {"desiredReplicas": 4},
        {"currentReplicas": 4},
        {"observedGeneration": 2},
        {"lastScaleTime": "10:01"},
        {
            "conditions": [
                {"type": "AbleToScale", "status": "False", "reason": "FailedGetScale", "message": ""}
            ]
        },
        {"clusters": [{"name": "m1", "state": "Missing", "currentReplicas": 3, "lastSeen": "10:00"}]},
        {"summary": {"reason": "cpu resource utilization above target"}},
        {"summary": None},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_matters_is_written_at_once(change: dict[str, Any]) -> None:
    """Changes of replicas, bounds, conditions or a cluster's state are written at once."""
    assert worth_writing(status(), status(**change), written_at=100.0, now=100.1)


def test_an_error_worded_anew_waits_for_the_quiet_period() -> None:
    """A cluster that becomes missing is written at once; a reworded reason waits."""
    held = "held by ScaleUpOnly while missing m2"
    before = status(summary={"reason": f"{held}: no answer within 3 s"})
    after = status(summary={"reason": f"{held}: connection refused"})

    assert not worth_writing(before, after, written_at=100.0, now=110.0)


def test_numbers_in_a_reason_are_no_new_cause() -> None:
    """Names of pods and numbers change without a new cause."""
    before = status(summary={"reason": "rate limit of 4 pods"})
    after = status(summary={"reason": "rate limit of 8 pods"})

    assert not worth_writing(before, after, written_at=100.0, now=101.0)


def test_usage_waits_for_the_quiet_period() -> None:
    """Usage changes at every reconcile and is written at most once a minute."""
    moved = status(
        currentMetrics=[{"type": "Resource", "resource": {"current": {"averageUtilization": 51}}}],
        lastSeen="10:01",
    )

    assert not worth_writing(status(), moved, written_at=100.0, now=100.0 + QUIET_SECONDS - 1)
    assert worth_writing(status(), moved, written_at=100.0, now=100.0 + QUIET_SECONDS)


def test_times_alone_wait_for_ten_minutes() -> None:
    """A status in which only times change is written every ten minutes."""
    before = status()
    after = status(
        lastSeen="10:01",
    )

    assert not worth_writing(before, after, written_at=100.0, now=100.0 + STILL_SECONDS - 1)
    assert worth_writing(before, after, written_at=100.0, now=100.0 + STILL_SECONDS)
