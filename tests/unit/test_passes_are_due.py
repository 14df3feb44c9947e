"""The bounds are computed every minute, and at once when something new asks for it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from fedhpa.decision import Decision, LastPass, Step, decide, decode_scenario
from tests.support.distributed_scenarios import assigned, cluster, federated, hpa, scenario


def reconciled(
    raw: dict[str, Any], seconds: float, triggers: frozenset[str], steps: tuple[Step, ...] = ()
) -> Decision:
    """Decide so many seconds after a pass that these triggers asked for and that took these steps."""
    found = decode_scenario(json.dumps(raw).encode())
    last = LastPass(found.now - seconds, triggers, steps)
    snapshot = msgspec.structs.replace(found.snapshot, last_pass=last)
    return decide(snapshot, found.history, found.now, found.settings)


def quiet() -> dict[str, Any]:
    return assigned(first())


def first() -> dict[str, Any]:
    return scenario(federated(2, 12), cluster("a", 4), cluster("b", 4))


def pinned() -> dict[str, Any]:
    """The cluster `a` runs at its maximum and needs more."""
    six = {"specReplicas": 6, "statusReplicas": 6, "selector": "app=web"}
    return assigned(first(), a={"hpa": hpa(1, 6, 6, 100), "scale": six})


def known(raw: dict[str, Any]) -> frozenset[str]:
    return reconciled(raw, 3600, frozenset()).triggers


def test_between_two_passes_nothing_is_written() -> None:
    """The pinned cluster was known in the pass before. The bounds are reported as they are.

    The steps are those of the pass before, which the process remembers.
    """
    raw = pinned()

    decision = reconciled(raw, 15, known(raw), (Step("initial", 0, 12, "divided"),))

    assert decision.plan is None
    assert (decision.rescale, decision.writes, decision.hpa_writes) == (False, False, ())
    assert [(share.min_replicas, share.max_replicas) for share in decision.bounds] == [(1, 6), (1, 6)]
    assert [step.step for step in decision.steps] == ["initial"]
    assert decision.events == ()


@pytest.mark.parametrize("seconds", [60, 3600, -1])
def test_a_pass_is_due_after_a_minute(seconds: float) -> None:
    """It is also due if the clock went back."""
    raw = pinned()

    decision = reconciled(raw, seconds, known(raw))

    assert decision.plan is not None
    assert [write.cluster for write in decision.hpa_writes] == ["b", "a"]


def six_minutes_gone(raw: dict[str, Any]) -> dict[str, Any]:
    return assigned(assigned(raw, b={"error": "no answer"}), later=360)


@pytest.mark.parametrize(
    ("change", "trigger"),
    [
        (lambda _: pinned(), "pinned a 12"),
        (lambda raw: assigned(raw, a={"pendingReplicas": 1}), "stuck a"),
        (six_minutes_gone, "lost b"),
        (lambda raw: assigned(raw, a={"hpa": hpa(2, 9, 4)}), "edited a"),
        (lambda raw: assigned(raw, a={"hpa": None}), "edited a"),
    ],
)
def test_something_new_makes_a_pass_at_once(change: Any, trigger: str) -> None:
    before = known(quiet())

    decision = reconciled(change(quiet()), 15, before)

    assert trigger in decision.triggers - before
    assert decision.plan is not None


def test_a_changed_spec_makes_a_pass_at_once() -> None:
    raw = quiet()
    before = known(raw)
    raw["federatedHPA"]["spec"]["maxReplicas"] = 20

    decision = reconciled(raw, 15, before)

    assert decision.plan is not None
    assert sum(share.max_replicas for share in decision.bounds) == 20
