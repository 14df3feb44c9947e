"""The instructions of the Dockerfile."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Instruction(NamedTuple):
    """One instruction with its continuation lines joined; `stage` counts the FROM lines, from 0."""

    stage: int
    name: str
    text: str


def instructions() -> list[Instruction]:
    """Returns the instructions in order."""
    lines = [
        line
        for line in (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
        if line.strip() and not line.startswith("#")
    ]
    found: list[Instruction] = []
    stage = -1
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        name, _, text = line.partition(" ")
        stage += name == "FROM"
        found.append(Instruction(stage, name, " ".join(text.split())))
    return found
