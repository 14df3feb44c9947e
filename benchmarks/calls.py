"""The function calls of a piece of work: its cost in a unit that no other work on the machine changes."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def counted() -> Iterator[list[int]]:
    """Count the calls of Python and C functions in this thread. The list has their number at the end."""
    profile, found = cProfile.Profile(), list[int]()
    with profile:
        yield found
    found.append(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]  # its stub lacks it
