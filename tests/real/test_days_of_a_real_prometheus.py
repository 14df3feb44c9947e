"""`fedhpa record --days` against a real Prometheus, filled with a recorded day by promtool."""

from __future__ import annotations

import json
import math
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedhpa.backtest import decode_recording
from fedhpa.cli.main import run
from testbed.stage.ports import free_port
from testbed.stage.runs import Run
from tests.support.recorded_days import manifest

CLUSTERS = ("member1", "member2")
PODS = 3
STEP = 60
HOURS = 25
SECONDS = 60


def cores(at: float, cluster: str) -> float:
    """The usage of a pod."""
    return 0.5 + 0.4 * math.sin(at / 7200) + 0.1 * CLUSTERS.index(cluster)


def openmetrics(end: int) -> Iterator[str]:
    """Yields the lines of a day, in which an hour of member2 is missing."""
    times = range(end - HOURS * 3600, end + 1, STEP)
    gap = range(end - 10 * 3600, end - 9 * 3600)
    known = [(at, cluster) for cluster in CLUSTERS for at in times if cluster == "member1" or at not in gap]
    yield "# TYPE container_cpu_usage_seconds counter"
    for cluster in CLUSTERS:
        for pod in (*(f"web-5d9c7b6f4-{index:05}" for index in range(PODS)), "web-api-5d9c7b6f4-00000"):
            total = 0.0
            for at in times:
                total += cores(at, cluster) * STEP
                if cluster == "member1" or at not in gap:
                    labels = f'cluster="{cluster}",namespace="shop",pod="{pod}",container="web",image="x"'
                    yield f"container_cpu_usage_seconds_total{{{labels}}} {total:.3f} {at}"
    for name, value in (("spec_replicas", PODS), ("status_replicas_ready", PODS)):
        yield f"# TYPE kube_deployment_{name} gauge"
        for at, cluster in known:
            labels = f'cluster="{cluster}",namespace="shop",deployment="web"'
            yield f"kube_deployment_{name}{{{labels}}} {value} {at}"
    for name in ("requests", "limits"):
        yield f"# TYPE kube_pod_container_resource_{name} gauge"
        for at, cluster in known:
            for index in range(PODS):
                labels = (
                    f'cluster="{cluster}",namespace="shop",pod="web-5d9c7b6f4-{index:05}",container="web"'
                )
                yield f'kube_pod_container_resource_{name}{{{labels},resource="cpu",unit="core"}} 1 {at}'
    yield "# EOF"


@pytest.fixture
def store(assets: Path) -> Iterator[tuple[str, int]]:
    """A Prometheus with the day, and the end of the day."""
    end = int(time.time()) // STEP * STEP
    started = Run.begin()
    try:
        folder = started.folder
        (folder / "day.om").write_text("\n".join(openmetrics(end)) + "\n", encoding="utf-8")
        command = [str(assets / "promtool"), "tsdb", "create-blocks-from", "openmetrics"]
        subprocess.run(
            [*command, str(folder / "day.om"), str(folder / "data")],
            check=True,
            capture_output=True,
            timeout=120,
        )
        (folder / "prometheus.yaml").write_text("{}", encoding="utf-8")
        port = free_port()
        flags = [
            f"--config.file={folder / 'prometheus.yaml'}",
            f"--web.listen-address=127.0.0.1:{port}",
            f"--storage.tsdb.path={folder / 'data'}",
            "--storage.tsdb.retention.time=30d",
            "--log.level=warn",
        ]
        started.spawn("prometheus", [str(assets / "prometheus"), *flags], folder / "log")
        url = f"http://127.0.0.1:{port}"
        _wait(url)
        yield url, end
    finally:
        started.end()


def _wait(url: str) -> None:
    until = time.monotonic() + SECONDS
    while True:
        try:
            with urllib.request.urlopen(f"{url}/-/ready", timeout=5):
                return
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


def test_a_day_is_recorded(store: tuple[str, int], tmp_path: Path) -> None:
    """Demand, replicas, requests and the gap are those of the store. Another workload's pods are left out."""
    url, _ = store
    (tmp_path / "web.json").write_text(json.dumps(manifest()))
    file = tmp_path / "day.json.gz"
    flags = ["--days", "1", "--prometheus", url, "--manifest", str(tmp_path / "web.json"), "--step", "60s"]

    assert run(["record", "fhpa/web", *flags, "-f", str(file)]) == 0
    found = decode_recording(file.read_bytes(), "file")
    assert [one.name for one in found.clusters] == list(CLUSTERS)
    assert found.end - found.start >= 23.5 * 3600
    assert len(file.read_bytes()) < 2**20
    for one in found.clusters:
        assert {value for value in one.replicas if value is not None} == {PODS}
        assert {value for value in one.request["cpu"] if value is not None} == {1000}
        for step in range(30, found.steps - 30):
            demand = one.demand["cpu"][step]
            # The rate is over the two minutes before.
            wanted = 1000 * PODS * cores(found.start + step * 60 - 60, one.name)
            if demand is not None and one.ready[step] is not None:
                assert demand == pytest.approx(wanted, rel=0.05)
    assert None not in found.clusters[0].ready[:-5]
    gap = found.clusters[1].ready.count(None)
    # Prometheus shows the last value for five minutes.
    assert 50 <= gap <= 62
