"""Configures logging: structured events on stderr, as JSON lines or text, including the libraries' logs."""

from __future__ import annotations

import logging
import os
import sys
from typing import TextIO

import structlog

# klog calls verbosity 4 "debug level verbosity".
DEBUG_VERBOSITY = 4
# Keys whose values have several lines.
MULTILINE_KEYS = ("exception", "stack")


def configure_logs(form: str, verbosity: int, stream: TextIO | None = None) -> None:
    """Configures structlog and logging; `form` is "json" or "text"."""
    stream = sys.stderr if stream is None else stream
    level = logging.DEBUG if verbosity >= DEBUG_VERBOSITY else logging.INFO
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        structlog.processors.format_exc_info,
    ]
    if form != "json":
        shared.append(_printable)
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if form == "json"
        else structlog.dev.ConsoleRenderer(
            colors=stream.isatty() and "NO_COLOR" not in os.environ, timestamp_key="time"
        )
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    # asyncio's debug log names every selector, which does not help a user of -v=4.
    logging.getLogger("asyncio").setLevel(logging.WARNING)


def _printable(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Replaces control characters, so that a text of a caller or member cannot control the terminal.

    structlog itself quotes texts with line breaks.
    """
    for key, value in event.items():
        if isinstance(value, str) and not value.isprintable() and key not in MULTILINE_KEYS:
            event[key] = "".join(char if char.isprintable() or char.isspace() else "?" for char in value)
    return event
