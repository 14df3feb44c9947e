"""A hold stops scaling within seconds, survives restarts, and leaves no jump behind when it ends."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from controller.flags import MEMBERS
from controller.shards import CRON
from fedhpa.api.hold import HOLD_ANNOTATION, UNTIL_ANNOTATION
from fedhpa.api.times import format_time
from fedhpa.kube import StaticCredentials
from testbed.embedded.api.server import new_namespace
from testbed.embedded.objects.kinds import NAMESPACES
from tests.support.controller import HPAS as FHPAS
from tests.support.federation import HPAS, Controller, Federation, federation, until
from tests.support.federation.controller import INSTALLED_IN
from tests.support.federation.distributed import Distributed, distributed
from tests.support.federation.planes import EVENTS, NAME, NAMESPACE
from tests.support.fewer_rights import LEAST
from tests.support.rules import autoscaled, bounds, put_rules, ready, rule_up, rules_running
from tests.virtual.test_no_right_is_idle import grant_all

pytestmark = pytest.mark.looptime(noop_cycles=0)

CRONS = ("autoscaling.karmada.io", "cronfederatedhpas")
DAY = 86400.0
# Usage is at the target with this much load a pod.
PER_POD = 50


def annotate(f: Federation, value: str | None, *key: str, kind: Any = HPAS, until: str = "") -> None:
    """Write or remove the annotations, by default those of the autoscaler."""
    store = f.hub.server.store
    found = store.get(kind, *(key or (NAMESPACE, NAME)))
    names = (HOLD_ANNOTATION, UNTIL_ANNOTATION)
    kept = {
        name: text for name, text in (found["metadata"].get("annotations") or {}).items() if name not in names
    }
    if value is not None:
        kept[HOLD_ANNOTATION] = value
    if until:
        kept[UNTIL_ANNOTATION] = until
    store.update(kind, {**found, "metadata": {**found["metadata"], "annotations": kept}})


def held_since(controller: Controller) -> float | None:
    """The series of the autoscaler's hold."""
    about = {"namespace": NAMESPACE, "hpa_name": NAME}
    value: float | None = controller.series.get_sample_value(
        "fedhpa_controller_held_since_timestamp_seconds", about
    )
    return value


async def test_a_held_size_falls_only_after_the_hold(tmp_path: Path) -> None:
    """Load falls in a hold of two hours over a restart. Its age is kept, and then the size follows usage."""
    async with federation(tmp_path, m1=6, m2=6) as f:
        f.demand(12 * PER_POD)
        f.scale()
        async with f.controller(calm=True, sync_period=30) as first:
            await until(lambda: f.condition("Ready")[1] == "Reconciled")
            annotate(f, "down")
            await until(lambda: f.condition("Held")[0] == "True", 5)
            began = f.clock.wall()
            f.demand(3 * PER_POD)
            await asyncio.sleep(3600)
            during, since = f.total, held_since(first)
            ready = f.condition("Ready")
            await first.stop()
        async with f.controller(calm=True, sync_period=30) as second:
            await asyncio.sleep(3600)
            restarted = held_since(second)
            before = len(f.rescales)
            annotate(f, None)
            await until(lambda: f.total == 3, 60)
            await asyncio.sleep(120)

            assert held_since(second) is None
        assert during == 12
        assert ready[:2] == ("True", "Held")
        assert since is not None
        assert abs(since - began) < 5
        assert restarted == since
        assert {one.member for one in f.rescales[before:]} == {"m1", "m2"}
        assert f.total == 3
        assert [event["count"] for event in f.events("Held")] == [1]
        assert len(f.events("HoldEnded")) == 1


async def test_a_release_waits_for_the_window(tmp_path: Path) -> None:
    """Load that fell a moment before the end of a hold still has to leave the stabilization window."""
    async with federation(tmp_path, m1=6, m2=6) as f, f.controller(calm=True):
        f.demand(12 * PER_POD)
        f.scale()
        await until(lambda: f.condition("Ready")[1] == "Reconciled")
        annotate(f, "all", until=format_time(f.clock.wall() + 600))
        await asyncio.sleep(540)
        f.demand(3 * PER_POD)
        await asyncio.sleep(180)
        after_end = f.total, f.condition("Held")[:2]
        await asyncio.sleep(240)

        assert after_end == (12, ("False", "NotHeld"))
        assert f.total == 3


