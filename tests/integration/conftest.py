"""Fixtures of several files of this folder."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio
from structlog.testing import capture_logs

from tests.support.installation import CONTROLLER_LEASES, Installation, installation


@pytest.fixture(name="logs")
def kept_logs() -> Iterator[list[Any]]:
    """Returns the log's entries in order."""
    with capture_logs() as entries:
        yield entries


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def installation_of_the_file(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Installation]:
    """Returns an installation with the member m1. It takes seconds to start."""
    async with installation(tmp_path_factory.mktemp("installation")) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def made(installation_of_the_file: Installation) -> AsyncIterator[Installation]:
    """Returns the installation of the file, in which nothing is broken. Afterwards it is whole again."""
    for name in CONTROLLER_LEASES:  # no controller renews them here
        installation_of_the_file.renew(name)
    yield installation_of_the_file
    await installation_of_the_file.restore()
