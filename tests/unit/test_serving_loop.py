"""Webhook and adapter run on uvloop, and without it where there is none."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Iterator
from contextlib import closing

import pytest
import uvloop

from fedhpa.serving import loops


@pytest.fixture
def without_uvloop(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "uvloop", None)
        importlib.reload(loops)
        yield
    importlib.reload(loops)


def test_the_loop_is_uvloop() -> None:
    """It is a dependency wherever it can be built."""
    with closing(loops.quick_loop()) as loop:
        assert type(loop) is uvloop.Loop


@pytest.mark.usefixtures("without_uvloop")
def test_without_uvloop_it_is_asyncios_own() -> None:
    """A platform that has none serves all the same."""
    with closing(loops.quick_loop()) as loop:
        assert isinstance(loop, asyncio.BaseEventLoop)
