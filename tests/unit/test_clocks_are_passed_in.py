"""A controller reads only the clock that it was started with, so that its hours can pass in virtual time."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import fedhpa

ROOT = Path(fedhpa.__file__).parents[1]
FOLDERS = ("controller", "fedhpa/kube", "fedhpa/members")
# Where the clock of the machine is defined, and where a process takes it.
DEFINED = "fedhpa/kube/clock.py"
STARTED = "controller/process.py"
# Work that would hold the event loop is measured in the machine's time, also in a simulation.
WORK = {"fedhpa/kube/pieces.py": {"perf_counter"}}
CLOCKS = {"time", "monotonic", "perf_counter", "process_time", "thread_time", "clock_gettime", "time_ns"}
TODAY = {"now", "utcnow", "today"}


def modules() -> list[str]:
    found = (
        path.relative_to(ROOT).as_posix() for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")
    )
    return sorted(set(found) - {DEFINED})


def clocks_read(source: str) -> Iterator[str]:
    """Yields each use of a clock of the machine: of `time`, of the present date, or of SYSTEM."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(value=ast.Name(id="time"), attr=name) if name in CLOCKS:
                yield name
            case ast.Attribute(
                value=ast.Name(id="datetime" | "date") | ast.Attribute(attr="datetime" | "date"), attr=name
            ) if name in TODAY:
                yield name
            case ast.Name(id="SYSTEM"):
                yield "SYSTEM"
            case ast.ImportFrom(module="time"):
                yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("module", modules())
def test_a_module_reads_no_clock_of_the_machine(module: str) -> None:
    """Only the entry point of the process takes the clock of the machine."""
    allowed = {"SYSTEM"} if module == STARTED else WORK.get(module, set())

    assert set(clocks_read((ROOT / module).read_text(encoding="utf-8"))) <= allowed


def test_the_clock_is_taken_once() -> None:
    """The process passes the clock on from one place."""
    assert list(clocks_read((ROOT / STARTED).read_text(encoding="utf-8"))) == ["SYSTEM"]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import time\ndef f(clock=time.monotonic): ...", ["monotonic"]),
        ("from time import monotonic", ["monotonic"]),
        ("import datetime as dt\ndt.datetime.now(dt.UTC)", ["now"]),
        ("from fedhpa.kube import SYSTEM\nlead(SYSTEM)", ["SYSTEM"]),
        ("clock.monotonic()", []),
    ],
)
def test_uses_are_found(source: str, found: list[str]) -> None:
    """A default, an import, the present date and the machine's clock are each seen."""
    assert found == list(clocks_read(source))
