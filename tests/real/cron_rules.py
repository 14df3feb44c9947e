"""CronFederatedHPAs of the real tests, their targets, and the minute at which their rules fire."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from testbed.real.plane import Plane
from testbed.stage.api import PlaneApi
from testbed.stage.processes import CONTROLLER, Processes
from tests.real.settling import settled
from tests.real.workloads import federated_hpa, federated_hpa_path

Object = dict[str, Any]

# The set-up of a case on a busy machine must end before the minute does.
SETUP_SECONDS = 15.0
# Another controller may have to take the Lease and to read everything first.
SECONDS = 90.0
API = "autoscaling.karmada.io/v1alpha1"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/fedhpa-controller-cron-0-of-1"


async def next_minute() -> float:
    """The next full minute, in POSIX seconds. Waits until at least SETUP_SECONDS are left before it."""
    left = 60 - time.time() % 60
    if left < SETUP_SECONDS:
        await asyncio.sleep(left)
    return minute_after(time.time())


def minute_after(instant: float) -> float:
    """Returns the first full minute after an instant, in POSIX seconds."""
    return (instant // 60 + 1) * 60


async def sleep_until(instant: float) -> None:
    """Sleeps until an instant of the wall clock, in POSIX seconds."""
    await asyncio.sleep(max(0.0, instant - time.time()))


def at(minute: float) -> str:
    """A schedule that fires at the minute, and then once a day."""
    moment = datetime.fromtimestamp(minute, UTC)
    return f"{moment.minute} {moment.hour} * * *"


def cron(name: str, space: str, minute: float, *, kind: str = "FederatedHPA", **rule: Any) -> Object:
    """A CronFederatedHPA with one rule, for the target of the same name."""
    api = API if kind == "FederatedHPA" else "apps/v1"
    written = {"name": "up", "schedule": at(minute), "timeZone": "UTC", **rule}
    return {
        "apiVersion": API,
        "kind": "CronFederatedHPA",
        "metadata": {"name": name, "namespace": space},
        "spec": {"scaleTargetRef": {"apiVersion": api, "kind": kind, "name": name}, "rules": [written]},
    }


def cron_path(name: str, space: str) -> str:
    """Returns the path of a CronFederatedHPA."""
    return f"/apis/{API}/namespaces/{space}/cronfederatedhpas/{name}"


def target(name: str, space: str) -> Object:
    """A FederatedHPA from 1 to 9 replicas. Its workload need not exist."""
    return federated_hpa(name, space, low=1, high=9)


async def minimum(api: PlaneApi, name: str, space: str) -> int:
    """The minReplicas of a FederatedHPA."""
    return int((await api.get(federated_hpa_path(name, space)))["spec"]["minReplicas"])


async def minimum_settles(api: PlaneApi, name: str, space: str, wanted: int) -> int:
    """The minReplicas of a FederatedHPA once it is `wanted`, or after the deadline."""
    return await settled(
        lambda: minimum(api, name, space), lambda found: found == wanted, seconds=SECONDS, every=0.5
    )


async def executions(api: PlaneApi, name: str, space: str, kind: str = "successful") -> list[Object]:
    """The successful, failed or missed executions of the only rule."""
    found = (await api.get(cron_path(name, space))).get("status") or {}
    histories = found.get("executionHistories") or [{}]
    return list(histories[0].get(f"{kind}Executions") or ())


async def recorded(api: PlaneApi, name: str, space: str, kind: str = "successful") -> list[Object]:
    """The executions once there is one, or after the deadline."""
    return await settled(lambda: executions(api, name, space, kind), bool, seconds=SECONDS, every=0.5)


async def seen_by_controller(api: PlaneApi, *crons: tuple[str, str]) -> None:
    """Waits until the controller has written a status of each object."""
    for name, space in crons:
        found = await settled(
            lambda name=name, space=space: api.get(cron_path(name, space)),  # type: ignore[misc]
            lambda found: bool((found.get("status") or {}).get("executionHistories")),
            seconds=SECONDS,
            every=0.5,
        )
        assert found.get("status"), json.dumps(found)


def condition(found: Object, kind: str = "Ready") -> Object:
    """A condition of an object; empty if it has none."""
    conditions = (found.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each["type"] == kind), {})


def managers(found: Object) -> set[str]:
    """The field managers of an object."""
    return {entry["manager"] for entry in found["metadata"].get("managedFields") or ()}


@contextmanager
def another_controller(
    plane: Plane, processes: Processes, *flags: str, environment: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Starts a second controller, with additions to its environment; yields its name in the run."""
    name = "another-controller"
    command = [
        sys.executable.rpartition("/")[0] + f"/{CONTROLLER}",
        f"--kubeconfig={plane.hub.user_kubeconfig(CONTROLLER)}",
        "--metrics-bind-address=0",
        "--health-probe-bind-address=0",
        *flags,
    ]
    log = processes.folder / f"{name}.log"
    plane.run.spawn(name, command, log, environment={**os.environ, **(environment or {})})
    try:
        yield name
    finally:
        if plane.run.running(name):
            plane.run.kill(name)
