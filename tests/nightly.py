"""How far the costly tests go: a sample in the suite, everything at night (`FEDHPA_NIGHTLY=1`)."""

import os

NIGHTLY = os.environ.get("FEDHPA_NIGHTLY", "") not in ("", "0")


def examples(suite: int, nightly: int) -> int:
    """How many examples a property is tried with."""
    return nightly if NIGHTLY else suite
