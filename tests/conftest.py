"""Settings of the whole suite: which worker runs a test, which tests are retried, and shared fixtures.

xdist's workers take tests one by one, except those that share an expensive fixture: the control planes of
tests/real, which take half a minute to start, an embedded plane, and the wheel. xdist has groups for that
(`--dist loadgroup`), but xdist 3.8 writes them where pytest 9.2 no longer reads them.
"""

import asyncio
import gc
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
import structlog
from _pytest.terminal import TerminalReporter
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from tests.support.collector import collect_rarely
from tests.support.compiled import compile_tests
from tests.support.nightly import examples

# Tests that share an expensive fixture run on one worker. tests/real runs on three, because its tests mostly
# wait. The first has the tests that need no hub with members or start their own. The other two have a hub
# with members each. The longest takes about ten minutes on two busy cores.
SHARED_FIXTURES = (
    tuple(
        f"tests/real/test_{name}.py"
        for name in (
            "tutorial",
            "admission_policy",
            "alerts",
            "dashboard_has_data",
            "crd_alone",
            "install_page",
            "prometheus_store",
            "rules_on_karmadas_crds",
            "works_on_karmadas_crds",
        )
    ),
    tuple(
        f"tests/real/test_{name}.py"
        for name in (
            "columns_and_ready",
            "drain",
            "hostile_fleet",
            "hub_autoscaler",
            "rights",
            "rules_survive_outages",
            "scaling",
            "shards",
            "why",
        )
    ),
    ("tests/real/test_chart_renders.py",),
    ("tests/real/",),
    ("tests/integration/test_doctor_command.py",),
    ("tests/integration/test_doctor_of_objects.py",),
    ("tests/integration/test_embedded_up.py",),
    ("tests/integration/test_values_through_the_hub.py",),
    ("tests/integration/test_wheel_runs_elsewhere.py",),
    # They look at the whole code.
    tuple(
        f"tests/unit/test_{name}.py"
        for name in (
            "counters_begin_at_zero",
            "docstrings",
            "metric_types",
            "package_boundaries",
            "reference_pages",
        )
    ),
)
# The tests of one file here are short, and share what the file computes once. Assigning them one by one would
# cost more than some of them.
BY_FILE = ("tests/unit/", "tests/conformance/", "tests/property/")


class SharedFixtureScheduling(LoadScopeScheduling):  # type: ignore[misc]  # xdist ships no types
    """Assigns each group of SHARED_FIXTURES and each file below BY_FILE to one worker, others one by one.

    xdist assigns large scopes first, so the groups start before single tests.
    """

    def _split_scope(self, nodeid: str) -> str:
        alone = nodeid.partition("::")[0] if nodeid.startswith(BY_FILE) else nodeid
        return next((group[0] for group in SHARED_FIXTURES if nodeid.startswith(group)), alone)


# These start first; otherwise one worker would still run them when the others have finished.
LONG = (
    "real/test_tutorial.py",
    "integration/test_demo_embedded.py",
    "integration/test_tutorial.py",
    "integration/test_cli_asks_the_hub.py",
    "integration/test_adapter_killed_under_load.py",
    "integration/test_adapter_soak.py",
)
HERE = Path(__file__).parent
# These wait for other programs and are retried once, because machines stall (docs/decisions/0010).
RETRIED = ("integration/", "real/")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move the tests of LONG to the front, in its order; the others keep their shuffled order."""
    items.sort(key=_position)
    for item in items:
        if _file(item).startswith(RETRIED):
            item.add_marker(pytest.mark.flaky(reruns=1))


def _file(item: pytest.Item) -> str:
    return _below_here(item.path)


@cache
def _below_here(path: Path) -> str:
    return path.relative_to(HERE).as_posix() if path.is_relative_to(HERE) else ""


def _position(item: pytest.Item) -> int:
    file = _file(item)
    return next((position for position, path in enumerate(LONG) if file.startswith(path)), len(LONG))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """xdist's hook, called in its controller."""
    return SharedFixtureScheduling(config, log)


