"""Failures of the hub, of members and of single objects show in series, and in few lines of the log."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from controller.federatedhpa.cluster_reader import MemberCaches
from controller.federatedhpa.snapshot import SnapshotBuilder
from controller.flags import DIRECT, KARMADA
from controller.hub_check import CRD_PATH
from controller.shards import Division, Shard, ShardElection
from fedhpa.api.times import format_time
from fedhpa.kube.client import ApiClient
from tests.support.controller import HPAS, LEASES, ControllerWorld, federated_hpa, world
from tests.support.fakeapi import eventually
from tests.support.timing import background

pytestmark = pytest.mark.looptime(noop_cycles=0)

PERIOD = 15.0
COUNT = 5
AGE = "fedhpa_controller_seconds_since_success"


def many(w: ControllerWorld) -> None:
    """Put several autoscalers on the hub, each with a workload."""
    for number in range(COUNT):
        name = f"web-{number}"
        w.members["m1"].deploy(2, name=name, app=name)
        w.hub.put(HPAS, federated_hpa(name, target=name))


def lines(logs: list[Any], *events: str) -> list[Any]:
    return [entry for entry in logs if entry["event"] in events and entry["log_level"] != "debug"]


async def test_hub_that_goes_and_returns_is_two_lines(logs: list[Any]) -> None:
    """A hub that stores no status is one line for all objects and reconciles, and its return another."""
    async with world(m1=2) as w:
        many(w)
        async with w.controller(sync_period=PERIOD) as controller:
            await asyncio.sleep(60)
            w.hub.refused["PUT", "/status"] = 503
            for milli in (60, 70, 80, 90, 60, 70, 80):
                w.members["m1"].use(milli)
                await asyncio.sleep(60)
            failed = controller.total("fedhpa_controller_status_write_failures_total")
            age = controller.value("fedhpa_controller_seconds_since_success", "web-1")
            w.hub.refused.clear()
            await asyncio.sleep(60)
            fresh = controller.value("fedhpa_controller_seconds_since_success", "web-1")

        (gone,) = lines(logs, "the hub stores no status")
        (back,) = lines(logs, "the hub stores statuses again")
        assert lines(logs, "autoscaler fails") == []
        assert gone["log_level"] == "warning"
        assert back["failures"] == failed > COUNT
        assert age is not None
        assert age > 60
        assert fresh is not None
        assert fresh <= 2 * PERIOD


async def test_failed_writes_of_scales_are_counted_by_cluster() -> None:
    """The series names the cluster that refuses."""
    async with world(m1=2, m2=2) as w:
        w.load(1000)
        w.members["m2"].refused["PUT", "/scale"] = 403
        w.scale(clusterAffinity={"clusterNames": ["m1", "m2"]})
        async with w.controller() as controller:
            await eventually(lambda: w.events("FailedRescale"))
            series = "fedhpa_controller_scale_write_failures_total"
            found = controller.series.get_sample_value(series, {"cluster": "m2"})
            other = controller.series.get_sample_value(series, {"cluster": "m1"})

        assert found
        assert other == 0


async def test_object_shows_its_bounds_lateness_and_age() -> None:
    """Bounds, lateness and the time since the last success exist while the object does."""
    async with world(m1=2) as w:
        w.scale(minReplicas=2, maxReplicas=7)
        async with w.controller(sync_period=PERIOD) as controller:
            await asyncio.sleep(4 * PERIOD)
            shown = [
                controller.value(f"fedhpa_controller_{name}")
                for name in ("min_replicas", "max_replicas", "current_replicas")
            ]
            age = controller.value("fedhpa_controller_seconds_since_success")
            lateness = controller.total("fedhpa_controller_reconcile_lateness_seconds_count")
            w.hub.remove(HPAS, "web", "shop")
            await asyncio.sleep(1)
            gone = controller.value("fedhpa_controller_seconds_since_success")

        assert shown == [2, 7, 2]
        assert age is not None
        assert 0 <= age <= PERIOD
        assert lateness >= 3
        assert gone is None


async def test_age_of_an_object_that_cannot_be_decided_grows() -> None:
    """The age of an object without any decision grows."""
    async with world(m1=2) as w:
        w.scale(target="absent", clusterAffinity={"clusterNames": ["m1"]})
        async with w.controller(sync_period=PERIOD) as controller:
            await asyncio.sleep(100)

            age = controller.value("fedhpa_controller_seconds_since_success")
        assert age is not None
        assert age > 90


@pytest.mark.parametrize("reason", ["NotBuilt", "AnotherController"])
async def test_object_that_must_not_be_scaled_has_no_age(reason: str) -> None:
    """An object that waits for a person or belongs to Karmada's controller is no alert; later it is again."""
    async with world(m1=2) as w:
        w.hub.deploy(2)
        w.scale()
        async with w.controller(sync_period=PERIOD, propagation=KARMADA) as controller:
            await asyncio.sleep(30)
            before = controller.value(AGE)
            if reason == "NotBuilt":
                w.scale(autoscaleMultiClusterDelay=60)
            else:
                written = {"manager": "karmada-controller-manager", "subresource": "status"}
                stored = w.hub.find(HPAS, "web", "shop")
                assert stored is not None
                entry = {**written, "time": format_time(w.clock.wall())}
                stored["metadata"]["managedFields"] = [entry]
                w.hub.put(HPAS, stored)
            await asyncio.sleep(90)
            found, shown = w.condition("ScalingActive")[1], controller.value(AGE)
            w.scale()
            await asyncio.sleep(400)
            after = controller.value(AGE)

        assert before is not None
        assert before <= PERIOD
        assert (found, shown) == (reason, None)
        assert after is not None
        assert after <= PERIOD


