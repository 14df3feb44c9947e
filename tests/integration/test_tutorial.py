"""The commands of docs/tutorial.md run as they stand and print what the page shows, on the embedded plane."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.conformance.plane.under_test import find_kubectl
from tests.support.nightly import only_at_night
from tests.support.tutorial import SECONDS, run_the_tutorial


@pytest.fixture
def programs() -> Path:
    """The folder of kubectl. Without it the test is skipped, and the summary of pytest says so."""
    kubectl = find_kubectl()
    if kubectl is None:
        pytest.skip("no kubectl")
    return kubectl.parent


@only_at_night  # tests/real runs the same page
@pytest.mark.timeout(900)
def test_the_tutorial_works(programs: Path, tmp_path: Path) -> None:
    """Each command of the page prints what the page shows; the plane ends at Ctrl-C and leaves no files."""
    environment = os.environ | {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "HOME": str(tmp_path),  # for kubectl's cache
        "TMPDIR": str(tmp_path),
    }
    environment.pop("KUBECONFIG", None)
    run_the_tutorial("embedded", environment, start_seconds=SECONDS)
