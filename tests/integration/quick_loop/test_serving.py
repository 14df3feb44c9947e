"""The TLS and certificate tests pass on uvloop too, the loop of the webhook and the adapter."""

from __future__ import annotations

import asyncio

import uvloop

# These imports collect the tests and their fixtures a second time.
from tests.integration.test_admission_over_tls import *  # noqa: F403
from tests.integration.test_strangers_at_the_port import *  # noqa: F403
from tests.integration.test_tls_reload import *  # noqa: F403


async def test_this_folder_runs_on_uvloop() -> None:
    """Otherwise the tests of this folder would only repeat the others."""
    assert type(asyncio.get_running_loop()) is uvloop.Loop