async def test_paused_controller_succeeds_when_it_decides() -> None:
    """With --pause the age shows that decisions are made, although nothing is written."""
    async with world(m1=2) as w:
        w.load(400)
        w.scale()
        async with w.controller(sync_period=PERIOD, paused=True) as controller:
            await asyncio.sleep(600)
            age = controller.value(AGE)

        assert age is not None
        assert age <= PERIOD


async def test_dropped_events_are_counted() -> None:
    """Events that the hub refuses are counted."""
    async with world(m1=2) as w:
        w.load(1000)
        w.hub.refused["POST", "/events"] = 403
        w.scale()
        async with w.controller() as controller:
            await eventually(lambda: controller.total("fedhpa_controller_events_dropped_total") > 0)


async def test_probes_of_members_are_timed() -> None:
    """The duration of each member's last probe is shown."""
    async with world(m1=2) as w, w.controller() as controller:
        await asyncio.sleep(10)
        name = "fedhpa_controller_member_probe_duration_seconds"
        seconds = controller.series.get_sample_value(name, {"cluster": "m1"})

        assert seconds is not None
        assert 0 < seconds < 1


@pytest.mark.parametrize(
    "definition",
    [{"spec": ["odd"]}, {"spec": {"versions": {"v1": 1}}}, {"spec": {"versions": ["v1"]}}, {"spec": 7}],
    ids=str,
)
async def test_odd_definition_on_the_hub_fails_no_reconcile(definition: Any, logs: list[Any]) -> None:
    """A CustomResourceDefinition of an unexpected shape fails no reconcile and is reported nowhere."""
    async with world(m1=2) as w:
        w.hub.answers[CRD_PATH] = lambda: definition
        w.scale()
        async with w.controller() as controller:
            await w.reconciles(controller, 3)

            assert controller.total("fedhpa_controller_reconcile_failures_total") == 0
        assert [entry["task"] for entry in lines(logs, "task failed")] in ([], ["hub-check"])


@pytest.mark.parametrize(
    "spec", [["odd"], {"leaseDurationSeconds": "soon", "holderIdentity": "x"}, {"holderIdentity": 7}, "odd"]
)
async def test_odd_lease_ends_no_process(spec: Any) -> None:
    """A Lease that somebody spoiled makes the election retry, and a repaired one is taken."""
    async with world(m1=2) as w:
        metadata = {"namespace": "kube-system", "name": "fedhpa-controller-0-of-1"}
        w.hub.put(LEASES, {"metadata": metadata, "spec": spec})
        led: list[Shard] = []

        async def work(shard: Shard, _: object) -> None:
            led.append(shard)
            await asyncio.Event().wait()

        async with ApiClient(w.hub.config()) as hub:
            election = ShardElection(hub, "kube-system", "me", Division(), clock=w.clock)
            async with background(election.run(work)) as task:
                await asyncio.sleep(30)
                w.hub.put(LEASES, {"metadata": metadata, "spec": {}})
                await eventually(lambda: led, 90)

                assert not task.done()


