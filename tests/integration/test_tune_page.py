"""The commands of docs/tune-an-autoscaler.md run as they stand."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from fedhpa.backtest import encode_recording
from testbed.reference.recordings import made
from tests.support.nightly import only_at_night
from tests.support.tutorial import ROOT, Terminal, blocks, save_manifests, started, steps

PAGE = (ROOT / "docs" / "tune-an-autoscaler.md").read_text(encoding="utf-8")


def follow(folder: Path, recording: str = "") -> None:
    """Runs each command of the page in order and compares with it; with a recording, runs over that one."""
    environment = os.environ | {"TMPDIR": str(folder), "COLUMNS": "80"}
    with started(["bash", "--noprofile", "--norc"], environment) as shell:
        terminal = Terminal(shell)
        for step in (step for block in blocks(PAGE, "console") for step in steps(block)):
            if recording and step.command.startswith("recording="):
                terminal.run(f"recording={recording}")
            elif recording and step.shown:
                assert "take " in terminal.run(step.command)
            else:
                terminal.check(step)
            if step.command.startswith("cd "):
                save_manifests(PAGE, Path(terminal.run("pwd")))
        there = Path(terminal.run("pwd"))
    assert (there / "report.html").read_bytes().startswith(b"<!DOCTYPE html>")
    assert (there / "report.svg").read_bytes().startswith(b"<svg")


@only_at_night
@pytest.mark.timeout(1200)
def test_page_works(tmp_path: Path) -> None:
    """Each command prints what the page shows."""
    follow(tmp_path)


def test_page_works_with_a_day(tmp_path: Path) -> None:
    """Each command of the page works over one day in place of two weeks."""
    assert shutil.which("bash")
    file = tmp_path / "day.json.gz"
    file.write_bytes(encode_recording(made("batch-nights", days=1), compressed=True))
    follow(tmp_path, str(file))
