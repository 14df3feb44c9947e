"""A process imports no library that only another configuration of it needs: imports are most of its start."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("process", "unneeded"),
    [
        # The client of a metrics store, which --metrics-source=members does not read.
        ("metrics_adapter.process", {"requests", "urllib3", "prometheus_api_client", "pydantic", "rich"}),
        ("webhook.process", {"requests", "urllib3", "fedhpa.members.member", "typer", "rich"}),
        ("controller.process", {"requests", "urllib3", "typer", "rich"}),
    ],
)
def test_process_imports_only_what_it_runs(process: str, unneeded: set[str]) -> None:
    """The names of all imported modules are those of a fresh interpreter."""
    code = f"import sys, {process}; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert unneeded & set(found.stdout.split()) == set()
