"""The tests of this folder run on uvloop, as the processes do. All others run on asyncio's own loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from fedhpa.serving.process import quick_loop


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Implements pytest-asyncio's hook."""
    return {"quick": quick_loop}
