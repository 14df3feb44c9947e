"""`make test`: the whole suite in one pytest call, with real planes where they can be had.

One call, so that the last lines are the summary of everything. The tests of tests/real share one worker
(tests/conftest.py) beside the others. Arguments are pytest's; later ones win, so `-n 0` takes the workers
away.
"""

import os
import sys

import pytest

from testbed.real.assets import PlaneUnavailable, ensure_assets, say

REQUIRE = "require"
# One more than two cores: tests wait for sockets and planes, too.
WORKERS = "3"


class NotRun:
    """A pytest plugin that says, where the summary is read, what was not run."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Called by pytest right before its closing line."""
        terminalreporter.section("NOT RUN: tests/real, everything against real control planes", sep="!")
        terminalreporter.line(self.reason)


def main(arguments: list[str]) -> int:
    """Pytest's exit code; 1 if planes are required and cannot be had."""
    plugins: list[object] = []
    try:
        say(f"programs of the planes: {ensure_assets()}")
    except PlaneUnavailable as error:
        say(f"NOT RUNNING tests/real: {error}")
        if os.environ.get("FEDHPA_REAL_PLANE") == REQUIRE:
            say(f"FEDHPA_REAL_PLANE={REQUIRE}: that is a failure")
            return 1
        plugins.append(NotRun(str(error)))
    return int(pytest.main(["-n", WORKERS, *arguments], plugins=plugins))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
