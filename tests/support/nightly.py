"""How far the costly tests go: a sample in the suite, everything at night (`FEDHPA_NIGHTLY=1`)."""

import os

import pytest

NIGHTLY = os.environ.get("FEDHPA_NIGHTLY", "") not in ("", "0")
# The marks of a test that goes further at night, and may then take its time.
NIGHT = [pytest.mark.nightly, *([pytest.mark.timeout(3600)] if NIGHTLY else [])]


def examples(suite: int, nightly: int) -> int:
    """How many examples a property is tried with."""
    return nightly if NIGHTLY else suite
