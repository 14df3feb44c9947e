"""A process with many objects never holds its event loop for a long garbage collection."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Iterator

import pytest

from fedhpa.serving.process import GROWTH, LEAST_GROWTH, SHORT_SECONDS, Garbage


class Node:
    """An object that refers to itself, so that only a collection frees it."""

    def __init__(self) -> None:
        self.itself = self


class Process:
    """The clock and the blocks in use of a process, both set by hand."""

    def __init__(self) -> None:
        self.time = 0.0
        self.step = 0.0
        self.size = 100 * LEAST_GROWTH

    def clock(self) -> float:
        self.time += self.step
        return self.time


@pytest.fixture
def process() -> Process:
    return Process()


@pytest.fixture
def garbage(process: Process) -> Iterator[Garbage]:
    found = Garbage(process.clock, lambda: process.size)
    found.follow()
    yield found
    found.unfollow()


def frozen_cycle(process: Process) -> weakref.ref[Node]:
    """A cycle that is garbage since a long collection took it out of the later ones."""
    node = Node()
    process.step = SHORT_SECONDS * 2
    gc.collect()
    return weakref.ref(node)


def test_a_long_collection_takes_its_survivors_out(process: Process, garbage: Garbage) -> None:
    """After a long one, the next collection has nearly nothing to look at."""
    kept = [Node() for _ in range(10_000)]
    process.step = SHORT_SECONDS / 2
    gc.collect()
    after_short = len(gc.get_objects())
    process.step = SHORT_SECONDS * 2
    gc.collect()

    assert after_short > len(kept)
    assert len(gc.get_objects()) < len(kept) / 10


def test_a_cycle_among_the_survivors_is_found_when_the_process_has_grown(
    process: Process, garbage: Garbage
) -> None:
    """It is freed once the process has a tenth more; until then nothing is looked at."""
    node = frozen_cycle(process)
    gc.collect()
    process.size = int(process.size * GROWTH) - 1
    assert not garbage.check()
    assert node() is not None

    process.size += 2
    assert garbage.check()
    assert node() is None


def test_a_small_process_may_grow_by_some_blocks(process: Process) -> None:
    """A tenth of a small process is no reason to look at everything."""
    process.size = 10
    garbage = Garbage(process.clock, lambda: process.size)
    garbage.follow()
    try:
        process.size = LEAST_GROWTH
        assert not garbage.check()
        process.size = LEAST_GROWTH + 10
        assert garbage.check()
        assert not garbage.check()
    finally:
        garbage.unfollow()


def test_what_was_taken_out_is_freed_without_a_collection(process: Process, garbage: Garbage) -> None:
    """An object in no cycle goes with its last reference, as ever."""
    node = Node()
    node.itself = node.__class__()  # no cycle of its own
    gone = weakref.ref(node)
    process.step = SHORT_SECONDS * 2
    gc.collect()
    gc.disable()
    try:
        del node
        assert gone() is None
    finally:
        gc.enable()


def test_garbage_of_cycles_is_bounded(process: Process) -> None:
    """Once there are as many cycles as one look allows, they are found, whatever memory stays free."""
    garbage = Garbage(process.clock)
    garbage.follow()
    try:
        for _ in range(3):
            kept = [Node() for _ in range(LEAST_GROWTH + sys.getallocatedblocks() // 10)]
            gone = [weakref.ref(node) for node in kept[:10]]
            process.step = SHORT_SECONDS * 2
            gc.collect()
            del kept
            assert garbage.check()
            assert all(found() is None for found in gone)
    finally:
        garbage.unfollow()
