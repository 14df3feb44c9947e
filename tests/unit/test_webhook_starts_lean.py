"""The webhook imports nothing that only commands need."""

from __future__ import annotations

import subprocess
import sys


def test_the_process_imports_no_library_for_terminals() -> None:
    """rich takes a seventh of the start, and no process shows what it draws. Commands still have it."""
    code = "import sys, webhook.process as p; print('rich' in sys.modules); import typer, rich; print(p.main)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.startswith("False\n<function main")
