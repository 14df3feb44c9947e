"""Commands that read days from a fake Prometheus, which answers, lacks data, fails, forbids, or is slow.

Each error is shown with `record`, `backtest`, `suggest` and `cron suggest`, because each writes a file.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from fedhpa.backtest import decode_recording
from fedhpa.cli.main import run
from tests.support.recorded_days import manifest

POINTS = 11_000
DAYS = 86_400


class Store:
    """A Prometheus that computes the series of a workload. `change` may replace an answer."""

    def __init__(self) -> None:
        self.queries: list[dict[str, str]] = []
        self.change: Callable[[dict[str, str]], web.Response | None] = lambda _: None
        self.value: Callable[[str, str, float], float | None] = self.plain
        self.delay = 0.0
        self.url = ""

    @staticmethod
    def plain(series: str, cluster: str, at: float) -> float | None:
        """A load that follows the time, three replicas, and requests of a core."""
        if series == "usage":
            return 1.5 + math.sin(at / 7200) + (cluster == "member2")
        return 3.0 if series == "size" else 1.0

    async def answer(self, request: web.Request) -> web.Response:
        asked = {key: str(value) for key, value in (await request.post()).items()}
        self.queries.append(asked)
        await asyncio.sleep(self.delay)
        changed = self.change(asked)
        if changed is not None:
            return changed
        start, end, step = (float(asked[key]) for key in ("start", "end", "step"))
        steps = round((end - start) / step) + 1
        if steps > POINTS:
            return web.json_response({"status": "error", "error": "exceeded maximum resolution"}, status=400)
        text = asked["query"]
        series = "usage" if "cpu_usage" in text else "size" if "kube_deployment" in text else "resource"
        result = []
        for cluster in ("member1", "member2"):
            values = [
                (start + index * step, self.value(series, cluster, start + index * step))
                for index in range(steps)
            ]
            known = [[at, str(value)] for at, value in values if value is not None]
            if known:
                result.append({"metric": {"cluster": cluster}, "values": known})
        return web.json_response({"status": "success", "data": {"resultType": "matrix", "result": result}})


@pytest.fixture
def store() -> Iterator[Store]:
    """A store in a thread of its own, because the command is synchronous."""
    found, ready, loop = Store(), threading.Event(), asyncio.new_event_loop()

    async def serve() -> web.AppRunner:
        app = web.Application(client_max_size=2**20)
        app.router.add_post("/api/v1/query_range", found.answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        found.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        return runner

    def work() -> None:
        asyncio.set_event_loop(loop)
        runner = loop.run_until_complete(serve())
        ready.set()
        loop.run_forever()
        loop.run_until_complete(runner.cleanup())
        loop.close()

    thread = threading.Thread(target=work)
    thread.start()
    ready.wait(10)
    yield found
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)


@pytest.fixture
def record(store: Store, tmp_path: Path) -> Callable[..., tuple[int, Path]]:
    """Runs the command. Returns its exit code and the file that it should write."""
    object_file = tmp_path / "web.json"
    object_file.write_text(json.dumps(manifest()))

    def command(*more: str, url: str = "", days: int = 1) -> tuple[int, Path]:
        file = tmp_path / "recording.json.gz"
        flags = ["--days", str(days), "--prometheus", url or store.url, "--manifest", str(object_file)]
        return run(["record", "web", *flags, "-f", str(file), *more]), file

    return command


@pytest.fixture(params=["record", "backtest", "suggest", "cron suggest"])
def read(request: Any, store: Store, tmp_path: Path) -> Callable[..., tuple[int, Path]]:
    """Runs a command that reads days. Returns its exit code and the file that it should write."""
    object_file = tmp_path / "web.json"
    object_file.write_text(json.dumps(manifest()))
    records = request.param == "record"
    file = tmp_path / ("recording.json.gz" if records else "report.json")
    asked = ["web", "--manifest", str(object_file), "-f", str(file)]
    asked = asked if records else ["-f", str(object_file), "-o", str(file)]

    def command(*more: str, url: str = "", days: int = 1) -> tuple[int, Path]:
        flags = ["--days", str(days), "--prometheus", url or store.url]
        return run([*request.param.split(), *asked, *flags, *more]), file

    return command


def refused(ran: tuple[int, Path], capsys: Any) -> str:
    """The one line of an error. Nothing was written."""
    (code, file), err = ran, str(capsys.readouterr().err)
    assert code == 2
    assert len(err.splitlines()) == 1
    assert not file.exists()
    assert list(file.parent.glob(".*")) == []
    return err


def test_days_are_recorded_in_pieces(store: Store, record: Any, capsys: Any) -> None:
    """A day in steps of 5 s has more points than a store gives at once. No value is lost between pieces."""
    code, file = record("--step", "5s")

    assert code == 0, capsys.readouterr().err
    found = decode_recording(file.read_bytes(), "file")
    assert (found.namespace, found.name, found.step, found.steps) == ("shop", "web", 5.0, DAYS // 5)
    assert [one.name for one in found.clusters] == ["member1", "member2"]
    first = found.clusters[0]
    assert None not in first.demand["cpu"]
    assert first.demand["cpu"][12_000] == round(1000 * (1.5 + math.sin((found.start + 60_000) / 7200)))
    assert (first.replicas[0], first.ready[0], first.request["cpu"][0], first.limit["cpu"][0]) == (
        3,
        3,
        1000,
        1000,
    )
    usage = [one for one in store.queries if "cpu_usage" in one["query"]]
    assert len(usage) == 2
    assert float(usage[1]["start"]) == float(usage[0]["end"]) + 5


def test_a_recording_has_no_other_labels(store: Store, record: Any) -> None:
    """Of labels it has the names of clusters, the namespace and the name of the workload."""
    _, file = record("--step", "5m")
    found = decode_recording(file.read_bytes(), "file")
    kept = json.dumps(
        {"namespace": found.namespace, "name": found.name, "clusters": [one.name for one in found.clusters]}
    )

    assert found.spec == {}
    assert set(found.clusters[0].demand) == {"cpu"}
    assert kept == '{"namespace": "shop", "name": "web", "clusters": ["member1", "member2"]}'
    assert all('namespace="shop"' in one["query"] for one in store.queries)


def test_gaps_are_gaps(store: Store, record: Any) -> None:
    """A value that the store lacks, or that is no number, is no zero."""
    begin: list[float] = []

    def with_gap(series: str, cluster: str, at: float) -> float | None:
        begin.append(at)
        hour = (at - begin[0]) / 3600
        if cluster == "member2" and 5 <= hour < 6:
            return None
        return math.nan if cluster == "member2" and 7 <= hour < 8 else Store.plain(series, cluster, at)

    store.value = with_gap
    code, file = record("--step", "5m")

    assert code == 0
    second = decode_recording(file.read_bytes(), "file").clusters[1]
    for values in (second.demand["cpu"], second.ready, second.replicas):
        assert values[60:72] == [None] * 12
        assert values[84:96] == [None] * 12
        assert values[59] is not None


def test_less_retention_is_told(store: Store, record: Any, capsys: Any) -> None:
    """The command says from when on there is data, and records that."""
    begin: list[float] = []

    def late(series: str, cluster: str, at: float) -> float | None:
        begin.append(at)
        return Store.plain(series, cluster, at) if at - begin[0] >= 6 * 3600 else None

    store.value = late
    code, file = record("--step", "5m")

    assert code == 0
    assert re.search(r"has data from \S+Z on: 18h\S* instead of 1 days", capsys.readouterr().err)
    assert decode_recording(file.read_bytes(), "file").steps == 288 - 72


def test_no_data_names_the_query(store: Store, read: Any, capsys: Any) -> None:
    """The label of the clusters is wrong most of the time."""
    store.value = lambda *_: None
    err = refused(read("--step", "5m"), capsys)

    assert "has nothing of shop/web within 1 days" in err
    assert "label cluster" in err
    assert "container_cpu_usage_seconds_total" in err


def test_pods_are_counted_without_kube_state_metrics(store: Store, record: Any, capsys: Any) -> None:
    """Then a note says so."""
    store.value = lambda series, cluster, at: None if series == "size" else Store.plain(series, cluster, at)
    code, file = record("--step", "5m")

    assert code == 0
    assert "pods with a usage are counted" in capsys.readouterr().err
    assert decode_recording(file.read_bytes(), "file").clusters[0].ready[0] is not None


REMEDIES = {
    403: "ask for the right to query it, and check --metrics-store-token-file",
    404: "expected the URL up to the part before /api/v1",
    503: "check --prometheus and that the store is up",
    422: "check the rules; the query was",
}


def test_a_refusal_names_the_remedy(store: Store, read: Any, capsys: Any) -> None:
    """The status of the store decides which."""
    body = {"status": "error", "errorType": "execution", "error": "no"}
    for status, remedy in REMEDIES.items():
        store.change = lambda _, status=status: web.json_response(body, status=status)  # type: ignore[misc]
        err = refused(read("--step", "5m"), capsys)

        assert f"HTTP {status}" in err
        assert remedy in err


def test_a_failure_halfway_writes_nothing(store: Store, read: Any, capsys: Any) -> None:
    """The second piece fails."""
    store.change = lambda _: web.Response(status=500) if len(store.queries) > 3 else None
    refused(read("--step", "5s"), capsys)


def test_a_slow_store_ends_at_the_deadline(store: Store, read: Any, capsys: Any) -> None:
    """The message names the flags that help."""
    store.delay = 5.0
    err = refused(read("--step", "5m", "--metrics-store-deadline", "300ms"), capsys)

    assert "no answer within 0.3 s: use fewer --days" in err


def test_a_wrong_url_is_named(read: Any, capsys: Any) -> None:
    """Credentials in a URL are never printed."""
    for url, expected in (
        ("http://127.0.0.1:1", "cannot read the metrics store http://127.0.0.1:1"),
        ("ftp://store", '--prometheus="ftp://store": expected http'),
        ("http://me:secret@store", "--prometheus holds credentials"),
    ):
        err = refused(read(url=url), capsys)

        assert expected in err
        assert "secret" not in err


NO_MATRIX = (
    b"no json",
    b'{"status":"success","data":{"resultType":"vector","result":[]}}',
    b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"cluster":"a"},"values":[["x","1"]]}]}}',
    b'{"status":"success","data":{"resultType":"matrix","result":' + b"[" * 5000 + b"}}",
)


def test_what_is_no_matrix_is_refused(store: Store, read: Any, capsys: Any) -> None:
    """A hostile store gets one line of error."""
    for answer in NO_MATRIX:
        store.change = lambda _, body=answer: web.Response(body=body, content_type="application/json")  # type: ignore[misc]
        refused(read("--step", "5m"), capsys)


MONDAY = 1_772_409_600.0


def with_gap(load: Callable[[float], float]) -> Callable[[str, str, float], float | None]:
    """Returns a load by hour of the day and 8 replicas in two clusters; member2 is away for an hour."""

    def value(series: str, cluster: str, at: float) -> float | None:
        hour = (at - MONDAY) / 3600 % 24
        away = cluster == "member2" and 20 <= hour < 21
        return None if away else {"usage": load(hour), "size": 8.0, "resource": 1.0}[series]

    return value


def calm(hour: float) -> float:
    """Between 1 and 3 cores once a day."""
    return 2 + math.sin(hour / 12 * math.pi)


def ramp(hour: float) -> float:
    """From 1 to 8 cores at eight in the morning, and back in the evening."""
    return 1 + 7 * (min(max((hour - 8.04) / 0.15, 0), 1) - min(max((hour - 17) / 1.5, 0), 1))


@pytest.mark.parametrize(
    ("command", "load", "expected"),
    [
        ("backtest --days 1 --step 5m --vary target=50,70", calm, "no data of member2"),
        ("suggest --days 4 --step 15m", calm, "take target="),
        ("cron suggest --days 21 --step 5m", ramp, "fewer minutes over target"),
    ],
)
def test_a_store_with_gaps_is_enough(
    store: Store, tmp_path: Path, capsys: Any, command: str, load: Callable[[float], float], expected: str
) -> None:
    """Each command reads the store and answers; the hour of a lost member is a gap."""
    store.value = with_gap(load)
    object_file = tmp_path / "web.json"
    object_file.write_text(json.dumps(manifest(40, 3, syncPeriodSeconds=300)))
    code = run([*command.split(), "-f", str(object_file), "--prometheus", store.url])
    told = capsys.readouterr()

    assert code == 0, told.err
    assert expected in told.out
