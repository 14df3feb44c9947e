"""The rules file on disk, followed: a change is taken over at once, a bad one leaves the old rules."""

from __future__ import annotations

import asyncio
from pathlib import Path

import structlog

from fedhpa.api.errors import ConfigError, InvalidObject
from metrics_adapter.prometheus.rules import Rules
from metrics_adapter.prometheus.rules_text import read_rules
from metrics_adapter.prometheus.telemetry import StoreTelemetry

log = structlog.get_logger(__name__)

POLL_SECONDS = 1.0
MAX_BYTES = 1024 * 1024


def read(path: Path) -> str:
    """The text of a rules file. Raises InvalidObject saying why it cannot be read."""
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise InvalidObject(f"it is too large: expected at most {MAX_BYTES} bytes")
        return content.decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise InvalidObject(f"cannot be read: {reason}") from error


class RulesFile:
    """The rules of a file; `current` is what holds now."""

    def __init__(self, path: Path, telemetry: StoreTelemetry) -> None:
        """Read the file. Raises ConfigError naming file, field and remedy."""
        self._path = path
        self._telemetry = telemetry
        try:
            self._text = read(self._path)
            self.current = self._taken(self._text)
        except InvalidObject as error:
            raise ConfigError(f"{path}: {error}") from error

    async def follow(self) -> None:
        """Read the file again whenever it changes, until cancelled."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            # A thousand rules are half a second of work, during which others want answers.
            await asyncio.to_thread(self.reload)

    def reload(self) -> bool:
        """Read the file again; True when its rules are in use. Unusable ones leave the old ones."""
        # A mounted ConfigMap is swapped by a symbolic link, and an editor may keep size and time: the
        # content alone tells.
        try:
            text = read(self._path)
        except InvalidObject as error:
            return self._kept("", error)
        if text == self._text:
            return self._current
        try:
            self.current = self._taken(text)
        except InvalidObject as error:
            return self._kept(text, error)
        self._text = text
        log.info("rules loaded", file=str(self._path))
        return True

    def _taken(self, text: str) -> Rules:
        rules = read_rules(text)
        self._current = True
        self._telemetry.rules(len(rules.external), len(rules.custom))
        return rules

    def _kept(self, text: str, error: InvalidObject) -> bool:
        # Once per content: a broken file that stays must not fill the log every second.
        if self._current or text != self._text:
            log.error("rules not loaded, keeping the old ones", file=str(self._path), error=str(error))
        self._text, self._current = text, False
        self._telemetry.rules_not_loaded()
        return False
