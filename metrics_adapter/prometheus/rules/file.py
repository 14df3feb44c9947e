"""The rules file: parsed, validated, and reloaded on change. An invalid file leaves the old rules in use."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import structlog
from pydantic import ValidationError

from fedhpa.api.errors import ConfigError, InvalidObject
from fedhpa.api.yaml import read_yaml
from metrics_adapter.prometheus.rules.model import Rules
from metrics_adapter.prometheus.store_series import StoreTelemetry

log = structlog.get_logger(__name__)

POLL_SECONDS = 1.0
MAX_BYTES = 1024 * 1024
# Values in the file with its aliases written out. A thousand rules have about twenty thousand.
MAX_VALUES = 100_000
# Errors named in one message.
MAX_SHOWN_ERRORS = 5


def read(path: Path) -> str:
    """Returns the text of a rules file. Raises InvalidObject saying why it cannot be read."""
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise InvalidObject(f"it is too large: expected at most {MAX_BYTES} bytes")
        return content.decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InvalidObject(f"cannot be read: {reason}") from error


class RulesFile:
    """The rules of a file. `current` are the rules in use."""

    def __init__(self, path: Path, telemetry: StoreTelemetry) -> None:
        """Reads the file. Raises ConfigError naming file, field and remedy."""
        self._path = path
        self._telemetry = telemetry
        try:
            self._text = read(self._path)
            self.current = self._load(self._text)
        except InvalidObject as error:
            raise ConfigError(f"{path}: {error}") from error

    async def follow(self) -> None:
        """Reloads the file whenever it changes, until cancelled."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            # A thousand rules take half a second, which would block other requests.
            await asyncio.to_thread(self.reload)

    def reload(self) -> bool:
        """Reloads the file. Returns True if its rules are in use. Invalid rules leave the old ones in use."""
        # Only the content shows a change reliably: a mounted ConfigMap is swapped by a symbolic link, and an
        # editor may keep size and modification time.
        try:
            text = read(self._path)
        except InvalidObject as error:
            return self._keep_old("", error)
        if text == self._text:
            return self._current
        try:
            self.current = self._load(text)
        except InvalidObject as error:
            return self._keep_old(text, error)
        self._text = text
        log.info("rules loaded", file=str(self._path))
        return True

    def _load(self, text: str) -> Rules:
        rules = read_rules(text)
        self._current = True
        for kind, found in (("external", rules.external), ("custom", rules.custom)):
            self._telemetry.rules.labels(kind).set(len(found))
        self._telemetry.rules_current.set(1)
        return rules

    def _keep_old(self, text: str, error: InvalidObject) -> bool:
        # Logged once for each content, or a file that stays invalid would fill the log.
        if self._current or text != self._text:
            log.error("rules not loaded, keeping the old ones", file=str(self._path), error=str(error))
        self._text, self._current = text, False
        self._telemetry.rules_current.set(0)
        return False


def read_rules(text: str) -> Rules:
    """Parses the text of a rules file. Raises InvalidObject naming each field and the remedy."""
    documents = list(read_yaml(text, max_values=MAX_VALUES))
    if len(documents) > 1:
        raise InvalidObject(f"expected one YAML document, got {len(documents)}")
    content = documents[0] if documents else None
    if not isinstance(content, dict):
        raise InvalidObject("expected a mapping with external, custom or resources")
    try:
        return Rules.model_validate(content)
    except ValidationError as error:
        found = list(_problems(error))
        more = f"; and {len(found) - MAX_SHOWN_ERRORS} more" if len(found) > MAX_SHOWN_ERRORS else ""
        raise InvalidObject("; ".join(found[:MAX_SHOWN_ERRORS]) + more) from None


def _problems(error: ValidationError) -> Iterator[str]:
    for problem in error.errors(include_url=False):
        yield f"{_path(problem['loc'])}{_message(problem['type'], problem['msg'])}"


def _path(location: Sequence[int | str]) -> str:
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return f"{text}: " if text else ""


def _message(kind: str, text: str) -> str:
    known: dict[str, Any] = {
        "extra_forbidden": "no such field: remove it, or see docs/how-to/metrics-store.md",
        "missing": "required, but missing",
    }
    return str(known.get(kind) or text.removeprefix("Value error, "))
