"""What holds for the whole suite: how tests are spread over workers, which may be tried twice, and what none
of them should pay for.

Tests are given to xdist's workers one by one, but those to one that share what is dear: the planes of
tests/real, which take half a minute to start, and the wheel. xdist's own groups (`--dist loadgroup`) would
do, but xdist 3.8 writes them where pytest 9.2 no longer reads.
"""

import asyncio
import gc
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import structlog
from _pytest.terminal import TerminalReporter
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from tests.support.nightly import examples

# Each is one worker's.
TOGETHER = ("tests/real/", "tests/integration/test_wheel_runs_elsewhere.py")


class SomeTogether(LoadScopeScheduling):  # type: ignore[misc]  # xdist ships no types
    """Every test is a scope of its own, but for TOGETHER: a scope each, which, being larger, start first."""

    def _split_scope(self, nodeid: str) -> str:
        return next((path for path in TOGETHER if nodeid.startswith(path)), nodeid)


# These start first, so that no worker is left with one of them at the end.
LONG = ("integration/test_demo_embedded.py", "integration/test_adapter_killed_under_load.py", "virtual")
HERE = Path(__file__).parent
# These wait for other programs, on machines that now and then stand still (docs/decisions/0010).
TWICE = ("integration/", "real/")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put what takes seconds before the rest, in the order of LONG; else they stay as they were shuffled."""
    items.sort(key=_turn)
    for item in items:
        if _file(item).startswith(TWICE):
            item.add_marker(pytest.mark.flaky(reruns=1))


def _file(item: pytest.Item) -> str:
    return item.path.relative_to(HERE).as_posix() if item.path.is_relative_to(HERE) else ""


def _turn(item: pytest.Item) -> int:
    file = _file(item)
    return next((turn for turn, path in enumerate(LONG) if file.startswith(path)), len(LONG))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """xdist's hook, called in its controller."""
    return SomeTogether(config, log)


# What a property does not say of itself; here, because it holds for those that are defined after it, wherever
# they are. No deadline, and no look at how long examples take to draw: a machine that stands still for
# seconds proves nothing.
settings.register_profile(
    "here",
    max_examples=examples(50, 2_000),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("here")

# An unexpected error is logged with its traceback, into which structlog's default draws all local variables:
# minutes of work where whole clusters are among them.
structlog.configure(
    processors=[
        *structlog.get_config()["processors"][:-1],
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback),
    ]
)


@contextmanager
def logs_as_they_were() -> Iterator[None]:
    """Undoes what happens within to the logs of the whole interpreter: processes and commands set them up."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    config = structlog.get_config()
    processors = config["processors"][:]
    try:
        yield
    finally:
        # The list stays the same one: that is how structlog's own tools replace what is in it.
        config["processors"][:] = processors
        structlog.configure(**config)
        root.handlers[:] = handlers
        root.setLevel(level)


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    """A command that hushes all but errors must not hush the next test, which looks at warnings."""
    with logs_as_they_were():
        yield


@pytest.fixture(autouse=True)
def _sockets_end_with_their_test(request: pytest.FixtureRequest) -> Iterator[None]:
    """Collects what the loop of a test over sockets left, without a word about sockets.

    Python's asyncio forgets a connection whose client goes in the midst of a TLS handshake (3.11, 3.12): the
    collector closes it, and where that happens in the midst of another test, that one fails for the warning.
    """
    yield
    if _file(request.node).startswith(TWICE):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


# Checks that run against both planes assert outside of test modules.
pytest.register_assert_rewrite("tests.conformance.plane")


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Say where the summary is read what failed at first, and that kubectl was not asked."""
    failed = {report.nodeid for report in terminalreporter.stats.get("failed", [])}
    again = [report for report in terminalreporter.stats.get("rerun", []) if report.nodeid not in failed]
    if again:
        terminalreporter.section(f"PASSED ONLY AT THE SECOND TRY: {len(again)}", sep="!")
        for report in again:
            terminalreporter.line(f"{report.nodeid} ({report.when}):")
            terminalreporter.line(report.longreprtext)
            for title, text in report.sections:
                terminalreporter.line(f"{title}:\n{text}")
    skipped = terminalreporter.stats.get("skipped", [])
    without = [report for report in skipped if "no kubectl" in str(report.longrepr)]
    if without:
        terminalreporter.section(f"NOT RUN: {len(without)} checks of what kubectl prints", sep="!")
        terminalreporter.line("there is no kubectl: put one on PATH, or build one with `make real-plane`")


def pytest_sessionstart() -> None:
    """Say that there is no event loop yet: else pytest-asyncio asks for the current one, which makes one that
    nobody closes, whenever a plain test comes before the first async one.
    """
    asyncio.set_event_loop(None)
    # No file of a test outlives it: of a thousand keys and certificates none need reach the disk.
    os.fsync = _no_need


def _no_need(fd: object) -> None:
    del fd


def pytest_collection_finish() -> None:
    """Thousands of collected tests and all modules stay until the end: not to be looked through again and
    again for what can be freed.
    """
    gc.collect()
    gc.freeze()