async def test_work_that_raises_is_begun_again() -> None:
    """An exception of a shard's work releases the Lease, and the shard is taken again."""
    async with world(m1=2) as w:
        begun: list[tuple[Shard, bool]] = []
        shown: list[bool] = []

        async def work(shard: Shard, _: object) -> None:
            begun.append((shard, True))
            if len(begun) < 3:
                raise KeyError("odd")
            await asyncio.Event().wait()

        async with ApiClient(w.hub.config()) as hub:
            election = ShardElection(
                hub,
                "kube-system",
                "me",
                Division(),
                clock=w.clock,
                on_lead=lambda _, leads: shown.append(leads),
            )
            async with background(election.run(work)) as task:
                await eventually(lambda: len(begun) == 3, 120)

                assert not task.done()
        assert shown[:5] == [True, False, True, False, True]


def about(logs: list[Any], *names: str) -> list[tuple[str, str]]:
    """The lines about the health of autoscalers: text and reason."""
    wanted = names or ("web",)
    return [
        (entry["event"].removeprefix("autoscaler "), entry.get("reason", ""))
        for entry in lines(logs, "autoscaler fails", "autoscaler still fails", "autoscaler is well again")
        if entry["name"] in wanted
    ]


CAUSES: dict[str, tuple[dict[str, Any], Any, Any, str]] = {
    "no scale": (
        {"clusterAffinity": {"clusterNames": ["m1"]}},
        lambda w: w.members["m1"].refused.update({("GET", "/deployments"): 500, ("GET", "/scale"): 500}),
        lambda w: w.members["m1"].refused.clear(),
        "FailedGetScale",
    ),
    "no metrics": (
        {},
        lambda w: w.members["m1"].faults.status.update({"/apis/metrics.k8s.io": 500}),
        lambda w: w.members["m1"].faults.status.clear(),
        "FailedGetResourceMetric",
    ),
    "another owner": (
        {},
        lambda w: w.scale("other"),
        lambda w: w.hub.remove(HPAS, "other", "shop"),
        "AmbiguousSelector",
    ),
    "not built": (
        {},
        lambda w: w.scale(autoscaleMultiClusterDelay=60),
        lambda w: w.scale(),
        "NotBuilt",
    ),
    "a refused scale": (
        {},
        lambda w: (w.members["m1"].refused.update({("PUT", "/scale"): 403}), w.load(400)),
        lambda w: w.members["m1"].refused.clear(),
        "FailedUpdateScale",
    ),
    "an invalid object": (
        {},
        lambda w: w.scale(metrics="odd"),
        lambda w: w.scale(),
        "InvalidObject",
    ),
}


@pytest.mark.parametrize("cause", CAUSES)
async def test_failing_autoscaler_is_a_line_at_both_ends_and_reminders(cause: str, logs: list[Any]) -> None:
    """Twenty-five minutes of failures are one line, two reminders and one line at the end."""
    spec, breaks, ends, reason = CAUSES[cause]
    async with world(m1=2) as w:
        w.hub.deploy(2)
        w.scale(**spec)
        # With direct propagation every field is built.
        propagation = KARMADA if reason == "NotBuilt" else DIRECT
        async with w.controller(sync_period=PERIOD, propagation=propagation):
            await asyncio.sleep(60)
            before = about(logs)
            breaks(w)
            await asyncio.sleep(25 * 60)
            ends(w)
            await asyncio.sleep(120)

        assert before == []
        assert about(logs) == [
            ("fails", reason),
            ("still fails", reason),
            ("still fails", reason),
            ("is well again", ""),
        ]
        assert lines(logs, "task failed") == []


async def test_metric_that_fails_beside_another_is_told(logs: list[Any]) -> None:
    """An object that scales by one of two metrics says which one fails."""
    absent = {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "10"}}
    async with world(m1=2) as w:
        w.load(200)
        path = "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/queue"
        kind = {"kind": "ExternalMetricValueList", "apiVersion": "external.metrics.k8s.io/v1beta1"}
        w.members["m1"].answers[path] = lambda: {**kind, "metadata": {}, "items": []}
        stored = federated_hpa()["spec"]["metrics"]
        w.scale(metrics=[*stored, {"type": "External", "external": absent}], maxReplicas=3)
        async with w.controller(sync_period=PERIOD):
            await asyncio.sleep(60)

        assert about(logs) == [("fails", "FailedGetMetric")]
        assert lines(logs, "autoscaler fails")[0]["error"].startswith("metric queue: ")
        assert w.replicas == {"m1": 3}


