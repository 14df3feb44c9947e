"""Failures that concern the rules of all objects: few log lines, and the gauge of the hub's checks."""

from __future__ import annotations

import asyncio
import gc

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from controller.decision_series import ControllerMetrics
from fedhpa.api.times import format_time
from fedhpa.kube import SYSTEM
from tests.support import karmada_crds
from tests.support.controller import NAMESPACE, world
from tests.support.rules import CRONS, autoscaled, minute_after, put_rules, rules_running, stored

pytestmark = pytest.mark.looptime(noop_cycles=0)


async def test_a_status_that_is_refused_for_long_makes_few_log_lines() -> None:
    """One line at the begin, one every ten minutes, and one at the end. The pauses grow to a minute."""
    async with autoscaled() as w:
        put_rules(w, {"name": "up", "schedule": minute_after(w, 2), "targetMinReplicas": 5})
        with capture_logs() as logs:
            async with rules_running(w):
                await asyncio.sleep(60)
                w.hub.refused["PATCH", "/office/status"] = 500
                await asyncio.sleep(1500)
                tries = w.hub.request_count("PATCH", "/office/status")
                w.hub.refused.clear()
                await asyncio.sleep(120)

        reported = [line["event"] for line in logs if "status" in line["event"]]
        assert reported == [
            "status not written",
            "status still not written",
            "status still not written",
            "status is written again",
        ]
        assert 20 <= tries <= 60
        assert all(line["name"] == "office" for line in logs if "status" in line["event"])


async def test_a_record_that_cannot_be_read_for_long_makes_few_log_lines() -> None:
    """The pass over the target fails every five seconds. It is logged as rarely as a refused status."""
    async with autoscaled() as w:
        put_rules(w, {"name": "up", "schedule": minute_after(w, 50), "targetMinReplicas": 5})
        w.hub.refused["GET", "/cronfederatedhpa.office"] = 500
        with capture_logs() as logs:
            async with rules_running(w):
                await asyncio.sleep(1500)
                w.hub.refused.clear()
                await asyncio.sleep(120)

        lines = [line["event"] for line in logs if line["event"].startswith("rules ")]
        assert lines == ["rules fail", "rules still fail", "rules still fail", "rules run again"]


async def test_an_object_that_is_not_ready_is_shown_with_its_reason() -> None:
    """The series follows the condition Ready, and ends with the object."""
    async with world(m1=1) as w:
        put_rules(w, {"name": "up", "schedule": minute_after(w, 1), "targetMinReplicas": 5})
        async with rules_running(w) as registry:

            def reasons() -> list[str]:
                found = [one for family in registry.collect() for one in family.samples]
                return [one.labels["reason"] for one in found if one.name == "fedhpa_cron_not_ready"]

            before = reasons()
            await asyncio.sleep(180)
            during = reasons()
            conditions = {one["type"]: one for one in stored(w)["status"]["conditions"]}
            w.hub.remove(CRONS, "office", NAMESPACE)
            await asyncio.sleep(30)
            after = reasons()

    assert conditions["Ready"]["status"] == "False"
    assert (before, during, after) == ([], [conditions["Ready"]["reason"]], [])


async def test_the_findings_about_rules_are_in_the_gauge_of_the_hub() -> None:
    """Karmada's CRD drops fields, and Karmada's controller runs the rules. Both findings end."""
    metrics = ControllerMetrics(registry := CollectorRegistry(), clock=SYSTEM.monotonic)

    def shown(reason: str) -> float | None:
        return registry.get_sample_value("fedhpa_controller_hub_finding", {"reason": reason})

    async with world(m1=1) as w:
        karmada_crds.install(w.hub)
        w.scale()
        put_rules(w, {"name": "up", "schedule": minute_after(w, 50), "targetMinReplicas": 5})
        found = stored(w)
        manager = {"manager": "karmada-controller-manager", "subresource": "status"}
        entry = manager | {"time": format_time(w.clock.wall())}
        w.hub.put(CRONS, {**found, "metadata": {**found["metadata"], "managedFields": [entry]}})
        async with rules_running(w, on_finding=lambda *what: metrics.set_hub_finding(*what, source="rules")):
            await asyncio.sleep(30)
            both = shown("FieldsPruned"), shown("AnotherController")
            # The FederatedHPAs of this process have no such finding.
            metrics.set_hub_finding("FieldsPruned", False)
            still = shown("FieldsPruned")
            w.hub.remove(CRONS, "office", NAMESPACE)
            await asyncio.sleep(30)
            gone = shown("AnotherController")
        ended = shown("FieldsPruned")

    assert both == (1, 1)
    assert still == 1
    assert gone == 0
    assert ended == 0


async def test_the_series_of_objects_end_with_the_work_of_their_shard() -> None:
    """Another process shows them then."""
    async with autoscaled() as w:
        put_rules(w, {"name": "up", "schedule": minute_after(w, 50), "targetMinReplicas": 5})
        gc.disable()
        try:
            async with rules_running(w) as registry:
                await asyncio.sleep(30)
                labels = {"namespace": NAMESPACE, "name": "office"}
                series = "fedhpa_cron_next_execution_timestamp_seconds", labels
                during = registry.get_sample_value(*series)
            after = registry.get_sample_value(*series)
        finally:
            gc.enable()

    assert during is not None
    assert after is None
