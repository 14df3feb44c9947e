"""When Python collects garbage: rarely in tests, and as often as in a process where costs are measured."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

# Our processes keep Python's thresholds. conftest imports this module before it changes them.
OF_PROCESSES: Final = gc.get_threshold()


def collect_rarely() -> None:
    """Sets thresholds for the suite, because the default ones cost it a twentieth of its CPU time."""
    gc.set_threshold(20_000, 20, 20)


@contextmanager
def collecting_as_processes(collected: bool = True) -> Iterator[None]:
    """Restores the thresholds of processes for a measurement, which starts without garbage of other tests.

    `collected=False` keeps the garbage: a full collection takes longer than most work that is measured.
    """
    before = gc.get_threshold()
    if collected:
        gc.collect()
    gc.set_threshold(*OF_PROCESSES)
    try:
        yield
    finally:
        gc.set_threshold(*before)
