"""The webhook and the adapter run on uvloop, and on asyncio's own loop where uvloop is missing."""

from __future__ import annotations

import asyncio
import sys
from contextlib import closing

import pytest
import uvloop

from fedhpa.serving.process import quick_loop


def test_the_loop_is_uvloop() -> None:
    """uvloop is a dependency on every platform that it supports."""
    with closing(quick_loop()) as loop:
        assert type(loop) is uvloop.Loop


def test_without_uvloop_it_is_asyncios_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A platform without uvloop serves all the same."""
    monkeypatch.setitem(sys.modules, "uvloop", None)

    with closing(quick_loop()) as loop:
        assert isinstance(loop, asyncio.BaseEventLoop)
