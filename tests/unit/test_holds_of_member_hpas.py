"""Mode Distributed under a hold: member HPAs stop in its direction, and their bounds cut or start nothing."""

from __future__ import annotations

from typing import Any

import pytest

from fedhpa.api.hold import HOLD_ANNOTATION
from fedhpa.api.member_hpas import HpaSpec, differing_fields, wanted_spec, with_hold
from fedhpa.decision import to_text
from tests.support.distributed_scenarios import (
    assigned,
    bounds,
    cluster,
    condition,
    decided,
    federated,
    hpa,
    replayed,
    scenario,
)
from tests.support.scenarios import carry_on

POLICIES = [{"type": "Pods", "value": 2, "periodSeconds": 60}]


def settled(least: int = 4, most: int = 20, *running: int, **spec: Any) -> dict[str, Any]:
    """Two or more clusters that run some replicas within bounds that were assigned a minute ago."""
    sizes = running or (8, 8)
    clusters = [cluster(f"m{index + 1}", size) for index, size in enumerate(sizes)]
    return assigned(scenario(federated(least, most, **spec), *clusters))


def held(raw: dict[str, Any], direction: str = "down") -> dict[str, Any]:
    """The scenario with a hold."""
    raw["federatedHPA"]["metadata"]["annotations"] = {HOLD_ANNOTATION: direction}
    return raw


def released(raw: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """The answer of the first pass after the hold."""
    carry_on(raw, answer)
    del raw["federatedHPA"]["metadata"]["annotations"]
    return replayed(raw)


@pytest.mark.parametrize(
    ("down", "up", "expected"),
    [
        (True, False, {"scaleDown": {"selectPolicy": "Disabled"}}),
        (False, True, {"scaleUp": {"selectPolicy": "Disabled"}}),
        (False, False, None),
    ],
)
def test_a_direction_is_disabled(down: bool, up: bool, expected: Any) -> None:
    """The behavior of a member HPA disables the held directions, and nothing else."""
    spec = {"scaleTargetRef": {"kind": "Deployment", "name": "web"}}

    assert with_hold(spec, down=down, up=up).get("behavior") == expected


def test_the_rest_of_the_behavior_stays() -> None:
    """Policies and windows of the FederatedHPA stay, also in the disabled direction."""
    spec = {"behavior": {"scaleDown": {"policies": POLICIES}, "scaleUp": {"selectPolicy": "Min"}}}

    assert with_hold(spec, down=True, up=False)["behavior"] == {
        "scaleDown": {"policies": POLICIES, "selectPolicy": "Disabled"},
        "scaleUp": {"selectPolicy": "Min"},
    }


def test_a_held_hpa_differs_from_a_released_one() -> None:
    """The drift of an HPA shows when a hold begins and when it ends, and nothing in between."""
    spec = {"scaleTargetRef": {"kind": "Deployment", "name": "web"}}
    free, down = (
        wanted_spec(with_hold(spec, down=one, up=False), 1, 5, "autoscaling/v2") for one in (False, True)
    )

    assert differing_fields(HpaSpec(**free), down) == ("behavior",)
    assert differing_fields(HpaSpec(**down), free) == ("behavior",)
    assert differing_fields(HpaSpec(**down), down) == ()


def test_lowered_bounds_wait() -> None:
    """Under `down`, lower bounds of the FederatedHPA cut nothing, and act right after the hold."""
    raw = held(settled())
    before = bounds(replayed(raw))
    raw["federatedHPA"]["spec"] |= {"minReplicas": 2, "maxReplicas": 10}
    raw["federatedHPA"]["metadata"]["generation"] = 3
    answer = replayed(raw)
    after = bounds(released(raw, answer))

    assert before == {"m1": (2, 10), "m2": (2, 10)}
    assert bounds(answer) == {"m1": (2, 8), "m2": (2, 8)}
    assert condition(answer, "Assigned")["reason"] == "MaxReplicasExceeded"
    assert after == {"m1": (1, 5), "m2": (1, 5)}


@pytest.mark.parametrize("direction", ["up", "all"])
def test_a_raised_minimum_acts_under_every_hold(direction: str) -> None:
    """minReplicas may grow what runs under every hold."""
    raw = held(settled(4, 20, 2, 2), direction)
    raw["federatedHPA"]["spec"]["minReplicas"] = 10
    raw["federatedHPA"]["metadata"]["generation"] = 3

    assert bounds(replayed(raw)) == {"m1": (5, 10), "m2": (5, 10)}


@pytest.mark.parametrize(("direction", "helps"), [("down", True), ("up", False), ("all", False)])
def test_no_minimum_rises_where_nothing_may_grow(direction: str, helps: bool) -> None:
    """Under `up` and `all` what a Stuck cluster cannot hold of minReplicas waits for the end of the hold."""
    raw = held(settled(12, 20, 6, 4), direction)
    raw["clusters"][0] |= cluster("m1", 6, hpa(6, 10, 6, usage=90), pendingReplicas=4)
    answer = replayed(raw)

    assert (bounds(answer)["m2"][0] > 6) is helps
    if not helps:
        assert bounds(released(raw, answer))["m2"][0] > 6


def test_a_cluster_without_need_keeps_its_replicas() -> None:
    """Under `down` no scale is written to zero, and after the hold the time to zero begins anew."""
    clusters = [cluster("m1", 2), cluster("m2", 2)]
    raw = assigned(scenario(federated(1, 20, scalingToZero=True), *clusters), usage=1)
    for _ in range(8):
        raw = assigned(held(raw), usage=1)
    last = replayed(held(raw))

    assert [each["scale"]["specReplicas"] for each in raw["clusters"]] == [2, 2]
    assert all("replicas" not in each for each in last["assignment"])


def test_the_step_and_the_condition_name_the_hold() -> None:
    """A pass has a step for the hold, with the sums of minReplicas, and the condition Held is True."""
    answer = replayed(held(settled()))
    text = "nothing is scaled down until somebody ends the hold: hold down on the object"

    assert answer["steps"][-1] == {"step": "hold", "from": 4, "to": 4, "reason": text}
    assert condition(answer, "Held")["reason"] == "HoldDown"
    assert condition(answer, "Held")["message"] == text
    assert "to move it: the end of the hold" in to_text(decided(held(settled())))


@pytest.mark.parametrize("direction", ["down", "all"])
def test_a_hold_is_no_edit_of_a_member(direction: str) -> None:
    """Neither the beginning nor the end of a hold is reported as an HPA that somebody edited."""
    raw = held(settled(), direction)
    raw["federatedHPA"]["spec"]["minReplicas"] = 2
    begins = replayed(raw)
    ends = released(raw, begins)

    for answer in (begins, ends):
        assert "MemberHPARepaired" not in [each["reason"] for each in answer["events"]]
