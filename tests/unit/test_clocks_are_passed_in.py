"""A process reads only the clock that it was started with, so that its hours can pass in virtual time."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import fedhpa
from tests.support.sources import parsed

ROOT = Path(fedhpa.__file__).parents[1]
FOLDERS = ("controller", "fedhpa", "metrics_adapter", "webhook")
# Where the clock of the machine is defined.
DEFINED = "fedhpa/kube/clock.py"
# Where a process takes the clock of the machine and passes it on.
PROCESS = "fedhpa/serving/process.py"
# A command line is a process, too: these modules are its commands.
COMMANDS = {
    "fedhpa/cli/certs.py": {"now", "time"},
    "fedhpa/cli/cron/next.py": {"now"},  # importing fedhpa.kube for its clock would double its time
    "fedhpa/cli/cron/preview.py": {"SYSTEM"},
    "fedhpa/cli/doctor.py": {"SYSTEM"},
    "fedhpa/cli/drain/__init__.py": {"SYSTEM"},
    "fedhpa/cli/explain.py": {"SYSTEM"},
    "fedhpa/cli/hold.py": {"SYSTEM"},
    "fedhpa/cli/hub_client.py": {"SYSTEM"},
    "fedhpa/cli/join/__init__.py": {"SYSTEM"},
    "fedhpa/cli/join/registration.py": {"SYSTEM"},  # opens the clients of `join` and `unjoin`
    "fedhpa/cli/preview.py": {"SYSTEM"},
    "fedhpa/cli/record.py": {"SYSTEM"},
    "fedhpa/cli/top.py": {"SYSTEM"},
    "fedhpa/cli/backtest/inputs.py": {"SYSTEM"},
}
# Work that holds the event loop, and the time of a request, are measured in the machine's time, also in a
# simulation. Nothing depends on them but series and debug lines, or in pieces.py when a list yields.
# process.py measures the CPU time of collections.
MEASURED = (
    "fedhpa/kube/pieces.py",
    "fedhpa/serving/server.py",
    "metrics_adapter/adapter_series.py",
    "metrics_adapter/pace.py",
    "webhook/review_series.py",
)
ALLOWED = COMMANDS | {path: {"perf_counter"} for path in MEASURED} | {PROCESS: {"SYSTEM", "thread_time"}}
CLOCKS = {"time", "monotonic", "perf_counter", "process_time", "thread_time", "clock_gettime", "time_ns"}
TODAY = {"now", "utcnow", "today"}


def modules() -> list[str]:
    found = (
        path.relative_to(ROOT).as_posix() for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")
    )
    return sorted(set(found) - {DEFINED})


def clocks_read(tree: ast.AST) -> Iterator[str]:
    """Yields each use of a clock of the machine: of `time`, of the present date, or of SYSTEM."""
    for node in ast.walk(tree):
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


def clocks_bound(tree: ast.AST) -> Iterator[str]:
    """Yields each clock of the machine that is the default of a parameter or of a field."""
    for node in ast.walk(tree):
        match node:
            case ast.arguments(defaults=defaults, kw_defaults=named):
                for default in (*defaults, *filter(None, named)):
                    yield from clocks_read(default)
            case ast.ClassDef(body=body):
                for field in body:
                    if isinstance(field, ast.AnnAssign | ast.Assign) and field.value is not None:
                        yield from clocks_read(field.value)


@pytest.mark.parametrize("module", modules())
def test_a_module_reads_no_clock_of_the_machine(module: str) -> None:
    """Only entry points take the clock of the machine, and none of them as a default."""
    tree = parsed(ROOT / module)

    # The namespace kube-system has this name in the doctor.
    read = {name for name in clocks_read(tree) if name != "SYSTEM" or imports_system(tree)}
    assert read <= ALLOWED.get(module, set())
    assert list(clocks_bound(tree)) == []


def imports_system(tree: ast.AST) -> bool:
    """True if SYSTEM is that of fedhpa.kube."""
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    return any(
        (node.module or "").startswith("fedhpa.kube") and alias.name == "SYSTEM"
        for node in imports
        for alias in node.names
    )


@pytest.mark.parametrize("module", ALLOWED)
def test_an_exception_is_needed(module: str) -> None:
    """A module that reads a clock no more is taken off the list."""
    assert set(clocks_read(parsed(ROOT / module))) == ALLOWED[module]


def test_the_clock_is_taken_once() -> None:
    """Processes are given the clock in one place."""
    assert list(clocks_read(parsed(ROOT / PROCESS))).count("SYSTEM") == 1


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
    assert found == list(clocks_read(ast.parse(source)))


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def f(clock=time.monotonic): ...", ["monotonic"]),
        ("def f(*, clock=SYSTEM): ...", ["SYSTEM"]),
        ("@dataclass\nclass A:\n    clock: Clock = SYSTEM", ["SYSTEM"]),
        ("f = lambda now=datetime.now: now()", ["now"]),
        ("def f(): return time.monotonic()", []),
    ],
)
def test_defaults_are_found(source: str, found: list[str]) -> None:
    """A default is bound when the module is imported, so no caller would miss the clock that it forgot."""
    assert found == list(clocks_bound(ast.parse(source)))
