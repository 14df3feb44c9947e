"""The extent of expensive tests: a sample by default, everything with `FEDHPA_NIGHTLY=1`."""

import os
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., Any])

NIGHTLY = os.environ.get("FEDHPA_NIGHTLY", "") not in ("", "0")
# The marks of a test that does more in nightly runs, and may then take an hour.
NIGHT = [pytest.mark.nightly, *([pytest.mark.timeout(3600)] if NIGHTLY else [])]
# Seconds of virtual time in which nothing happens and nothing may be written.
QUIET_SECONDS = 3600 if NIGHTLY else 1200


def examples(suite: int, nightly: int) -> int:
    """Returns the number of examples of a property."""
    return nightly if NIGHTLY else suite


# The marks of a case that runs only in nightly runs. A shorter test of the suite shows the same.
AT_NIGHT = [
    pytest.mark.nightly,
    pytest.mark.skipif(not NIGHTLY, reason="runs in `make nightly`; the suite has a shorter test"),
]


def only_at_night(test: Test) -> Test:
    """Decorates a test that runs only in nightly runs, as AT_NIGHT."""
    for mark in AT_NIGHT:
        test = mark(test)
    return test
