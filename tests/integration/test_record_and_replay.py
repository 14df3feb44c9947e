"""A scenario of `fedhpa record` gives the decision of the controller."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from controller.federatedhpa.one_shot import one_shot_reader, settings_for
from controller.flags import DIRECT, HUB, KARMADA
from fedhpa.api.errors import ConfigError
from fedhpa.cli.replay import answer
from fedhpa.kube.client import ApiClient
from tests.integration.test_controller_metric_types import (
    EXTERNAL,
    by_external,
    by_pods,
    serve_external,
    serve_pods,
)
from tests.integration.test_hub_checks import written_by_karmada
from tests.integration.test_metrics_through_the_hub import serve_usage
from tests.support.controller import HPAS, NAMESPACE, ControllerWorld, world
from tests.support.fakeapi import Object, eventually

pytestmark = pytest.mark.looptime(noop_cycles=0)

# The parts of a decision that a later reconcile without changes repeats.
SAME = ("currentReplicas", "desiredReplicas", "rescale", "reason", "error", "metrics")


async def recorded(w: ControllerWorld, name: str = "web", metrics_via: str = "") -> Object:
    """The scenario of an autoscaler, read by a one-shot reader."""
    raw = w.hub.find(HPAS, name, NAMESPACE)
    assert raw is not None
    async with ApiClient(w.hub.config()) as hub:
        settings = await settings_for(hub, raw, metrics_via=metrics_via)
        async with one_shot_reader(hub, settings, clock=w.clock) as reader:
            found = await reader.read(raw)
            return found.scenario()


def replayed(scenario: Object) -> Object:
    """The decision of `fedhpa replay` for the scenario."""
    line, readable = answer(json.dumps(scenario).encode())
    assert readable, line
    found: Object = json.loads(line)
    return found


def told(w: ControllerWorld, name: str = "web") -> Object:
    """The last recorded decision."""
    found: Object = w.record(f"federatedhpa.{name}")["decision"]
    return found


def same(decision: Object, stored: Object) -> None:
    assert {key: filled(decision[key]) for key in SAME} == {key: filled(stored[key]) for key in SAME}


def filled(value: Any) -> Any:
    """The value without empty parts, which the compact form omits."""
    if isinstance(value, list):
        return [{key: item for key, item in entry.items() if item not in (None, {})} for entry in value]
    return value


async def settled(w: ControllerWorld, **settings: Any) -> None:
    """Run a controller until nothing changes, then stop it."""
    async with w.controller(sync_period=2.0, **settings) as controller:
        await eventually(lambda: w.status())
        await w.reconciles(controller, 3)
        await asyncio.sleep(61)  # what stays is written once a minute


@pytest.mark.parametrize("propagation", [DIRECT, KARMADA])
async def test_a_recording_decides_as_the_controller_did(propagation: str) -> None:
    """The size, the metrics with their shares, and the reasons agree; the status has the propagation."""
    async with world(m1=3, m2=2) as w:
        w.hub.deploy(5)
        w.load(300)
        w.scale(maxReplicas=5)
        await settled(w, propagation=propagation)
        scenario = await recorded(w)

    assert ("target" in scenario) == (propagation == KARMADA)
    same(replayed(scenario), told(w))
    assert replayed(scenario)["coverage"]["answered"] == ["m1", "m2"]


async def test_answers_to_single_questions_are_recorded() -> None:
    """A metric that only one cluster lacks fails only there, also in the replay."""
    async with world(m1=2, m2=2) as w:
        serve_pods(w.members["m1"], 10_000)
        serve_pods(w.members["m2"], 10_000)
        serve_external(w.members["m1"], 40)
        w.members["m2"].faults.status[f"{EXTERNAL}/namespaces/{NAMESPACE}/depth"] = 500
        w.scale(metrics=[by_pods(), by_external(averageValue="10")])
        await settled(w)
        scenario = await recorded(w)

    assert set(scenario["clusters"][0]["customMetrics"]["byMetric"]) == {"0"}
    decision = replayed(scenario)
    same(decision, told(w))
    assert list(decision["coverage"]["missing"]) == ["m2"]


async def test_usage_that_the_hub_serves_is_recorded() -> None:
    """With --metrics-via=hub the recording reads the hub's metrics too."""
    async with world(m1=2, m2=2) as w:
        serve_usage(w, 60, "m1", "m2")
        w.scale(dryRun=True, clusterAffinity={"clusterNames": ["m1", "m2"]})
        await settled(w, metrics_via=HUB)
        scenario = await recorded(w, metrics_via=HUB)

    same(replayed(scenario), told(w))
    assert replayed(scenario)["metrics"][0]["current"]["averageUtilization"] == 60


