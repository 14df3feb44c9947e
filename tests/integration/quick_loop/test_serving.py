"""Webhook and adapter serve on uvloop: what is promised of certificates and over TLS holds there too."""

from __future__ import annotations

import asyncio

import uvloop

# The tests themselves, with their fixtures: they are collected here once more.
from tests.integration.test_admission_over_tls import *  # noqa: F403
from tests.integration.test_tls_reload import *  # noqa: F403


async def test_this_folder_runs_on_uvloop() -> None:
    """Or its tests would say nothing that the others do not."""
    assert type(asyncio.get_running_loop()) is uvloop.Loop