@pytest.mark.parametrize("place", [NAMESPACE, INSTALLED_IN])
async def test_a_namespace_holds_all_its_objects_at_once(tmp_path: Path, place: str) -> None:
    """A controller that starts in a hold of a namespace scales nothing, and a release acts in seconds."""
    async with federation(tmp_path, m1=6, m2=6) as f:
        if place != NAMESPACE:
            f.hub.server.store.create(NAMESPACES, new_namespace(place))
        annotate(f, "all", "", place, kind=NAMESPACES)
        f.demand(24 * PER_POD)
        f.scale()
        async with f.controller(calm=True, sync_period=120):
            await asyncio.sleep(600)
            held = f.total, f.condition("Held")[2]
            annotate(f, None, "", place, kind=NAMESPACES)
            await until(lambda: f.total > 12, 5)

        assert held[0] == 12
        assert held[1].endswith(f"hold all on namespace {place}")


async def test_a_hold_of_another_namespace_changes_nothing(tmp_path: Path) -> None:
    """Only the namespace of the object and that of the controller count."""
    async with federation(tmp_path, m1=2, m2=2) as f:
        f.hub.server.store.create(NAMESPACES, new_namespace("other"))
        annotate(f, "all", "", "other", kind=NAMESPACES)
        f.demand(8 * PER_POD)
        f.scale()
        async with f.controller(calm=True):
            await until(lambda: f.total == 8, 120)

            assert f.condition("Held") == ("", "", "")


async def test_unreadable_namespaces_are_reported(tmp_path: Path) -> None:
    """Without the right, holds of namespaces are unknown: the object says so, and is scaled all the same."""
    rule = "fedhpa:controller: /namespaces list/watch"
    async with federation(tmp_path, m1=2, m2=2) as f:
        grant_all(f, rule, "direct", MEMBERS, [])
        f.demand(8 * PER_POD)
        f.scale()
        async with f.controller(calm=True, credentials=StaticCredentials(f"Bearer {LEAST}")):
            await until(lambda: f.total == 8, 120)
            await asyncio.sleep(30)

            assert f.condition("HubCompatible")[:2] == ("False", "NamespacesUnreadable")


def behaviors(d: Distributed) -> dict[str, Any]:
    """The selectPolicy of each direction of the members' HPAs."""
    found = {}
    for name in d.f.members:
        behavior = (d.hpa(name) or {"spec": {}})["spec"].get("behavior") or {}
        found[name] = {one: rules.get("selectPolicy") for one, rules in behavior.items()}
    return found


async def test_member_hpas_stop_in_the_held_direction(tmp_path: Path) -> None:
    """Mode Distributed: no member scales down in the hold, and then each follows its usage again."""
    async with distributed(tmp_path, m1=4, m2=4) as d, d.f.controller(calm=True):
        await d.begin(8, maxReplicas=16)
        await asyncio.sleep(120)
        free = behaviors(d)
        annotate(d.f, "down")
        await until(lambda: all(one.get("scaleDown") == "Disabled" for one in behaviors(d).values()), 10)
        d.f.demand(2 * PER_POD)
        await asyncio.sleep(1800)
        quiet = d.f.now()
        await asyncio.sleep(600)
        held, writes = d.f.replicas, d.hpa_writes(quiet)
        d.f.demand(12 * PER_POD)
        await until(lambda: d.f.total == 12, 300)
        d.f.demand(2 * PER_POD)
        await asyncio.sleep(600)
        annotate(d.f, None)
        await until(lambda: behaviors(d) == free, 10)
        await until(lambda: d.f.total == 2, 900)

        assert held == {"m1": 4, "m2": 4}
        assert writes == []
        assert d.f.events("MemberHPARepaired") == []


async def test_a_hold_reaches_all_members_in_one_reconcile(tmp_path: Path) -> None:
    """Twelve member HPAs are disabled seconds after the annotation, and none waits for the next period."""
    members = {f"m{number}": 1 for number in range(12)}
    async with distributed(tmp_path, **members) as d, d.f.controller(calm=True, sync_period=120):
        d.scale(minReplicas=12, maxReplicas=40)
        d.f.demand(12 * PER_POD)
        await until(lambda: d.f.condition("Assigned")[0] == "True", 200)
        await asyncio.sleep(150)
        annotate(d.f, "all")
        disabled = {"scaleDown": "Disabled", "scaleUp": "Disabled"}
        await until(lambda: all(one == disabled for one in behaviors(d).values()), 5)

        assert len(behaviors(d)) == 12