async def test_crash_names_object_and_place_in_one_line(logs: list[Any], monkeypatch: Any) -> None:
    """A reconcile that raises the same error each time is one line, a reminder, and one line at the end."""
    original = SnapshotBuilder.build

    async def build(self: Any, key: Any, *arguments: Any, **named: Any) -> Any:
        if key[1] == "odd":
            raise KeyError("replicas")
        return await original(self, key, *arguments, **named)

    async with world(m1=2) as w:
        w.members["m1"].deploy(2, name="odd", app="odd")
        w.scale("odd", target="odd")
        w.scale()
        monkeypatch.setattr(SnapshotBuilder, "build", build)
        async with w.controller(sync_period=PERIOD) as controller:
            await asyncio.sleep(15 * 60)
            failures = controller.total("fedhpa_controller_reconcile_failures_total")
            monkeypatch.undo()
            await asyncio.sleep(60)

        assert failures > 15 * 60 / PERIOD - 10
        assert about(logs) == []
        assert about(logs, "odd") == [
            ("fails", "ReconcileFailed"),
            ("still fails", "ReconcileFailed"),
            ("is well again", ""),
        ]
        first = lines(logs, "autoscaler fails")[0]
        assert (first["namespace"], first["name"]) == ("shop", "odd")
        assert first["error"].startswith("internal error: KeyError: 'replicas' (tests.virtual.")
        assert lines(logs, "task failed") == []


async def test_crash_about_a_member_is_one_line_and_reminders(logs: list[Any], monkeypatch: Any) -> None:
    """A member whose data raises at each reconcile is named with the object, at most every ten minutes."""
    original = MemberCaches.usage_decoder

    def decoder(self: Any, cluster: str) -> Any:
        if cluster == "m2":
            raise KeyError("replicas")
        return original(self, cluster)

    monkeypatch.setattr(MemberCaches, "usage_decoder", decoder)
    async with world(m1=2, m2=2) as w:
        w.scale(clusterAffinity={"clusterNames": ["m1", "m2"]})
        async with w.controller(sync_period=PERIOD):
            await asyncio.sleep(15 * 60)

        found = [(line["cluster"], line["name"], line["error"]) for line in lines(logs, "task failed")]
        assert found
        assert set(found) == {("m2", "web", "KeyError: 'replicas'")}
        assert len(found) <= 4


async def miss_scales(w: ControllerWorld, names: list[str], path: str) -> None:
    """For five minutes the hub serves no scale of these autoscalers whose path ends with `path`."""
    for name in names:
        w.members["m1"].deploy(2, name=name, app=name)
        w.hub.deploy(2, name=name, app=name)
        w.hub.put(HPAS, federated_hpa(name, target=name))
    async with w.controller(sync_period=PERIOD, propagation=KARMADA):
        await asyncio.sleep(60)
        w.hub.refused["GET", path] = 503
        await asyncio.sleep(5 * 60)
        w.hub.refused.clear()
        await asyncio.sleep(60)


async def test_hub_that_serves_no_scale_is_told_once_for_all_objects(logs: list[Any]) -> None:
    """A hub without an answer is one line when it goes and one when it returns, not one for each object."""
    everybody = [f"web-{number}" for number in range(COUNT)]
    async with world(m1=2) as w:
        await miss_scales(w, everybody, "/scale")

    assert about(logs, *everybody) == []
    (gone,) = lines(logs, "the hub does not answer")
    (back,) = lines(logs, "the hub answers again")
    assert gone["reason"] == "HubUnavailable"
    assert back["failures"] > COUNT


async def test_hub_that_serves_all_but_one_scale_is_told_for_that_object(logs: list[Any]) -> None:
    """While the hub serves others, the object that it does not serve fails."""
    async with world(m1=2) as w:
        await miss_scales(w, ["web", "odd"], "/odd/scale")

    assert about(logs) == []
    assert about(logs, "odd") == [("fails", "FailedGetScale"), ("is well again", "")]
    assert lines(logs, "the hub does not answer") == []


async def test_refused_status_is_reminded_of_and_ends(logs: list[Any]) -> None:
    """An object whose status is refused fails until it is stored."""
    async with world(m1=2) as w:
        w.hub.refused["PUT", "/web/status"] = 403
        w.scale()
        async with w.controller(sync_period=PERIOD):
            await asyncio.sleep(15 * 60)
            w.hub.refused.clear()
            await asyncio.sleep(60)

        assert about(logs) == [
            ("fails", "FailedUpdateStatus"),
            ("still fails", "FailedUpdateStatus"),
            ("is well again", ""),
        ]


async def test_healthy_start_has_no_line_about_failures(logs: list[Any]) -> None:
    """Members that are listed for the first time are no failure, and a member that is away is one line."""
    async with world(m1=2, m2=2, m3=2) as w:
        await w.members["m3"].stop()
        w.scale(clusterAffinity={"clusterNames": ["m1", "m2"]})
        async with w.controller(sync_period=PERIOD):
            await asyncio.sleep(30)

        told = lines(logs, "member not ready", "member still not ready")
        assert [line["cluster"] for line in told] == ["m3"]
        assert told[0]["reason"] == "FedHPAProbeFailed"
        assert about(logs) == []
        assert [entry for entry in logs if entry["log_level"] in ("warning", "error")] == []


