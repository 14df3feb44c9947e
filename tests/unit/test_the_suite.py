"""The promises of tests/conftest.py to every test."""

from __future__ import annotations

import io
import logging

import structlog
from structlog.testing import capture_logs

from fedhpa.serving.logs import configure_logs
from tests.conftest import logs_as_they_were


def test_logs_that_were_set_up_are_as_before() -> None:
    """After a process or a command has configured the logs, the next test sees warnings again."""
    before, handlers = structlog.get_config(), logging.getLogger().handlers[:]
    with logs_as_they_were():
        configure_logs("json", 0, io.StringIO())
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
        with capture_logs() as hushed:
            structlog.get_logger().warning("something")
    with capture_logs() as logged:
        structlog.get_logger().warning("something")

    assert hushed == []
    assert [line["event"] for line in logged] == ["something"]
    assert structlog.get_config() == before
    assert logging.getLogger().handlers == handlers
