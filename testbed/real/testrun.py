"""`make test`: the whole suite in one pytest call, with real planes if their programs can be built.

One call prints one summary of everything. tests/conftest.py assigns tests/real to three workers. Arguments
are pytest's, and later ones win: `-n 0` runs without workers.
"""

import os
import signal
import sys

import pytest

from testbed.real.assets import PlaneUnavailable, ensure_assets, say

REQUIRE = "require"
# Three workers run tests/real and mostly wait; two use the cores for everything else.
WORKERS = 5


class NotRun:
    """A pytest plugin whose summary names the tests that did not run."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """A hook that pytest calls before its last line."""
        terminalreporter.section("NOT RUN: tests/real, everything against real control planes", sep="!")
        terminalreporter.line(self.reason)


def main(arguments: list[str]) -> int:
    """Returns pytest's exit code, or 1 if planes are required and unavailable."""
    plugins: list[object] = []
    # A shell lets its background jobs ignore SIGINT, and programs that tests interrupt would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        say(f"programs of the planes: {ensure_assets()}")
    except PlaneUnavailable as error:
        say(f"NOT RUNNING tests/real: {error}")
        if os.environ.get("FEDHPA_REAL_PLANE") == REQUIRE:
            say(f"FEDHPA_REAL_PLANE={REQUIRE}: that is a failure")
            return 1
        plugins.append(NotRun(str(error)))
    return int(pytest.main([f"-n{WORKERS}", *arguments], plugins=plugins))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