async def test_a_missing_cluster_is_recorded_as_missing() -> None:
    """A missing cluster is recorded with its reason, its last share and the start of its absence."""
    async with world(m1=3, m2=3) as w:
        w.scale()
        async with w.controller(sync_period=1.0) as controller:
            await eventually(lambda: w.condition("MetricsComplete")[0] == "True")
            await w.members["m2"].stop()
            await eventually(lambda: w.state("m2") == "Missing", 75)
            await w.reconciles(controller)
        scenario = await recorded(w)

    assert list(scenario["record"]["absences"]) == ["m2"]
    decision = replayed(scenario)
    assert decision["currentReplicas"] == 6
    assert list(decision["coverage"]["missing"]) == ["m2"]
    assert [entry.get("state") for entry in decision["status"]["clusters"]] == [None, "Missing"]


async def test_two_owners_are_recorded_as_two_owners() -> None:
    """Other autoscalers of the same pods are found, so that the replay does not scale either."""
    async with world(m1=3) as w:
        w.load(900)
        w.scale()
        w.scale("api")
        async with w.controller():
            await eventually(lambda: w.condition("ScalingActive")[1] == "AmbiguousSelector")
        scenario = await recorded(w)

    assert scenario["ambiguousWith"] == [f"{NAMESPACE}/api", f"{NAMESPACE}/web"]
    assert "multiple HPAs" in replayed(scenario)["error"]


async def test_settings_of_the_controller_are_recorded() -> None:
    """A flag that affects decisions is in the status, and so in the recording."""
    from fedhpa.decision import ControllerSettings

    async with world(m1=4) as w:
        w.load(220)
        w.scale()
        await settled(w, decision=ControllerSettings(tolerance=0.5))
        scenario = await recorded(w)

    assert scenario["controller"]["tolerance"] == 0.5
    same(replayed(scenario), told(w))


@pytest.mark.parametrize("path", ["/clusters", "/secrets"])
async def test_a_right_that_lacks_is_named(path: str) -> None:
    """A cluster that must not be read is an error, not a missing cluster."""
    async with world(m1=2) as w:
        w.scale()
        w.hub.refused["GET", path] = 403
        with pytest.raises(ConfigError, match="the caller needs permission"):
            await recorded(w)


async def test_nothing_is_written() -> None:
    """Recording writes nothing to the hub or the members."""
    async with world(m1=2) as w:
        w.load(900)
        w.scale()
        await recorded(w)

        assert w.hub.writes == []
        assert w.members["m1"].writes == []


async def test_a_recording_says_that_another_controller_acts() -> None:
    """The replayed decision is blocked for the same reason as the controller's."""
    async with world(m1=2) as w:
        w.load(400)
        w.scale()
        written_by_karmada(w)
        async with w.controller(sync_period=1.0):
            await eventually(lambda: w.condition("ScalingActive")[:2] == ("False", "AnotherController"))
        scenario = await recorded(w)

    assert scenario["blocked"]["reason"] == "AnotherController"
    assert replayed(scenario)["rescale"] is False
    assert replayed(scenario)["error"] == told(w)["error"]
