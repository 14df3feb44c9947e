"""`make` without a target starts nothing: it prints the targets."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("arguments", [[], ["help"]], ids=["make", "make help"])
def test_make_prints_each_target_with_one_line(arguments: list[str]) -> None:
    """Every phony target stands in the output once, with a sentence, and CONTRIBUTING.md describes it."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony is not None
    # Under `make test`, make would print the directories that it enters.
    command = ["make", "--no-print-directory", "--no-builtin-rules", *arguments]

    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout

    lines = [re.fullmatch(r"make ([a-z-]+) +([A-Z][^#]*\.)", line) for line in printed.splitlines()]
    assert [line and line[1] for line in lines] == phony[1].split()
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert [target for target in phony[1].split() if f"| `make {target}` |" not in page] == []
