"""What holds for all tests over sockets of this process."""

import gc
import warnings
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _sockets_end_with_their_test() -> Iterator[None]:
    """Collects what the test's loop left, without a word about sockets.

    Python's asyncio forgets a connection whose client goes in the midst of a TLS handshake (3.11, 3.12): the
    collector closes it, and where that happens in the midst of another test, that one fails for the warning.
    """
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
