"""Configures logging: structured events on stderr, as JSON lines or text, including the libraries' logs."""

from __future__ import annotations

import logging
import os
import sys
from collections import Counter
from typing import TextIO

import structlog

from fedhpa.api.texts import for_terminal, one_line

# klog calls verbosity 4 "debug level verbosity".
DEBUG_VERBOSITY = 4
# Keys whose values have several lines.
MULTILINE_KEYS = ("exception", "stack")
# Characters of a value, and half of those of a trace.
MAX_TEXT = 2048
MAX_TRACE = 8192
# Lines of one event in a minute: of all, and about the same member or namespace. Each of a thousand members
# has one when a process starts.
MAX_LINES = 2_000
MAX_LINES_ABOUT = 60
ABOUT = ("cluster", "api", "namespace")
AUDIT = "audit"


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
        lambda _, __, event: _bounded("" if form == "json" else "  ", event),
    ]
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
    handler.addFilter(LineLimit())
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


class LineLimit(logging.Filter):
    """Lets few lines of one event through in a minute: members and callers choose how often it occurs.

    Lines about one member or namespace are bounded apart, so that it cannot hide the lines about others. In
    the next minute a line says how many were left out. Debug lines and the audit log are always complete.
    """

    def __init__(self) -> None:
        super().__init__()
        self._minute = 0
        # Lines by event, and by event with what it is about.
        self._written: Counter[object] = Counter()
        self._left_out = self._last_left_out = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Implements logging.Filter."""
        # The fields of a line of ours. A line of a library is a text.
        fields: dict[str, object] = record.msg if isinstance(record.msg, dict) else {}
        event = str(fields.get("event", record.name))
        if record.levelno < logging.INFO or event == AUDIT:
            return True
        minute = int(record.created) // 60
        if minute != self._minute:
            self._minute, self._last_left_out, self._left_out = minute, self._left_out, 0
            self._written.clear()
        about = event, next((fields[key] for key in ABOUT if key in fields), None)
        if self._written[event] >= MAX_LINES or self._written[about] >= MAX_LINES_ABOUT:
            self._left_out += 1
            return False
        self._written.update((event, about))
        if self._last_left_out and fields:
            record.msg = {**fields, "lines_left_out": self._last_left_out}
            self._last_left_out = 0
        return True


def _bounded(indent: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Makes each value one short printable line, because it may be the text of a caller or member.

    The lines of a trace are indented, so that none of them looks like another log line.
    """
    for key, value in event.items():
        if key in MULTILINE_KEYS:
            lines = for_terminal(_shortened(str(value))).split("\n")
            event[key] = "\n".join(indent + line for line in lines)
        elif isinstance(value, str):
            event[key] = one_line(value, MAX_TEXT)
        elif not isinstance(value, int | float | None) and len(text := repr(value)) > MAX_TEXT:
            event[key] = one_line(text, MAX_TEXT)
    return event


def _shortened(trace: str) -> str:
    return trace if len(trace) <= 2 * MAX_TRACE else f"{trace[:MAX_TRACE]}\n...\n{trace[-MAX_TRACE:]}"
