"""What is logged in virtual hours is kept, not printed: thousands of lines would cost more than the hours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs


@pytest.fixture(autouse=True)
def logs() -> Iterator[list[Any]]:
    """The log's entries, as they come."""
    with capture_logs() as entries:
        yield entries
