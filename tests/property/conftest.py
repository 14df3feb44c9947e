"""Every property is tried wider at night (`make nightly`), which takes longer than a test may by day."""

from pathlib import Path

import pytest
from hypothesis import settings

from tests.nightly import NIGHTLY, examples

# What a property does not say of itself. No deadline: a machine that has other things to do proves nothing.
settings.register_profile("here", max_examples=examples(50, 2_000), deadline=None)
settings.load_profile("here")

HERE = Path(__file__).parent
NIGHT_SECONDS = 3600


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.nightly)
            if NIGHTLY:
                item.add_marker(pytest.mark.timeout(NIGHT_SECONDS))
