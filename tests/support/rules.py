"""Rules of CronFederatedHPAs on a fake API server in virtual time, and the controller that runs them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from prometheus_client import CollectorRegistry

from controller.cronfederatedhpa import CronMetrics
from controller.flags import DIRECT
from controller.shard_work import lead_rules
from controller.shards import ALL, Shard
from fedhpa.api.times import format_time
from fedhpa.kube import ApiClient, EventRecorder
from tests.support.controller import HPAS, NAMESPACE, ControllerWorld, controller_settings, world
from tests.support.fakeapi import Collection, Object
from tests.support.members import RARE_PROBE_PERIOD, registry_of
from tests.support.timing import background

RECORDS: Collection = ("fedhpa.io/v1alpha1", "scalingrecords")
CRONS: Collection = ("autoscaling.karmada.io/v1alpha1", "cronfederatedhpas")
FHPA = {"apiVersion": HPAS[0], "kind": "FederatedHPA", "name": "web"}
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
FINALIZER = "autoscaling.karmada.io/fedhpa-cron-window"


@asynccontextmanager
async def autoscaled(**spec: Any) -> AsyncIterator[ControllerWorld]:
    """A world of one member with an autoscaler, from 1 to 20 replicas unless `spec` says otherwise."""
    async with world(m1=1) as w:
        w.scale(**spec)
        yield w


def minute_after(w: ControllerWorld, minutes: int) -> str:
    """A schedule that fires once an hour, `minutes` whole minutes after the present one."""
    moment = datetime.fromtimestamp(w.clock.wall(), UTC) + timedelta(minutes=minutes)
    return f"{moment.minute} * * * *"


def window(w: ControllerWorld, minutes: int, duration: str, name: str = "sale", **values: int) -> Object:
    """A rule that opens a window once an hour, with `values` or a minReplicas of 5."""
    values = values or {"targetMinReplicas": 5}
    return {"name": name, "schedule": minute_after(w, minutes), "duration": duration, **values}


def put_rules(
    w: ControllerWorld, *rules: Object, target: Object = FHPA, name: str = "office", uid: str = ""
) -> None:
    """Creates or edits an object, as the API server stores it."""
    before = w.hub.find(CRONS, name, NAMESPACE)
    metadata: Object = {
        "name": name,
        "namespace": NAMESPACE,
        "uid": uid or f"uid-{name}",
        "generation": 1,
        "creationTimestamp": format_time(float(int(w.clock.wall()))),
    }
    if before is not None:
        metadata = {**before["metadata"], "generation": before["metadata"]["generation"] + 1}
        metadata["managedFields"] = [
            {"manager": "kubectl", "time": format_time(w.clock.wall()), "fieldsV1": {"f:spec": {}}}
        ]
    body: Object = {
        "apiVersion": CRONS[0],
        "kind": "CronFederatedHPA",
        "metadata": metadata,
        "spec": {"scaleTargetRef": target, "rules": list(rules)},
    }
    if before is not None and "status" in before:
        body["status"] = before["status"]
    w.hub.put(CRONS, body)


def status(w: ControllerWorld, name: str = "office") -> Any:
    return stored(w, name).get("status") or {}


def stored(w: ControllerWorld, name: str = "office") -> Object:
    """The object on the hub."""
    found = w.hub.find(CRONS, name, NAMESPACE)
    assert found is not None
    return found


def states_of(w: ControllerWorld, name: str = "office") -> Any:
    """The state of each rule in the record of an object, by its name."""
    found = w.hub.find(RECORDS, f"cronfederatedhpa.{name}", NAMESPACE)
    return {} if found is None else found.get("status", {}).get("rules", {})


def windows_of(w: ControllerWorld, target: str = "web", kind: str = "federatedhpa") -> Any:
    """The state in the record of a target's open windows, each as an object; empty without a record."""
    group = "autoscaling.karmada.io" if kind == "federatedhpa" else "apps"
    found = w.hub.find(RECORDS, f"cron-target.{group}.{kind}.{target}", NAMESPACE)
    state = {} if found is None else found.get("status", {}).get("state", {})
    windows = [
        {**group, "object": name, "rule": rule, "values": dict(zip(group["fields"], values, strict=True))}
        for group in state.get("open", ())
        for name, rules in group["rules"].items()
        for rule, values in rules.items()
    ]
    return {**state, "open": windows} if state else {}


def delete_rules(w: ControllerWorld, name: str = "office") -> None:
    """Marks an object for deletion, as the API server does while it has a finalizer."""
    found = stored(w, name)
    deleted = {**found["metadata"], "deletionTimestamp": format_time(float(int(w.clock.wall())))}
    w.hub.put(CRONS, {**found, "metadata": deleted})


def history(w: ControllerWorld, place: int = 0, name: str = "office") -> Any:
    return status(w, name)["executionHistories"][place]


def ready(w: ControllerWorld, name: str = "office") -> tuple[str, str]:
    condition = next(each for each in status(w, name)["conditions"] if each["type"] == "Ready")
    return condition["status"], condition["reason"]


def bounds(w: ControllerWorld) -> tuple[int | None, int | None]:
    found = w.hub.find(HPAS, "web", NAMESPACE)
    assert found is not None
    return found["spec"].get("minReplicas"), found["spec"].get("maxReplicas")


@asynccontextmanager
async def rules_running(
    w: ControllerWorld,
    *,
    propagation: str = DIRECT,
    paused: bool = False,
    shard: Shard = ALL,
    leads: Callable[[], bool] = lambda: True,
    on_finding: Callable[[str, bool], None] = lambda *_: None,
) -> AsyncIterator[CollectorRegistry]:
    """A running controller of rules without any memory of earlier ones."""
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(ApiClient(w.hub.config()))
        members = registry_of(client, w.clock, 1.0, RARE_PROBE_PERIOD)
        await stack.enter_async_context(background(members.run()))
        registry = CollectorRegistry()
        metrics = CronMetrics(registry)
        events = EventRecorder(client, "cron", wall=w.clock.wall)
        settings = controller_settings(propagation=propagation, paused=paused)
        work = lead_rules(
            settings,
            client,
            members,
            events,
            metrics,
            shard=shard,
            leads=leads,
            on_finding=on_finding,
            clock=w.clock,
        )
        await stack.enter_async_context(background(work))
        yield registry


async def run_rules(w: ControllerWorld, seconds: float) -> None:
    """Lets a controller of rules run for some seconds, and ends it."""
    async with rules_running(w):
        await asyncio.sleep(seconds)


def rule_up(w: ControllerWorld, minutes: int) -> Object:
    """A rule that raises minReplicas to 5 once an hour, `minutes` whole minutes after the present one."""
    return {"name": "up", "schedule": minute_after(w, minutes), "targetMinReplicas": 5}
