"""Rules on a hub with Karmada's own CRDs, which drop the fields that this product adds."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fedhpa.admission import crd
from fedhpa.api.times import parse_time
from testbed.real.controlplane import ControlPlane
from testbed.stage.api import PlaneApi, has_condition
from testbed.stage.processes import CONTROLLER
from testbed.stage.registrations import hub_rights
from testbed.stage.runs import Run
from tests.real.clocks import WallClock, wall_clock
from tests.real.cron_rules import (
    cron,
    cron_path,
    executions,
    minimum,
    minimum_settles,
    minute_after,
    recorded,
    seen_by_controller,
    target,
)
from tests.real.settling import kubectl, settled
from tests.real.workloads import federated_hpa_path
from tests.support import karmada_crds

SPACE = "default"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
# Objects are stored and seen by the controller within this time.
MARGIN = 60.0
# The fields that such a hub drops, by rule.
DROPPED: dict[str, dict[str, Any]] = {
    "window": {"duration": "8h"},
    "delayed": {"maxDelaySeconds": 600},
    "holidays": {"excludeDates": ["2030-12-25"]},
}


@pytest.fixture(scope="module")
def hub(assets: Path) -> Iterator[ControlPlane]:
    """Yields etcd and kube-apiserver with Karmada's CRDs and the rights of the controller."""
    run = Run.begin()
    try:
        plane = ControlPlane(run, assets, "karmada")
        asyncio.run(start(plane))
        yield plane
    finally:
        run.end()


@pytest.fixture
async def api(hub: ControlPlane) -> AsyncIterator[PlaneApi]:
    """Yields a client of that server."""
    async with hub.api() as client:
        yield client


async def test_a_rule_fires_once_and_rules_that_lost_a_field_do_not_run(
    hub: ControlPlane, api: PlaneApi
) -> None:
    """kubectl refuses the lost fields, unless told to ignore them. The plain rule fires once, also over a
    restart of the controller, which remembers it by its record. Events name rules
    that do not run.
    """
    clock = wall_clock(hub.folder / "clock")
    minute = minute_after(clock.now() + MARGIN)
    names = ("plain", *DROPPED)
    rules = {name: cron(name, SPACE, minute, targetMinReplicas=4, **DROPPED.get(name, {})) for name in names}
    with controller(hub, clock):
        await api.apply_all([target(each, SPACE) for each in (*names, "second")])
        refused = await hub.kubectl("apply", "-f", "-", stdin=json.dumps(rules["window"]))
        listed = {"apiVersion": "v1", "kind": "List", "items": list(rules.values())}
        applied = await hub.kubectl("apply", "--validate=ignore", "-f", "-", stdin=json.dumps(listed))
        await seen_by_controller(api, *((each, SPACE) for each in names))
        clock.set(minute - 1)
        fired = await minimum_settles(api, "plain", SPACE, 4)
        done = await recorded(api, "plain", SPACE)
        reported = await settled(lambda: events(api), lambda found: set(names) <= set(found))
        not_run = [await minimum(api, each, SPACE) for each in DROPPED]
    stored = await api.get(cron_path("plain", SPACE))
    kept = await api.get(f"/apis/fedhpa.io/v1alpha1/namespaces/{SPACE}/scalingrecords/cronfederatedhpa.plain")
    await api.send(
        "PATCH",
        federated_hpa_path("plain", SPACE),
        body={"spec": {"minReplicas": 2}},
        content_type="application/merge-patch+json",
    )
    table = await kubectl(hub, "get", "cronfhpa", "plain")

    with controller(hub, clock):
        later = minute_after(clock.now() + MARGIN)
        await api.apply_all([cron("second", SPACE, later, targetMinReplicas=4)])
        await seen_by_controller(api, ("second", SPACE))
        clock.set(later - 1)
        after_restart = await minimum_settles(api, "second", SPACE, 4)
        plain = await minimum(api, "plain", SPACE)
        done_after = await executions(api, "plain", SPACE)

    assert refused.code == 1
    assert 'unknown field "spec.rules[0].duration"' in refused.err
    assert applied.code == 0, applied.err
    assert fired == 4
    assert [parse_time(each["scheduleTime"]) for each in done] == [minute]
    assert not_run == [1, 1, 1]
    for name, fields in DROPPED.items():
        assert any(f"spec.rules[0].{field}" in text for field in fields for text in reported[name]), reported[
            name
        ]
    assert any("fedhpa crds" in text for text in reported["plain"])
    assert sorted(stored["status"]) == ["executionHistories"]
    assert [state["handledUntil"] for state in kept["status"]["rules"].values()] == [minute]
    assert table.out.split()[:4] == ["NAME", "REFERENCE-KIND", "REFERENCE-NAME", "AGE"]
    assert table.out.split()[4:7] == ["plain", "FederatedHPA", "plain"]
    assert after_restart == 4
    assert plain == 2
    assert done_after == done


async def start(plane: ControlPlane) -> None:
    """Starts the servers of a hub, with Karmada's CRDs and the rights of the controller."""
    await plane.start_store_and_api()
    ours = map(crd.custom_resource_definition, (crd.FEDERATED_HPA, crd.CRON_FEDERATED_HPA))
    manifests = [karmada_crds.as_karmada_has_it(each) for each in ours]
    manifests += map(crd.custom_resource_definition, (crd.CLUSTER, crd.SCALING_RECORD))
    async with plane.api() as api:
        await api.apply_all([*manifests, *hub_rights()])
        for manifest in manifests:
            await api.wait(
                f"{DEFINITIONS}/{manifest['metadata']['name']}",
                functools.partial(has_condition, kind="Established"),
                what=f"CRD {manifest['metadata']['name']} is served",
                seconds=120,
            )


@contextmanager
def controller(hub: ControlPlane, clock: WallClock) -> Iterator[None]:
    """Runs a controller of rules, which releases its Lease at the end."""
    command = [
        str(Path(sys.executable).with_name(CONTROLLER)),
        f"--kubeconfig={hub.user_kubeconfig(CONTROLLER)}",
        "--controllers=cronfederatedhpa",
        "--propagation=karmada",
        "--metrics-bind-address=0",
        "--health-probe-bind-address=0",
    ]
    environment = {**os.environ, **clock.environment}
    hub.run.spawn(CONTROLLER, command, hub.log(CONTROLLER), environment=environment)
    try:
        yield
    finally:
        hub.run.stop([CONTROLLER])


async def events(api: PlaneApi) -> dict[str, list[str]]:
    """Returns the messages of the events FieldsPruned by object."""
    found: dict[str, list[str]] = {}
    listed = await api.get(f"/api/v1/namespaces/{SPACE}/events")
    for each in listed["items"]:
        if each["reason"] == "FieldsPruned":
            found.setdefault(each["involvedObject"]["name"], []).append(each["message"])
    return found
