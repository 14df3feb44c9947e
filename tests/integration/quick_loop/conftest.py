"""What is in this folder runs on the loop of the processes that serve, not on asyncio's own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from fedhpa.serving.process import quick_loop


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """pytest-asyncio's hook."""
    return {"quick": quick_loop}
