"""Logs: structured events on stderr, as JSON lines or for people, the libraries' own logs among them."""

from __future__ import annotations

import logging
import os
import sys
from typing import TextIO

import structlog

# From klog: 4 is "debug level verbosity".
DEBUG_VERBOSITY = 4
# What has lines on purpose.
TRACES = ("exception", "stack")


def configure_logs(form: str, verbosity: int, stream: TextIO | None = None) -> None:
    """Set up structlog and logging; `form` is "json" or "text"."""
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
        shared.append(_harmless)
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
    # asyncio at debug names every selector; nobody asked for that with -v=4.
    logging.getLogger("asyncio").setLevel(logging.WARNING)


def _harmless(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """What callers and members sent must not command the terminal; structlog quotes what has line ends."""
    for key, value in event.items():
        if isinstance(value, str) and not value.isprintable() and key not in TRACES:
            event[key] = "".join(char if char.isprintable() or char.isspace() else "?" for char in value)
    return event
