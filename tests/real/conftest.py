"""One plane for all real tests: a hub and two members, started once (tests/conftest.py keeps them
together)."""

import asyncio
import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from testbed.real.assets import find_assets
from testbed.real.plane import Plane
from testbed.stage.processes import CONTROLLER, WEBHOOK, Processes
from testbed.stage.registrations import ADAPTER
from tests.real.wellness import all_is_well

LOG_LINES = 60
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.real)
            # Every wait has a deadline of its own, and a test has several; this ends what hangs.
            item.add_marker(pytest.mark.timeout(1200))
            # A call that was cut in the midst of a TLS handshake leaves a socket, which the collector closes
            # (tests/conftest.py), now and then before the test has ended.
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))


@pytest.fixture(scope="session")
def assets() -> Path:
    """The folder with the planes' programs; the tests are skipped, or fail if planes are required,
    without."""
    found = find_assets()
    if found is None:
        reason = "no real control planes: their programs are not all here (make real-plane builds them)"
        if os.environ.get("FEDHPA_REAL_PLANE") == "require":
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@pytest.fixture(scope="session")
def plane(assets: Path) -> Iterator[Plane]:
    """A hub with our CRDs and two registered members whose metrics work."""
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
    """Webhook, adapter and controller, running and called by the hub; they end with the plane."""
    processes = Processes(plane)
    asyncio.run(processes.start())
    return processes


@pytest.fixture(autouse=True)
def _all_is_well(request: pytest.FixtureRequest) -> None:
    """No test begins while what another one stopped, killed or registered is still felt by the processes."""
    if "processes" in request.fixturenames:
        plane, processes = (request.getfixturevalue(name) for name in ("plane", "processes"))
        asyncio.run(all_is_well(plane, processes))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test shows the end of what each process logged: the run's folder is gone when somebody
    looks."""
    report = yield
    processes = getattr(item, "funcargs", {}).get("processes")
    if report.failed and isinstance(processes, Processes):
        for name in (WEBHOOK, ADAPTER, CONTROLLER):
            lines = processes.log(name).read_text(encoding="utf-8", errors="replace").splitlines()
            report.sections.append((f"log of {name}", "\n".join(lines[-LOG_LINES:])))
    return report
