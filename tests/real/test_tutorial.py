"""The commands of docs/tutorial.md print the same on real control planes as the page shows."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.tutorial import run_the_tutorial

START_SECONDS = 300.0


def test_the_tutorial_works_on_real_control_planes(assets: Path, tmp_path: Path) -> None:
    """Each command of the page prints what the page shows; the planes end at Ctrl-C and leave no files."""
    environment = os.environ | {
        "PATH": f"{assets}:{os.environ['PATH']}",
        "KUBECACHEDIR": str(tmp_path / "kubectl-cache"),
        "TMPDIR": str(tmp_path),
    }
    environment.pop("KUBECONFIG", None)
    run_the_tutorial("real", environment, start_seconds=START_SECONDS)
