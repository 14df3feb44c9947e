"""Every fault of a member, as the controller sees it: it scales nothing on missing data and names each fault.
The tests run in memory and virtual time, over real TLS where a fault is about TLS. Each row is a fault of one
of two members, with the text of the status. The event has the same text, and the log also names the cluster.
After the fault the workload follows the load.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.federation import Federation, federation, until
from tests.support.nightly import NIGHTLY
from tests.support.plane_faults import Fault

pytestmark = pytest.mark.looptime(noop_cycles=0)

SERVER = ""
METRICS = "/apis/metrics.k8s.io"
PODS = "/api/v1/namespaces/shop/pods"
SCALE = "/apis/apps/v1"


@dataclass(frozen=True)
class Row:
    """A fault, its place, and the expected reports."""

    fault: Fault
    where: str
    state: str
    reason: str

    def __str__(self) -> str:
        place = {SERVER: "server", METRICS: "metrics", PODS: "pods", SCALE: "scale"}[self.where]
        return f"{self.fault}-{place}"


SILENT = "no answer within 3 s"
UNREADABLE = "cannot be read"
CUT = "answer cut off|Connection reset"
NO_MORE_PODS = "its pods are out of date"

ROWS = [
    # fault, where, state of the cluster, reason
    Row(Fault.REFUSE, SERVER, "Missing", "cannot connect: Connection refused"),
    Row(Fault.DISAPPEAR, SERVER, "Missing", "cannot connect: Connection refused"),
    Row(Fault.WRONG_CA, SERVER, "Missing", "certificate not accepted: "),
    Row(Fault.EXPIRED, SERVER, "Missing", "certificate not accepted: certificate has expired"),
    Row(Fault.HANG, SERVER, "Missing", SILENT),
    Row(Fault.DRIP, SERVER, "Missing", SILENT),
    Row(Fault.TOO_MANY_REQUESTS, SERVER, "Missing", "HTTP 429|too many requests"),
    Row(Fault.SERVER_ERROR, SERVER, "Missing", "HTTP 500|etcdserver: request timed out"),
    Row(Fault.TRUNCATED, SERVER, "Missing", UNREADABLE),
    Row(Fault.CUT, SERVER, "Missing", CUT),
    Row(Fault.NAN, SERVER, "MetricsMissing", "usage.cpu.*NaN"),
    Row(Fault.NEGATIVE, SERVER, "MetricsMissing", "usage is negative"),
    Row(Fault.HANG, METRICS, "MetricsMissing", SILENT),
    Row(Fault.DRIP, METRICS, "MetricsMissing", SILENT),
    Row(Fault.TOO_MANY_REQUESTS, METRICS, "MetricsMissing", "too many requests"),
    Row(Fault.SERVER_ERROR, METRICS, "MetricsMissing", "etcdserver: request timed out"),
    Row(Fault.TRUNCATED, METRICS, "MetricsMissing", "truncated"),
    Row(Fault.CUT, METRICS, "MetricsMissing", CUT),
    Row(Fault.HANG, PODS, "Missing", NO_MORE_PODS),
    Row(Fault.DRIP, PODS, "Missing", NO_MORE_PODS),
    Row(Fault.TOO_MANY_REQUESTS, PODS, "Missing", NO_MORE_PODS),
    Row(Fault.SERVER_ERROR, PODS, "Missing", NO_MORE_PODS),
    Row(Fault.TRUNCATED, PODS, "Missing", NO_MORE_PODS),
    Row(Fault.CUT, PODS, "Missing", NO_MORE_PODS),
    Row(Fault.HANG, SCALE, "Missing", SILENT),
    Row(Fault.DRIP, SCALE, "Missing", SILENT),
    Row(Fault.TOO_MANY_REQUESTS, SCALE, "Missing", "too many requests"),
    Row(Fault.SERVER_ERROR, SCALE, "Missing", "etcdserver: request timed out"),
    Row(Fault.TRUNCATED, SCALE, "Missing", UNREADABLE),
    Row(Fault.CUT, SCALE, "Missing", CUT),
]
# By day each fault of a whole member, and two of the other faults at each place.
BY_DAY = [row for row in ROWS if row.where == SERVER or row.fault in (Fault.HANG, Fault.TRUNCATED)]
# Only these need TLS, whose handshakes are a quarter of the cost.
OF_TLS = (Fault.WRONG_CA, Fault.EXPIRED, Fault.CUT)
# There is no scale-down window, so only the missing data holds the workload.
NO_WINDOW = {"scaleDown": {"stabilizationWindowSeconds": 0}}
LOOKS = 8


async def break_(f: Federation, row: Row) -> None:
    """Starts the fault, and ends the open watches that it affects."""
    member = f.members["m2"]
    await member.faults.set(row.fault, [row.where])
    if row.fault == Fault.DISAPPEAR:
        f.part("m2")
    if row.where in (SERVER, PODS, SCALE):
        # A list is needed, too.
        member.server.store.compact()
        member.server.watches.end()
        # The last events of a watch that just ended still describe the present.
        await asyncio.sleep(15)


async def fix(f: Federation, row: Row) -> None:
    await f.members["m2"].faults.clear()
    if row.fault == Fault.DISAPPEAR:
        f.join("m2")


@pytest.mark.nightly
@pytest.mark.parametrize("row", ROWS if NIGHTLY else BY_DAY, ids=str)
async def test_nothing_is_scaled_on_missing_data(row: Row, tmp_path: Path, logs: list[Any]) -> None:
    """Low load on the other member scales nothing, and status, event and log name the fault until it ends."""
    tls = row.fault in OF_TLS
    async with federation(tmp_path, tls=tls, m1=4, m2=4) as f, f.controller(calm=True) as controller:
        f.demand(400)
        f.scale(behavior=NO_WINDOW, clusterAffinity={"clusterNames": ["m1", "m2"]})
        await until(lambda: f.condition("MetricsComplete")[0] == "True")
        await controller.more_reconciles(1)
        logs.clear()

        await break_(f, row)
        # For a minute the last answer stands for the missed ones.
        await until(lambda: f.condition("MetricsComplete")[0] == "False")
        f.demand(80)
        await controller.more_reconciles(LOOKS)
        held, _, message = f.condition("MetricsComplete")
        state, rescales, events = f.state("m2"), list(f.rescales), f.events("ClusterMissing")
        (entry,) = (entry for entry in f.status()["clusters"] if entry["name"] == "m2")
        failing = [line for line in logs if line["event"] == "autoscaler fails"]
        told = [line for line in failing if "m2: " in line["error"] and line["log_level"] != "debug"]

        await fix(f, row)
        await until(lambda: f.total == 2)
        await until(lambda: f.condition("MetricsComplete")[0] == "True")

    assert rescales == []
    assert held == "False"
    assert message.startswith("m2: ")
    assert re.search(row.reason, message)
    assert (state, f"m2: {entry['message']}") == (row.state, message.rpartition(", since ")[0])
    assert len(events) == 1
    assert re.search(row.reason, events[0]["message"])
    assert "m2" in events[0]["message"]
    assert any(re.search(row.reason, str(line)) for line in told)


HUB_ROWS = [
    # fault of the hub, what the log says
    (Fault.REFUSE, "cannot connect: Connection refused"),
    (Fault.WRONG_CA, "certificate not accepted: "),
    (Fault.EXPIRED, "certificate not accepted: certificate has expired"),
    (Fault.HANG, "no answer within"),
    (Fault.DRIP, "no answer within"),
    (Fault.TOO_MANY_REQUESTS, "too many requests"),
    (Fault.SERVER_ERROR, "etcdserver: request timed out"),
    (Fault.TRUNCATED, UNREADABLE),
    (Fault.CUT, CUT),
]


# By day one of the faults that fail alike.
HUB_BY_DAY = [row for row in HUB_ROWS if row[0] not in (Fault.WRONG_CA, Fault.DRIP, Fault.TOO_MANY_REQUESTS)]


@pytest.mark.nightly
@pytest.mark.parametrize(("fault", "reason"), HUB_ROWS if NIGHTLY else HUB_BY_DAY)
async def test_nothing_is_scaled_without_the_hub(
    fault: Fault, reason: str, tmp_path: Path, logs: list[Any]
) -> None:
    """A leader without its hub stops, names the reason and writes to no member. Later it leads again."""
    async with federation(tmp_path, tls=fault in OF_TLS, m1=4, m2=4) as f, f.controller() as controller:
        f.demand(400)
        f.scale(behavior=NO_WINDOW)
        await until(lambda: f.condition("MetricsComplete")[0] == "True")
        await controller.more_reconciles(1)
        logs.clear()

        await f.hub.faults.set(fault)
        await until(lambda: not controller.leads)
        f.demand(80)
        await asyncio.sleep(120)
        rescales = list(f.rescales)
        told = [line for line in logs if line["log_level"] in ("info", "warning")]

        await f.hub.faults.clear()
        await until(lambda: controller.leads and f.total == 2)

    assert rescales == []
    assert any(re.search(reason, str(line.get("error"))) for line in told)
    assert "lease could not be renewed in time" in [line["event"] for line in told]
