"""The commands about recorded days: their flags, their rows, and their reads of the hub."""

from __future__ import annotations

import asyncio
import inspect
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fedhpa.backtest import decode_recording, encode_recording, recorded_spec
from fedhpa.cli.backtest.command import backtest
from fedhpa.cli.backtest.cron_suggest import cron_suggest
from fedhpa.cli.backtest.inputs import subject_of_hub
from fedhpa.cli.backtest.store import prices_of
from fedhpa.cli.backtest.suggest import suggest
from fedhpa.cli.main import run
from tests.support.recorded_days import manifest, recording


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """The flags for an object with target 60, and a recording of two hours."""
    days, raw = tmp_path / "days.json.gz", tmp_path / "web.json"
    days.write_bytes(encode_recording(recording(lambda _: 3_000, hours=2), compressed=True))
    raw.write_text(json.dumps(manifest(60)))
    return ["--recording", str(days), "-f", str(raw)]


def test_an_equal_variant_is_no_second_row(files: list[str], capsys: Any) -> None:
    """The target of the object is left out of the rows, and so is a window that it has by default."""
    code = run(["backtest", *files, "--vary", "target=60,70", "-o", "json"])
    names = [one["name"] for one in json.loads(capsys.readouterr().out)["runs"]]

    assert code == 0
    assert sorted(names) == ["object", "recorded", "target=70"]


def test_a_report_that_cannot_be_written_leaves_nothing(
    files: list[str], tmp_path: Path, capsys: Any
) -> None:
    """The folder of the file is missing."""
    code = run(["backtest", *files, "-o", str(tmp_path / "missing" / "report.json")])

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

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def get_json(self, path: str, **more: Any) -> Any:
        self.asked.append(f"get {path.rpartition('/v1alpha1/')[2]}")
        return manifest()

    async def list(self, resource: Any, *arguments: Any, **more: Any) -> Any:
        self.asked.append(f"list {str(resource).rpartition('/v1alpha1/')[2]}")
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
