"""The extent of expensive tests: a sample by default, everything with `FEDHPA_NIGHTLY=1`."""

import os

import pytest

NIGHTLY = os.environ.get("FEDHPA_NIGHTLY", "") not in ("", "0")
# The marks of a test that does more in nightly runs, and may then take an hour.
NIGHT = [pytest.mark.nightly, *([pytest.mark.timeout(3600)] if NIGHTLY else [])]


def examples(suite: int, nightly: int) -> int:
    """Returns the number of examples of a property."""
    return nightly if NIGHTLY else suite
