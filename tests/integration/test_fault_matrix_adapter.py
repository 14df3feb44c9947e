"""Every fault of a member, as the adapter's callers see it: the member is named, and the others' data is
served. The tests run in memory and virtual time, over real TLS where a fault is about TLS. Each row is a
fault of one of two members, with the texts of the Warning header and the log. After the fault both members
are served, and no member is named.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from metrics_adapter.members.probes import SUSPECT_SECONDS
from tests.support.federation import Adapter, adapter, federation, until
from tests.support.nightly import NIGHTLY
from tests.support.plane_faults import Fault

pytestmark = pytest.mark.looptime(noop_cycles=0)

SERVER = ""
METRICS = "/apis/metrics.k8s.io"
DEADLINE = 3.0
# Only these need TLS, whose handshakes are a quarter of the cost.
OF_TLS = (Fault.WRONG_CA, Fault.EXPIRED, Fault.CUT)

SILENT = "no answer within 3 s"
UNREADABLE = "its metrics cannot be read"
UNUSABLE = "its metrics cannot be used"
CUT = "answer cut off|Connection reset"
LIES = (Fault.NAN, Fault.NEGATIVE)


@dataclass(frozen=True)
class Row:
    """A fault, its place, and the expected text about it."""

    fault: Fault
    where: str
    reason: str

    def __str__(self) -> str:
        return f"{self.fault}-{'metrics' if self.where else 'server'}"


ROWS = [
    # fault, where, reason
    Row(Fault.REFUSE, SERVER, "cannot connect: Connection refused"),
    Row(Fault.WRONG_CA, SERVER, "certificate not accepted: "),
    Row(Fault.EXPIRED, SERVER, "certificate not accepted: certificate has expired"),
    Row(Fault.HANG, SERVER, SILENT),
    Row(Fault.DRIP, SERVER, SILENT),
    Row(Fault.TOO_MANY_REQUESTS, SERVER, "HTTP 429"),
    Row(Fault.SERVER_ERROR, SERVER, "HTTP 500"),
    Row(Fault.TRUNCATED, SERVER, UNREADABLE),
    Row(Fault.CUT, SERVER, CUT),
    Row(Fault.NAN, SERVER, f"{UNUSABLE}: shop/web-.*cpu 'NaN' is not a quantity"),
    Row(Fault.NEGATIVE, SERVER, f"{UNUSABLE}: shop/web-.*cpu '-[0-9]+m' is negative"),
    Row(Fault.HANG, METRICS, SILENT),
    Row(Fault.DRIP, METRICS, SILENT),
    Row(Fault.TOO_MANY_REQUESTS, METRICS, "HTTP 429"),
    Row(Fault.SERVER_ERROR, METRICS, "etcdserver: request timed out.*HTTP 500"),
    Row(Fault.TRUNCATED, METRICS, UNREADABLE),
    Row(Fault.CUT, METRICS, CUT),
]


async def well(caller: Adapter) -> None:
    """Sends requests until both members answer. Fails after two minutes."""
    async with asyncio.timeout(120):
        while (await caller.get()).clusters != {"m1": 2, "m2": 3}:  # noqa: ASYNC110  # asks a server
            await asyncio.sleep(1)


# By day each fault of a whole member, and two of the other faults of its metrics.
BY_DAY = [row for row in ROWS if row.where == SERVER or row.fault in (Fault.HANG, Fault.TRUNCATED)]


@pytest.mark.nightly
@pytest.mark.parametrize("row", ROWS if NIGHTLY else BY_DAY, ids=str)
async def test_the_member_is_named_and_the_others_are_served(
    row: Row, tmp_path: Path, logs: list[Any]
) -> None:
    """The answer is 200 with the other's pods within the deadline. Header, log and series name the member.
    Afterwards both are served.
    """
    async with federation(tmp_path, tls=row.fault in OF_TLS, m1=2, m2=3) as f, adapter(f) as caller:
        f.demand(250)
        await until(lambda: f.ready_pods == 5)
        before = await caller.get()
        await f.members["m2"].faults.set(row.fault, [row.where])
        answers = [await caller.get() for _ in range(3)]
        await asyncio.sleep(SUSPECT_SECONDS + DEADLINE + 1)
        series = await caller.metrics()
        told = [line for line in logs if line.get("cluster") == "m2" and line["event"] == "metrics missing"]
        await f.members["m2"].faults.clear()
        await well(caller)
        after = await caller.get()

    assert (before.status, before.clusters, before.warnings) == (200, {"m1": 2, "m2": 3}, [])
    for answer in answers:
        assert (answer.status, answer.clusters) == (200, {"m1": 2})
        assert answer.seconds <= DEADLINE + 0.1
        (warning,) = answer.warnings
        assert warning.startswith('299 - "m2 did not answer: ')
        assert re.search(row.reason, warning)
    assert len(told) == 1
    assert re.search(row.reason, told[0]["reason"])
    assert 'fedhpa_adapter_member_api_answered{api="metrics.k8s.io",cluster="m2"} 0.0' in series
    # Values that cannot be used come from a member that answers its probe.
    assert f'fedhpa_adapter_member_up{{cluster="m2"}} {float(row.fault in LIES)}' in series
    assert 'fedhpa_adapter_member_up{cluster="m1"} 1.0' in series
    assert (after.status, after.clusters, after.warnings) == (200, {"m1": 2, "m2": 3}, [])


@pytest.mark.nightly
@pytest.mark.parametrize("row", ROWS if NIGHTLY else ROWS[::3], ids=str)
async def test_nobody_answering_is_no_empty_list(row: Row, tmp_path: Path) -> None:
    """The answer is 503, and the Status names both members with their reasons."""
    async with federation(tmp_path, tls=row.fault in OF_TLS, m1=2, m2=3) as f, adapter(f) as caller:
        await until(lambda: f.ready_pods == 5)
        for member in f.members.values():
            await member.faults.set(row.fault, [row.where])
        answer = await caller.get()

    assert (answer.status, answer.body["kind"]) == (503, "Status")
    assert answer.body["reason"] == "ServiceUnavailable"
    for name in ("m1", "m2"):
        assert re.search(f"{name}: .*({row.reason})", answer.body["message"])


async def test_a_member_that_disappears_is_no_longer_expected(tmp_path: Path, logs: list[Any]) -> None:
    """Its Cluster object is deleted with it, so it is not missing. The log has its removal."""
    async with federation(tmp_path, m1=2, m2=3) as f, adapter(f) as caller:
        await until(lambda: f.ready_pods == 5)
        await f.members["m2"].faults.set(Fault.DISAPPEAR)
        gone = await caller.get()
        f.part("m2")
        await until(lambda: "member deregistered" in [line["event"] for line in logs])
        parted = await caller.get()
        await f.members["m2"].faults.clear()
        f.join("m2")
        await well(caller)

    assert (gone.clusters, len(gone.warnings)) == ({"m1": 2}, 1)
    assert (parted.clusters, parted.warnings) == ({"m1": 2}, [])


TOLD = (
    "API server does not answer",
    "API server fails for another reason",
    "list or watch failed",
    "list or watch fails for another reason",
)
HUB_ROWS = [
    # fault of the hub, what the log says
    (Fault.REFUSE, "cannot connect: Connection refused"),
    (Fault.WRONG_CA, "certificate not accepted: "),
    (Fault.EXPIRED, "certificate not accepted: certificate has expired"),
    (Fault.HANG, "no answer within"),
    (Fault.DRIP, ""),  # lists and watches are slow and succeed
    (Fault.TOO_MANY_REQUESTS, "too many requests"),
    (Fault.SERVER_ERROR, "etcdserver: request timed out"),
    (Fault.TRUNCATED, "cannot be read"),
    (Fault.CUT, CUT),
]


# By day one of the faults that fail alike.
HUB_BY_DAY = [row for row in HUB_ROWS if row[0] not in (Fault.WRONG_CA, Fault.DRIP, Fault.TOO_MANY_REQUESTS)]


@pytest.mark.nightly
@pytest.mark.parametrize(("fault", "reason"), HUB_ROWS if NIGHTLY else HUB_BY_DAY)
async def test_members_are_served_without_the_hub(
    fault: Fault, reason: str, tmp_path: Path, logs: list[Any]
) -> None:
    """The known members are served correctly. The log names the fault and its end."""
    async with federation(tmp_path, tls=fault in OF_TLS, m1=2, m2=3) as f, adapter(f) as caller:
        await until(lambda: f.ready_pods == 5)
        await f.hub.faults.set(fault)
        # Lists are needed, too.
        f.hub.server.store.compact()
        f.hub.server.watches.end()
        answers = []
        for _ in range(20):
            await asyncio.sleep(10)
            answers.append(await caller.get())
        told = [line for line in logs if line["event"] in TOLD]
        logs.clear()
        await f.hub.faults.clear()
        if told:
            await until(lambda: "list and watch work" in [line["event"] for line in logs])

    assert {answer.status for answer in answers} == {200}
    assert all(answer.clusters == {"m1": 2, "m2": 3} and not answer.warnings for answer in answers)
    assert not reason or any(re.search(reason, str(line["error"])) for line in told)
