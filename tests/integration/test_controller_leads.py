"""After restarts and changes of leader the state is kept, and only one process writes."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from controller.cluster_status import CLUSTERS_LEASE
from controller.flags import SECTIONS
from controller.process import run
from fedhpa.api.times import format_time
from fedhpa.kube import SYSTEM, leases
from fedhpa.serving.flags.parsing import parse_flags
from fedhpa.serving.process import Signals
from testbed.stage.kubeconfig import write_kubeconfig
from tests.support import fakeapi
from tests.support.controller import EVENTS, LEASES, ControllerWorld, world, world_on_sockets
from tests.support.members import REAL_DEADLINE
from tests.support.rules import CRONS, bounds, put_rules, stored

# Several processes on a busy machine.
eventually = functools.partial(fakeapi.eventually, within=20.0)

LEASE = "fedhpa-controller-0-of-1"
CRON_LEASE = "fedhpa-controller-cron-0-of-1"


@pytest.fixture(autouse=True)
def _no_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POD_NAMESPACE", raising=False)


@pytest.fixture(autouse=True)
def _time_to_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "RELEASE_DEADLINE_SECONDS", fakeapi.PATIENCE)


@asynccontextmanager
async def process(w: ControllerWorld, folder: Path, name: str, *flags: str) -> AsyncIterator[Signals]:
    """A controller process without signal handlers. Its token identifies it; it ends as by SIGTERM."""
    authority, user = w.hub.ca_pem.encode(), {"token": name}
    kubeconfig = write_kubeconfig(folder / f"{name}.yaml", w.hub.url, authority, user)
    arguments = [
        f"--kubeconfig={kubeconfig}",
        "--propagation=direct",
        "--metrics-bind-address=0",
        "--health-probe-bind-address=0",
        "--horizontal-pod-autoscaler-sync-period=1s",
        f"--member-deadline={REAL_DEADLINE:g}s",
        "--leader-elect-lease-duration=1h",
        "--leader-elect-renew-deadline=30m",
        "--leader-elect-retry-period=100ms",
        *flags,
    ]
    signals = Signals()
    async with asyncio.TaskGroup() as group:
        group.create_task(run(parse_flags(SECTIONS, arguments, {}), signals, clock=SYSTEM, connect=None))
        try:
            yield signals
        finally:
            signals.stop.set()


def writers(w: ControllerWorld, since: int = 0) -> set[str | None]:
    """The identities that wrote to the hub, except to Leases."""
    return {
        seen.authorization
        for seen in w.hub.seen[since:]
        if seen.method != "GET" and "/leases" not in seen.path
    }


def holder(w: ControllerWorld) -> str:
    lease = w.hub.find(LEASES, LEASE, "kube-system")
    return str(lease["spec"]["holderIdentity"]) if lease else ""


async def test_only_the_leader_writes(tmp_path: Path) -> None:
    """The second of two processes only waits, and a later one continues with the stored state."""
    async with world_on_sockets(m1=2, m2=2) as w:
        w.load(400)
        w.scale()
        async with process(w, tmp_path, "first"):
            await eventually(lambda: holder(w))
            first = holder(w)
            async with process(w, tmp_path, "second") as second:
                await eventually(lambda: w.replicas == {"m1": 4, "m2": 4})
                await eventually(lambda: w.status().get("currentReplicas") == 8)
                alone = writers(w)
                assert holder(w) == first
                second.stop.set()
        since = len(w.hub.seen)
        w.load(200)
        async with process(w, tmp_path, "third"):
            await eventually(lambda: w.replicas == {"m1": 2, "m2": 2})
            await eventually(lambda: w.status().get("currentReplicas") == 4)

        assert alone == {"Bearer first"}
        assert writers(w, since) == {"Bearer third"}
        assert holder(w) == ""


async def test_pause_takes_no_lease(tmp_path: Path) -> None:
    """With --pause nothing is written, not even a Lease, except for one event on the Lease of each kind."""
    async with world_on_sockets(m1=2) as w:
        w.load(400)
        w.scale()
        async with process(w, tmp_path, "first", "--pause"):
            await eventually(
                lambda: w.members["m1"].request_count("GET", "/v1beta1/namespaces/shop/pods") >= 2
            )
            await eventually(lambda: len(w.hub.writes) >= 2)

        assert w.hub.writes == ["POST /api/v1/namespaces/kube-system/events"] * 2
        reported = sorted((event["reason"], event["involvedObject"]["name"]) for event in w.hub.all(EVENTS))
        assert reported == [("Paused", LEASE), ("Paused", CRON_LEASE)]
        assert w.members["m1"].writes == []


@pytest.mark.parametrize(
    ("kind", "lease"), [("federatedhpa", LEASE), ("cronfederatedhpa", CRON_LEASE)], ids=["hpas", "rules"]
)
async def test_a_process_with_one_kind_holds_and_names_the_lease_of_that_kind_only(
    tmp_path: Path, kind: str, lease: str
) -> None:
    """Beside a process with the other kind it waits for nobody; paused, its event is on that Lease alone.

    A process of either kind may keep the Clusters, with the Lease for that.
    """
    async with world_on_sockets(m1=2) as w:
        async with process(w, tmp_path, "paused", "--pause", f"--controllers={kind}"):
            await eventually(lambda: w.hub.all(EVENTS))
        (event,) = w.hub.all(EVENTS)
        leases_before = w.hub.all(LEASES)
        async with process(w, tmp_path, "first", f"--controllers={kind}"):
            await eventually(lambda: len(w.hub.all(LEASES)) >= 2)
            held = {each["metadata"]["name"] for each in w.hub.all(LEASES)}

        assert event["involvedObject"]["name"] == lease
        assert leases_before == []
        assert held == {lease, CLUSTERS_LEASE}


def renewing(w: ControllerWorld, lease: str) -> set[str | None]:
    """The identities that wrote a Lease after it was created."""
    return {
        seen.authorization for seen in w.hub.seen if seen.method == "PUT" and seen.path.endswith(f"/{lease}")
    }


def reads_by(w: ControllerWorld, name: str, lease: str) -> int:
    """The number of times that a process read a Lease."""
    return sum(
        seen.authorization == f"Bearer {name}" and seen.method == "GET" and seen.path.endswith(f"/{lease}")
        for seen in w.hub.seen
    )


async def test_processes_of_different_kinds_lead_and_work_at_once(tmp_path: Path) -> None:
    """One scales the workload, and the other one applies a rule that is due. Each holds its own Lease."""
    async with world_on_sockets(m1=2, m2=2) as w:
        w.load(400)
        w.scale()
        put_rules(w, {"name": "up", "schedule": "* * * * *", "targetMaxReplicas": 30})
        rules = stored(w)
        an_hour_ago = format_time(float(int(w.clock.wall() - 3600)))
        w.hub.put(CRONS, {**rules, "metadata": {**rules["metadata"], "creationTimestamp": an_hour_ago}})
        async with (
            process(w, tmp_path, "scales", "--controllers=federatedhpa"),
            process(w, tmp_path, "rules", "--controllers=cronfederatedhpa"),
        ):
            await eventually(lambda: w.replicas == {"m1": 4, "m2": 4})
            await eventually(lambda: bounds(w) == (1, 30))
            await eventually(lambda: renewing(w, LEASE) and renewing(w, CRON_LEASE))
            led = renewing(w, LEASE), renewing(w, CRON_LEASE)
            fired = {
                seen.authorization for seen in w.hub.seen if seen.query.get("fieldManager") == "fedhpa-cron"
            }

        assert led == ({"Bearer scales"}, {"Bearer rules"})
        assert fired == {"Bearer rules"}


@pytest.mark.parametrize(
    ("first", "second", "shared", "free"),
    [
        ("federatedhpa", "federatedhpa", LEASE, None),
        ("federatedhpa,cronfederatedhpa", "cronfederatedhpa", CRON_LEASE, None),
        ("cronfederatedhpa", "federatedhpa,cronfederatedhpa", CRON_LEASE, LEASE),
    ],
)
async def test_of_processes_with_the_same_kind_one_leads_it(
    tmp_path: Path, first: str, second: str, shared: str, free: str | None
) -> None:
    """The second one waits for the Lease of the shared kind, and takes a free one of another kind."""
    async with world_on_sockets(m1=2) as w, process(w, tmp_path, "first", f"--controllers={first}"):
        await eventually(lambda: renewing(w, shared))
        async with process(w, tmp_path, "second", f"--controllers={second}"):
            await eventually(lambda: reads_by(w, "second", shared) >= 3)
            if free:
                await eventually(lambda: renewing(w, free))
            led = renewing(w, shared), renewing(w, free or "")

        assert led == ({"Bearer first"}, {"Bearer second"} if free else set())


@pytest.mark.looptime(noop_cycles=0)
async def test_new_leader_writes_no_status_that_says_nothing_new() -> None:
    """A restart within the minute causes no status write if nothing changed."""
    async with world(m1=2, m2=2) as w:
        w.scale()
        async with w.controller():
            await eventually(lambda: w.status())
        async with w.controller() as controller:
            await w.reconciles(controller)

        assert w.status_writes == 1
