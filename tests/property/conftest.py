"""Marks property tests: `make nightly` runs them with more examples and a longer timeout."""

from pathlib import Path

import pytest

from tests.support.nightly import NIGHTLY

HERE = Path(__file__).parent
NIGHT_SECONDS = 3600


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.nightly)
            if NIGHTLY:
                item.add_marker(pytest.mark.timeout(NIGHT_SECONDS))
