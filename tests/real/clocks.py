"""The wall clock of one program under test, which tests set while the program runs.

libfaketime answers the program's calls of CLOCK_REALTIME. The monotonic clocks stay the machine's, as when an
administrator sets the time.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

LIBRARY = "vendor/libfaketime/src/libfaketime.so.1"


class WallClock:
    """The wall clock of the programs that are started with `environment`. At first it is the machine's."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._offset = 0.0
        self.environment = {
            "LD_PRELOAD": str(_library()),
            "FAKETIME_TIMESTAMP_FILE": str(file),
            # Each call reads the file, so a step is seen at once.
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }
        self.set(time.time())

    def set(self, instant: float) -> None:
        """Sets the clock to an instant, in POSIX seconds. It goes on from there."""
        self._offset = instant - time.time()
        # A program must not read a half-written offset.
        temporary = self._file.with_suffix(".new")
        temporary.write_text(f"{self._offset:+.3f}\n", encoding="utf-8")
        temporary.rename(self._file)

    def now(self) -> float:
        """Returns what the clock shows, in POSIX seconds."""
        return time.time() + self._offset


def wall_clock(file: Path) -> WallClock:
    """Returns a clock that is kept in `file`. Without a usable libfaketime the test is skipped, or fails if
    real planes are required.
    """
    problem = _problem(file)
    if problem and os.environ.get("FEDHPA_REAL_PLANE") == "require":
        pytest.fail(problem)
    if problem:
        pytest.skip(problem)
    return WallClock(file)


def _library() -> Path:
    found = importlib.util.find_spec("libfaketime")
    if found is None or not found.submodule_search_locations:
        raise FileNotFoundError("libfaketime is not installed: make venv installs it")
    return Path(found.submodule_search_locations[0]) / LIBRARY


def _problem(file: Path) -> str:
    """Returns why the clock of a program cannot be set here; empty if it can."""
    try:
        clock = WallClock(file)
    except FileNotFoundError as error:
        return str(error)
    clock.set(0.0)
    # The dynamic linker ignores a library for another processor.
    told = subprocess.run(
        [sys.executable, "-I", "-S", "-c", "import time; print(time.time())"],
        env={**os.environ, **clock.environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if told.returncode == 0 and float(told.stdout) < 60:
        return ""
    return f"libfaketime does not work here: {told.stderr.strip() or told.stdout.strip()}"
