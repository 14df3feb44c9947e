"""Logs of virtual hours are captured, not printed, because printing takes longer than the simulation.

The timeout is longer too: virtual time does not speed up a slow machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

HERE = Path(__file__).parent
SECONDS = 600.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sets the timeout. pytest calls this hook with the items of all folders."""
    for item in items:
        if item.path.is_relative_to(HERE) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SECONDS))


@pytest.fixture(autouse=True)
def logs() -> Iterator[list[Any]]:
    """Returns the log entries in order."""
    with capture_logs() as entries:
        yield entries
