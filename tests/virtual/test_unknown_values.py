"""A value that this release does not know never runs as another one: the object is held, or the metric fails.

A rollback of the processes meets such values, and so does a hub whose webhooks are away.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from benchmarks.closed_loop.running import Running
from benchmarks.closed_loop.ways import CENTRALIZED, DISTRIBUTED, simulate
from benchmarks.closed_loop.worlds import World, several, steps
from benchmarks.world.cluster import AUTOSCALING, HPAS
from controller.federatedhpa.clusters import unknown_fields
from fedhpa.api.cronfederatedhpa import CronFederatedHPASpec
from fedhpa.api.federatedhpa import FederatedHPASpec
from fedhpa.api.model import ApiModel
from fedhpa.api.shape import properties
from fedhpa.decision import decode_spec
from tests.support.scenarios import CPU, answered, cluster, external, scenario

NEW: Final = "OfANewerRelease"


def behavior(direction: str, **rules: Any) -> dict[str, Any]:
    return {"behavior": {direction: rules}}


def policy(kind: str) -> list[dict[str, Any]]:
    return [
        {"type": "Pods", "value": 4, "periodSeconds": 60},
        {"type": kind, "value": 1, "periodSeconds": 60},
    ]


UNKNOWN: Final[Mapping[str, dict[str, Any]]] = {
    "spec.mode": {"mode": NEW},
    "spec.federatedHPAAssignment.federatedHPAAssignmentType": {
        "federatedHPAAssignment": {"federatedHPAAssignmentType": NEW}
    },
    "spec.federatedHPAAssignment.minimumPolicy": {"federatedHPAAssignment": {"minimumPolicy": NEW}},
    "spec.federatedHPAAssignment.rebalance": {"federatedHPAAssignment": {"rebalance": NEW}},
    "spec.clusterTolerations[0].operator": {"clusterTolerations": [{"key": "a", "operator": NEW}]},
    "spec.clusterTolerations[0].effect": {"clusterTolerations": [{"key": "a", "effect": NEW}]},
    "spec.partialMetrics.policy": {"partialMetrics": {"policy": NEW}},
    "spec.behavior.scaleUp.selectPolicy": behavior("scaleUp", selectPolicy=NEW),
    "spec.behavior.scaleDown.selectPolicy": behavior("scaleDown", selectPolicy=NEW),
    "spec.behavior.scaleUp.policies[1].type": behavior("scaleUp", policies=policy(NEW)),
    "spec.behavior.scaleDown.policies[1].type": behavior("scaleDown", policies=policy(NEW)),
}
WRONG: Final[Mapping[str, tuple[dict[str, Any], str]]] = {
    "a number as mode": ({"mode": 5}, "spec.mode"),
    "a text as number": ({"maxReplicas": "20"}, "spec.maxReplicas"),
    "a text as list": ({"clusterAffinity": {"clusterNames": "m1"}}, "spec.clusterAffinity.clusterNames"),
    "minimum above maximum": ({"minReplicas": 21}, "spec.minReplicas: Invalid value: 21"),
    "no target": ({"scaleTargetRef": {}}, "spec.scaleTargetRef.kind: Required value"),
}

QUEUE: Final = {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "10"}}
METRICS: Final[Mapping[str, dict[str, Any]]] = {
    "type": {"type": NEW},
    "target type": {"type": "External", "external": {**QUEUE, "target": {"type": NEW, "value": "10"}}},
    "aggregation": {"type": "External", "external": {**QUEUE, "aggregation": NEW}},
}


# -- every enumeration has a case --------------------------------------------------------------------------
def enumerations(model: type[ApiModel], path: str) -> Iterator[str]:
    """Yields the paths of the fields of a model whose values are enumerated."""
    for name, property_ in properties(model).items():
        shape, place = property_.shape, f"{path}.{name}"
        if shape.item is not None:
            shape, place = shape.item, f"{place}[]"
        if shape.model is not None:
            yield from enumerations(shape.model, place)
        elif "enum" in shape.crd:
            yield place


def test_every_enumeration_of_both_kinds_has_a_case() -> None:
    """A new one needs a case here. Rules have none."""
    found = set(enumerations(FederatedHPASpec, "spec"))
    of_metrics = {path for path in found if path.startswith("spec.metrics[].")}

    assert found - of_metrics == {re.sub(r"[0-9]+", "", path) for path in UNKNOWN}
    assert {path.rpartition(".")[2] for path in of_metrics} == {"type", "aggregation"}
    assert list(enumerations(CronFederatedHPASpec, "spec")) == []


# -- in the controller -------------------------------------------------------------------------------------
@dataclass
class Seen:
    """The state of a run just after an edit, and four minutes later."""

    states: list[Any] = field(default_factory=list)
    conditions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def note(self, run: Running) -> None:
        """Adds everything that the controller could have written in the members."""
        clusters = run.fleet.clusters.values()
        hpas = [hpa["spec"] for one in clusters for hpa in one.store.all(AUTOSCALING, HPAS)]
        self.states.append((hpas, [dict(one.writes) for one in clusters]))
        assert run.hub is not None
        self.conditions = {one["type"]: one for one in run.hub.status["conditions"]}


def edited(mode: str, patch: Mapping[str, Any]) -> Seen:
    """Edits a running object while the load doubles, so that a size or a bound would have to change."""
    seen = Seen()
    world = World(
        "edited", "", several(2, 8), steps((0, 4), (3, 16)), 2, 20, events=(
            (180.0, lambda run: run.change(patch)),
            (182.0, seen.note),
            (420.0, seen.note),
        ),
        spec={"federatedHPAAssignment": {"federatedHPAAssignmentType": "Aggregated"}},
    )  # fmt: skip
    simulate(world, mode, 430 / 3600)
    return seen


@pytest.mark.parametrize("mode", [CENTRALIZED, DISTRIBUTED])
@pytest.mark.parametrize("path", UNKNOWN)
def test_an_unknown_value_holds_the_object(mode: str, path: str) -> None:
    """Nothing is written any more, and both conditions name the field and the value."""
    seen = edited(mode, UNKNOWN[path])

    assert seen.states[0] == seen.states[1]
    for kind in ("AbleToScale", "Ready"):
        condition = seen.conditions[kind]
        assert (condition["status"], condition["reason"]) == ("False", "InvalidObject")
        assert condition["message"].startswith(f'{path}: Unsupported value: "{NEW}": supported values: ')


@pytest.mark.parametrize("mode", [CENTRALIZED, DISTRIBUTED])
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_object_is_held(mode: str, name: str) -> None:
    """A value of another type, bounds that contradict each other, and a missing target hold it as well."""
    patch, named = WRONG[name]
    seen = edited(mode, patch)

    assert seen.states[0] == seen.states[1]
    assert seen.conditions["Ready"]["reason"] == "InvalidObject"
    assert named in seen.conditions["Ready"]["message"]


def test_a_mended_object_runs_again() -> None:
    """The next generation is judged anew."""
    seen = Seen()
    events = (
        (180.0, lambda run: run.change({"mode": NEW})),
        (240.0, lambda run: run.change({"mode": CENTRALIZED})),
        (420.0, seen.note),
    )
    world = World("fixed", "", several(2, 8), steps((0, 4), (3, 8)), 2, 20, events=events)

    result = simulate(world, CENTRALIZED, 430 / 3600)

    assert sum(result.tally.sizes[-1]) == 16
    assert seen.conditions["Ready"]["status"] == "True"


def test_unknown_fields_never_hold() -> None:
    """A field of a newer release is skipped, in the specification and in its parts. A condition names it."""
    seen = Seen()

    def newer(run: Running) -> None:
        """The hub has the CRDs of a newer release, and the object has its fields."""
        assert run.hub is not None
        run.hub.store.schemas.clear()
        run.change({"later": {"a": [1]}, "partialMetrics": {"policy": "ScaleUpOnly", "later": 1}})

    events = ((60.0, newer), (420.0, seen.note))
    world = World("later", "", several(2, 8), steps((0, 4), (3, 8)), 2, 20, events=events)

    result = simulate(world, CENTRALIZED, 430 / 3600)

    found = seen.conditions["HubCompatible"]
    assert sum(result.tally.sizes[-1]) == 16
    assert seen.conditions["Ready"]["reason"] == "UnknownField"
    assert seen.conditions["AbleToScale"]["status"] == "True"
    assert (found["status"], found["reason"]) == ("False", "UnknownField")
    assert "does not know spec.later, spec.partialMetrics.later, which" in found["message"]


def test_many_unknown_fields_are_counted() -> None:
    """The message has five paths at most, and short names."""
    spec = {"maxReplicas": 3, **{f"later{number}": 1 for number in range(7)}, "x" * 5_000: 1}

    (finding,) = unknown_fields(decode_spec(spec).judgement)

    assert "spec.later4 and 3 more, which has no effect" in finding.message
    assert len(finding.message) < 400


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_that_fails_does_not_hold_the_object(name: str) -> None:
    """The other metric still lets the workload grow with the load."""
    seen = edited(CENTRALIZED, {"metrics": [CPU, METRICS[name]]})

    assert seen.states[0] != seen.states[1]
    assert seen.conditions["AbleToScale"]["status"] == "True"
    assert seen.conditions["ScalingActive"]["reason"] == "ValidMetricFound"


# -- in replay ---------------------------------------------------------------------------------------------
BUSY: Final = [100, 100]


@pytest.mark.parametrize("mode", [CENTRALIZED, DISTRIBUTED])
@pytest.mark.parametrize("path", UNKNOWN)
def test_replay_holds_it_too(mode: str, path: str) -> None:
    """`fedhpa replay` answers with an error, a condition and no write."""
    spec = {"mode": mode, **UNKNOWN[path]}
    found = answered(scenario([cluster("m1", BUSY)], spec=spec))

    text = f'{path}: Unsupported value: "{NEW}": supported values: '
    able = next(one for one in found["conditions"] if one["type"] == "AbleToScale")
    assert found["error"].startswith(text)
    assert (able["status"], able["reason"]) == ("False", "InvalidObject")
    assert able["message"].startswith(text)
    assert not found["rescale"]
    assert found.get("writes", []) == []


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize(("usages", "rescale"), [(BUSY, True), ([1, 1], False)])
def test_an_unknown_value_of_a_metric_fails_this_metric(name: str, usages: list[int], rescale: bool) -> None:
    """The other metric may still scale up, and never down."""
    member = cluster("m1", usages, externalMetrics=[external("queue", "1")])
    found = answered(scenario([member], spec={"metrics": [CPU, METRICS[name]]}))

    failed = found["metrics"][1]
    assert found["rescale"] == rescale
    assert failed["proposal"] is None
    assert NEW in failed["error"]


@pytest.mark.parametrize("name", METRICS)
def test_members_judge_a_metric_of_mode_distributed(name: str) -> None:
    """Their own HPAs evaluate it, so the bounds are divided as before."""
    member = cluster("m1", BUSY)
    found = [
        answered(scenario([member], spec={"mode": DISTRIBUTED, "metrics": metrics}))
        for metrics in ([CPU], [CPU, METRICS[name]])
    ]

    assert found[0]["error"] is None
    assert [(one["error"], one["assignment"]) for one in found[1:]] == [(None, found[0]["assignment"])]
