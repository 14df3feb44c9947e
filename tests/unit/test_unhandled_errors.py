"""Errors that no task handles are logged, but not each connection that a peer resets within TLS."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from fedhpa.serving.process import report_unhandled

CLOSED = RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed")
# As uvloop words them.
TLS = "Fatal error on SSL protocol"


@pytest.mark.parametrize(
    ("context", "lines"),
    [
        ({"message": TLS, "exception": CLOSED}, 0),
        ({"message": TLS, "exception": ValueError("another fault")}, 1),
        ({"message": "Task exception was never retrieved", "exception": CLOSED}, 1),
        ({"message": "no exception"}, 1),
    ],
)
async def test_a_connection_that_ends_within_tls_is_no_error(
    context: dict[str, Any], lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    """It is told at debug; any other is an error as asyncio logs it."""
    caplog.set_level(logging.WARNING)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(report_unhandled)
    loop.call_exception_handler(context)

    assert len(caplog.records) == lines