async def test_reconcile_that_hangs_is_counted_and_told(logs: list[Any], monkeypatch: Any) -> None:
    """A reconcile that takes more than a minute ends, is counted, and shows on the object."""
    original = SnapshotBuilder.build

    async def build(self: Any, key: Any, *arguments: Any, **named: Any) -> Any:
        if key[1] == "odd":
            await asyncio.sleep(3600)
        return await original(self, key, *arguments, **named)

    async with world(m1=2) as w:
        w.scale("odd", target="odd")
        w.scale()
        monkeypatch.setattr(SnapshotBuilder, "build", build)
        async with w.controller(sync_period=PERIOD) as controller:
            await asyncio.sleep(300)
            series = "fedhpa_controller_reconcile_failures_total"
            count = controller.series.get_sample_value(series, {"reason": "ReconcileTimedOut"})
            age = controller.value(AGE)

        assert count == 4
        assert age is not None
        assert age <= PERIOD
        assert w.condition("AbleToScale", "odd")[1] == "ReconcileTimedOut"
        assert about(logs, "odd") == [("fails", "ReconcileTimedOut")]


async def test_partial_write_is_logged_and_shown(logs: list[Any]) -> None:
    """If one of two clusters refuses its share, a line says what was written, and the object fails."""
    async with world(m1=2, m2=2) as w:
        w.scale(clusterAffinity={"clusterNames": ["m1", "m2"]})
        async with w.controller(sync_period=PERIOD):
            await asyncio.sleep(60)
            w.members["m2"].refused["PUT", "/scale"] = 403
            w.load(400)
            await asyncio.sleep(30)

        (partial, *_) = lines(logs, "scale written in part")
        assert partial["written"] == {"m1": 4}
        assert about(logs)[0] == ("fails", "FailedUpdateScale")


async def test_first_reconciles_of_a_deleted_and_unreadable_object_leave_nothing(logs: list[Any]) -> None:
    """An object that cannot be decoded is reminded of until it is deleted."""
    async with world(m1=2) as w:
        broken = federated_hpa("deep")
        inner: dict[str, Any] = {}
        for _ in range(500):
            inner = {"x": inner}
        broken["spec"]["clusterHPAPreference"] = {"x": inner}
        w.hub.put(HPAS, broken)
        async with w.controller(sync_period=PERIOD):
            await asyncio.sleep(15 * 60)
            w.hub.remove(HPAS, "deep", "shop")
            await asyncio.sleep(30 * 60)

        assert about(logs, "deep") == [("fails", "InvalidObject"), ("still fails", "InvalidObject")]


async def test_newest_reason_of_a_member_that_is_not_ready_is_logged(logs: list[Any]) -> None:
    """A member that is not ready for another reason than first is logged again, with that reason."""
    async with world(m1=2, m2=2) as w, w.controller(sync_period=PERIOD):
        await asyncio.sleep(30)
        w.members["m2"].faults.status["/readyz"] = 500
        await asyncio.sleep(120)
        await w.members["m2"].stop()
        await asyncio.sleep(120)

    first, *others = lines(logs, "member not ready", "member still not ready")
    assert (first["event"], first["cluster"]) == ("member not ready", "m2")
    assert "cannot connect" not in first["message"]
    assert 1 <= len(others) <= 2
    assert others[-1]["message"].startswith("cannot connect")


async def test_hub_that_stops_is_few_lines_and_none_for_each_object(logs: list[Any]) -> None:
    """While the hub is away the members are read, and its return needs no restart."""
    async with world(m1=2) as w:
        many(w)
        async with w.controller(sync_period=PERIOD):
            await asyncio.sleep(60)
            before = len(logs)
            await w.hub.stop()
            w.members["m1"].use(80)
            await asyncio.sleep(600)
            await w.hub.start()
            await asyncio.sleep(120)

        told = [entry for entry in logs[before:] if entry["log_level"] != "debug"]
        rescaled = {entry["name"] for entry in told if entry["event"] == "scaled"}
        others = [entry["event"] for entry in told if entry["event"] != "scaled"]
        assert len(rescaled) == COUNT
        assert len(others) <= 2 * COUNT
        assert [event for event in others if event.startswith("autoscaler")] == []
        assert others.count("the hub stores no status") <= 1