# Defaults of every property test. They are set here because a profile applies only to tests defined after it.
# There is no deadline and no check of slow examples: a machine that stalls for seconds would fail them.
settings.register_profile(
    "here",
    max_examples=examples(30, 2_000),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("here")

# structlog's default formatter prints all local variables of a traceback. With whole clusters among them that
# takes minutes, so tests use plain tracebacks.
structlog.configure(
    processors=[
        *structlog.get_config()["processors"][:-1],
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback),
    ]
)


@contextmanager
def logs_as_they_were() -> Iterator[None]:
    """Restores the logging configuration on exit. Processes and commands under test change it."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    config = structlog.get_config()
    processors = config["processors"][:]
    try:
        yield
    finally:
        # structlog's own test tools replace the content of this list, so it must stay the same object.
        config["processors"][:] = processors
        structlog.configure(**config)
        root.handlers[:] = handlers
        root.setLevel(level)


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    """Restores the logs after each test: a command that silences warnings must not affect the next test."""
    with logs_as_they_were():
        yield


@pytest.fixture(autouse=True)
def _sockets_end_with_their_test(request: pytest.FixtureRequest) -> Iterator[None]:
    """Collects garbage after each socket test and ignores warnings about unclosed sockets.

    asyncio of Python 3.11 and 3.12 forgets a connection whose client leaves during the TLS handshake. The
    garbage collector closes that connection later, and the ResourceWarning would fail an unrelated test.
    Objects that survive belong to pytest and to caches. They are frozen, because a collection that scans
    them takes up to a third of a second.
    """
    yield
    # A test in virtual time has no sockets.
    if _file(request.node).startswith(RETRIED) and request.node.get_closest_marker("looptime") is None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
        gc.freeze()


# Checks that run against both planes assert outside of test modules.
pytest.register_assert_rewrite("tests.conformance.plane", "tests.support.client_checks")


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Lists the first attempts of tests that were tried again, and the kubectl checks that did not run."""
    failed = {report.nodeid for report in terminalreporter.stats.get("failed", [])}
    first = terminalreporter.stats.get("rerun", [])
    passed = [report for report in first if report.nodeid not in failed]
    for title, reports in (
        ("PASSED ONLY ON RETRY", passed),
        ("FAILED TWICE, HERE THE FIRST TIME", [report for report in first if report not in passed]),
    ):
        if reports:
            terminalreporter.section(f"{title}: {len(reports)}", sep="!")
        for report in reports:
            terminalreporter.line(f"{report.nodeid} ({report.when}):")
            terminalreporter.line(report.longreprtext)
            for heading, text in report.sections:
                terminalreporter.line(f"{heading}:\n{text}")
    skipped = terminalreporter.stats.get("skipped", [])
    without = [report for report in skipped if "no kubectl" in str(report.longrepr)]
    if without:
        terminalreporter.section(f"NOT RUN: {len(without)} checks of what kubectl prints", sep="!")
        terminalreporter.line("there is no kubectl: put one on PATH, or build one with `make real-plane`")


def pytest_configure(config: pytest.Config) -> None:
    """Compiles the tests before workers start."""
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        compile_tests(config, HERE)


def pytest_sessionstart() -> None:
    """Sets no current event loop, and disables fsync.

    Without the former, pytest-asyncio creates a loop that nobody closes when a synchronous test runs first.
    """
    asyncio.set_event_loop(None)
    # No file outlives its test, so thousands of keys and certificates need not reach the disk.
    os.fsync = _no_fsync


def _no_fsync(fd: object) -> None:
    del fd


def pytest_collection_finish() -> None:
    """Excludes collected tests and imported modules from garbage collection; they live until the end."""
    gc.collect()
    gc.freeze()
    collect_rarely()
