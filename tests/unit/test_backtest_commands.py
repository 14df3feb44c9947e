"""The commands about recorded days: their flags, their rows, and their reads of the hub."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from fedhpa.api.errors import ApiError
from fedhpa.backtest import decode_recording, encode_recording, recorded_spec
from fedhpa.cli.backtest.commands import backtest, cron_suggest, suggest
from fedhpa.cli.backtest.inputs import prices_of, subject_of_hub
from fedhpa.cli.main import run
from tests.support.recorded_days import manifest, recording


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """The flags for an object with target 60, and a recording of two hours."""
    days, raw = tmp_path / "days.json.gz", tmp_path / "web.json"
    days.write_bytes(encode_recording(recording(lambda _: 3_000, hours=2), compressed=True))
    raw.write_text(json.dumps(manifest(60)))
    return ["--recording", str(days), "-f", str(raw)]


@pytest.fixture
def weeks(tmp_path: Path) -> list[str]:
    """The flags for three weeks with a ramp on each morning, which the object meets late."""

    def ramp(hour: float) -> float:
        return 2_000 + 14_000 * min(max((hour % 24 - 8.04) / 0.15, 0), 1) * (hour % 24 < 17)

    days, raw = tmp_path / "weeks.json.gz", tmp_path / "slow.json"
    three = recording(ramp, hours=21 * 24, step=300.0, size=30)
    days.write_bytes(encode_recording(three, compressed=True))
    raw.write_text(json.dumps(manifest(60, 3, syncPeriodSeconds=300)))
    return ["--recording", str(days), "-f", str(raw)]


def test_windows_are_suggested_for_a_recording(weeks: list[str], tmp_path: Path, capsys: Any) -> None:
    """As a manifest to apply, and as a report."""
    file = tmp_path / "report.json"
    codes = [run(["cron", "suggest", *weeks, "-o", form]) for form in ("yaml", str(file))]
    told = capsys.readouterr()
    [window] = yaml.safe_load(told.out)["spec"]["rules"]

    assert codes == [0, 0]
    assert "fewer minutes over target" in told.err
    assert window["schedule"].startswith("45 7 * * ")
    assert window["targetMinReplicas"] > 3
    assert json.loads(file.read_bytes())["runs"][0]["name"] == "recorded"


@pytest.mark.parametrize(
    ("command", "expected"),
    [("suggest", "needs 4: record more"), ("cron suggest", "patterns need 3: record more")],
)
def test_a_short_recording_is_refused(
    files: list[str], tmp_path: Path, capsys: Any, command: str, expected: str
) -> None:
    """Two hours have no pattern: one line, exit code 2, and no report."""
    code = run([*command.split(), *files, "-o", str(tmp_path / "report.json")])
    err = capsys.readouterr().err

    assert code == 2
    assert expected in err
    assert not (tmp_path / "report.json").exists()


def test_an_equal_variant_is_no_second_row(files: list[str], capsys: Any) -> None:
    """The target of the object is left out of the rows, and so is a window that it has by default."""
    code = run(["backtest", *files, "--vary", "target=60,70", "-o", "json"])
    names = [one["name"] for one in json.loads(capsys.readouterr().out)["runs"]]

    assert code == 0
    assert sorted(names) == ["object", "recorded", "target=70"]


@pytest.mark.parametrize("command", ["backtest", "suggest", "cron suggest"])
def test_a_report_that_cannot_be_written_leaves_nothing(
    files: list[str], tmp_path: Path, capsys: Any, command: str
) -> None:
    """The folder of the file is missing, which is told before the search."""
    code = run([*command.split(), *files, "-o", str(tmp_path / "missing" / "report.json")])

    assert code == 2
    assert "cannot be written" in capsys.readouterr().err
    assert not (tmp_path / "missing").exists()


def test_flags_are_the_same_but_for_their_defaults() -> None:
    """The commands share one list."""
    first, second, third = (
        set(inspect.signature(command).parameters) for command in (backtest, suggest, cron_suggest)
    )

    assert first - second == {"vary"}
    assert second - first == set()
    assert (third - second, second - third) == ({"time_zone"}, {"unserved"})


class _Hub:
    """A hub that keeps the requests. Any other method than reads is missing."""

    def __init__(self, refused: str = "no path") -> None:
        self.asked: list[str] = []
        self._refused = refused

    def _ask(self, verb: str, path: str) -> None:
        self.asked.append(f"{verb} {path.rpartition('/v1alpha1/')[2]}")
        if self._refused in path:
            raise ApiError("forbidden", status=403)

    async def get_json(self, path: str, **more: Any) -> Any:
        self._ask("get", path)
        return manifest()

    async def list(self, resource: Any, *arguments: Any, **more: Any) -> Any:
        self._ask("list", str(resource))
        return type("Listed", (), {"items": []})()


def test_the_hub_is_only_read() -> None:
    """One read of the object, one list of its rules, and one of the Clusters with their prices."""
    hub: Any = _Hub()

    async def read() -> None:
        await subject_of_hub(hub, "shop", "web", named=True)
        await prices_of(hub)

    asyncio.run(read())

    assert sorted(hub.asked) == [
        "get namespaces/shop/federatedhpas/web",
        "list clusters",
        "list namespaces/shop/cronfederatedhpas",
    ]


@pytest.mark.parametrize("refused", ["/federatedhpas", "/cronfederatedhpas", "/clusters"])
@pytest.mark.parametrize("command", ["record", "backtest", "suggest", "cron suggest"])
def test_a_right_that_lacks_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any, command: str, refused: str
) -> None:
    """The hub refuses one of the reads: one line, exit code 2, and no file."""

    @asynccontextmanager
    async def hub_client(*_: str) -> AsyncIterator[tuple[Any, str]]:
        yield _Hub(refused), "shop"

    monkeypatch.setattr("fedhpa.cli.backtest.inputs.hub_client", hub_client)
    file = tmp_path / "report.json"
    flags = [
        "--days",
        "1",
        "--prometheus",
        "http://127.0.0.1:1",
        "-f" if command == "record" else "-o",
        str(file),
    ]
    code = run([*command.split(), "fhpa/web", *flags])
    err = capsys.readouterr().err

    assert code == 2
    assert len(err.splitlines()) == 1
    assert "ask an administrator of the hub for this right" in err
    assert list(tmp_path.iterdir()) == []


def test_a_recording_keeps_no_selector() -> None:
    """A written file has the names of clusters and the workload, and no label of anything else."""

    raw = manifest()
    raw["spec"]["metrics"].append(
        {
            "type": "External",
            "external": {
                "metric": {"name": "queue", "selector": {"matchLabels": {"team": "secret"}}},
                "target": {"type": "Value", "value": "5"},
            },
        }
    )
    raw["spec"]["clusterAffinity"] = {"labelSelector": {"matchLabels": {"zone": "secret"}}}
    days = recording(lambda _: 1_000, hours=1)
    kept = msgspec.structs.replace(days, spec=recorded_spec(raw["spec"]))
    content = encode_recording(kept, compressed=False)

    assert b"secret" not in content
    assert decode_recording(content, "file") == kept
