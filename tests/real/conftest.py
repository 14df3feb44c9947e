"""The real plane of the tests: a hub and two members, started once for each worker (tests/conftest.py)."""

import asyncio
import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from testbed.real.assets import find_assets
from testbed.real.plane import Plane
from testbed.real.tools import kubernetes_asked_for
from testbed.stage.processes import CONTROLLER, WEBHOOK, Processes
from testbed.stage.registrations import ADAPTER
from tests.real.wellness import all_is_well

LOG_LINES = 60
HERE = Path(__file__).parent
# These compare an API server with records of the newest version, which the embedded plane imitates.
OF_THE_NEWEST = ("test_conformance.py",)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.real)
            if kubernetes_asked_for() and item.path.name in OF_THE_NEWEST:
                item.add_marker(pytest.mark.skip(reason="the records are those of the newest Kubernetes"))
            # Each wait of a test has a deadline; this one ends a test that hangs.
            item.add_marker(pytest.mark.timeout(1200))
            # The garbage collector closes the socket of an interrupted TLS handshake (tests/conftest.py),
            # sometimes before the test has ended.
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))


@pytest.fixture(scope="session")
def assets() -> Path:
    """The folder with the planes' programs. Without them the tests are skipped, or fail if required."""
    found = find_assets()
    if found is None:
        reason = "no real control planes: programs are missing (make real-plane builds them)"
        if os.environ.get("FEDHPA_REAL_PLANE") == "require":
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@pytest.fixture(scope="session")
def plane(assets: Path) -> Iterator[Plane]:
    """A hub with the CRDs, and two registered members with metrics."""
    plane = Plane(assets)
    try:

        async def start() -> None:
            await plane.start()
            await plane.metrics_work()

        asyncio.run(start())
        yield plane
    finally:
        plane.end()


@pytest.fixture(scope="session")
def processes(plane: Plane) -> Processes:
    """Webhook, adapter and controller, running and called by the hub. They end with the plane.

    The adapter caches for one second instead of ten, because tests wait for each change.
    """
    processes = Processes(plane, adapter_flags=["--metrics-max-age=1s"])
    asyncio.run(processes.start())
    return processes


@pytest.fixture(autouse=True)
def _all_is_well(request: pytest.FixtureRequest) -> None:
    """Waits before each test until the processes have recovered from the previous one."""
    if "processes" in request.fixturenames:
        plane, processes = (request.getfixturevalue(name) for name in ("plane", "processes"))
        asyncio.run(all_is_well(plane, processes))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds the last log lines of each process to the report of a failed test."""
    report = yield
    processes = getattr(item, "funcargs", {}).get("processes")
    if report.failed and isinstance(processes, Processes):
        for name in (WEBHOOK, ADAPTER, CONTROLLER):
            lines = processes.log(name).read_text(encoding="utf-8", errors="replace").splitlines()
            report.sections.append((f"log of {name}", "\n".join(lines[-LOG_LINES:])))
    return report