async def test_lowered_bounds_of_members_wait(tmp_path: Path) -> None:
    """Mode Distributed: a lower maxReplicas cuts no member in the hold, and cuts it after the hold."""
    async with distributed(tmp_path, m1=6, m2=6) as d, d.f.controller(calm=True):
        await d.begin(12, maxReplicas=16)
        await asyncio.sleep(120)
        annotate(d.f, "all")
        await asyncio.sleep(30)
        d.change(maxReplicas=8)
        await asyncio.sleep(600)
        held = d.f.replicas, d.maximum
        annotate(d.f, None)
        await until(lambda: d.f.total == 8, 120)

        assert held == ({"m1": 6, "m2": 6}, 12)
        assert d.maximum == 8


async def test_a_rule_waits_for_the_end_of_a_hold(tmp_path: Path) -> None:
    """A held execution is shown by Ready and a series, and acts once, seconds after the hold."""
    async with federation(tmp_path, m1=2, m2=2) as f:
        f.scale(minReplicas=8)
        rule = {"name": "night", "schedule": "*/30 * * * *", "targetMinReplicas": 2}
        target = {"apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": "FederatedHPA", "name": NAME}
        head = {"apiVersion": target["apiVersion"], "kind": "CronFederatedHPA"}
        metadata = {"namespace": NAMESPACE, "name": "office"}
        spec = {"scaleTargetRef": target, "rules": [rule]}
        store = f.hub.server.store
        store.create(CRONS, {**head, "metadata": metadata, "spec": spec})
        annotate(f, "down", "", NAMESPACE, kind=NAMESPACES)

        def least() -> int:
            return int(store.get(HPAS, NAMESPACE, NAME)["spec"]["minReplicas"])

        def ready() -> tuple[str, str, str]:
            found = store.get(CRONS, NAMESPACE, "office").get("status") or {}
            conditions = {one["type"]: one for one in found.get("conditions") or ()}
            one = conditions.get("Ready", {})
            return one.get("status", ""), one.get("reason", ""), one.get("message", "")

        async with f.controller(calm=True, kind=CRON) as controller:
            await until(lambda: ready()[1] == "Held", 1900)
            await asyncio.sleep(600)
            during, shown = least(), ready()
            about = {"namespace": NAMESPACE, "name": "office"}
            series = "fedhpa_cron_held_since_timestamp_seconds"
            since = controller.series.get_sample_value(series, about)
            annotate(f, None, "", NAMESPACE, kind=NAMESPACES)
            await until(lambda: least() == 2, 15)
            await asyncio.sleep(60)
            events = [event for event in f.hub.all(EVENTS) if event["involvedObject"]["name"] == "office"]
            reasons = [(event["reason"], event["count"]) for event in events]

            assert controller.series.get_sample_value(series, about) is None
        assert during == 8
        assert shown[0] == "True"
        assert shown[2].endswith("hold down on namespace shop")
        assert since is not None
        assert since % 1800 == 0
        assert sorted(reasons) == [("Held", 1), ("RuleApplied", 1)]
        assert ready()[:2] == ("True", "RulesRun")


async def test_a_hold_between_reading_and_writing_a_target_counts() -> None:
    """A rule reads its target seconds ahead. A hold that the target gets meanwhile still stops the write."""
    async with autoscaled() as w:
        put_rules(w, rule_up(w, 2))

        def annotate_target(method: str, path: str) -> None:
            if method != "PATCH" or not path.endswith("/federatedhpas/web"):
                return
            found = w.hub.find(FHPAS, NAME, NAMESPACE)
            if found is not None and HOLD_ANNOTATION not in (found["metadata"].get("annotations") or {}):
                metadata = {**found["metadata"], "annotations": {HOLD_ANNOTATION: "up"}}
                w.hub.put(FHPAS, {**found, "metadata": metadata})

        w.hub.before = annotate_target
        async with rules_running(w):
            await asyncio.sleep(180)

        assert bounds(w) == (1, 20)
        assert ready(w) == ("True", "Held")
