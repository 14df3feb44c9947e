"""The rules file: parsed, validated, and reloaded on change. An invalid file leaves the old rules in use."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path
from typing import Any

import structlog
import yaml
from pydantic import ValidationError

from fedhpa.api.errors import ConfigError, InvalidObject
from metrics_adapter.prometheus.rules.model import Rules
from metrics_adapter.prometheus.telemetry import StoreTelemetry

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
        self._telemetry.rules(len(rules.external), len(rules.custom))
        return rules

    def _keep_old(self, text: str, error: InvalidObject) -> bool:
        # Logged once for each content, or a file that stays invalid would fill the log.
        if self._current or text != self._text:
            log.error("rules not loaded, keeping the old ones", file=str(self._path), error=str(error))
        self._text, self._current = text, False
        self._telemetry.rules_not_loaded()
        return False


class _Loader(yaml.SafeLoader):
    """Refuses duplicate keys. YAML would silently drop all rules below the first one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Checks the keys of a mapping. Called by the base class."""
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    line = key.start_mark.line + 1
                    raise InvalidObject(f"line {line}: {key.value!r} is a duplicate key: keep one")
                seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


def read_rules(text: str) -> Rules:
    """Parses the text of a rules file. Raises InvalidObject naming each field and the remedy."""
    try:
        content = _load(text)
    # An invalid date ("2026-13-01") raises ValueError.
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise InvalidObject(f"it is not valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise InvalidObject("expected a mapping with external, custom or resources")
    try:
        return Rules.model_validate(content)
    except ValidationError as error:
        found = list(_problems(error))
        more = f"; and {len(found) - MAX_SHOWN_ERRORS} more" if len(found) > MAX_SHOWN_ERRORS else ""
        raise InvalidObject("; ".join(found[:MAX_SHOWN_ERRORS]) + more) from None


def _load(text: str) -> Any:
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _check_size(node, {})
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _check_size(node: yaml.Node, sizes: dict[int, int]) -> int:
    """Returns the number of values in a node with its aliases written out. Raises InvalidObject."""
    known = sizes.get(id(node))
    if known is not None:
        if not known:
            raise InvalidObject(f"line {node.start_mark.line + 1}: an alias contains itself")
        return known
    sizes[id(node)] = 0  # Until it is known.
    children: list[yaml.Node] = []
    if isinstance(node, yaml.SequenceNode):
        children = node.value
    elif isinstance(node, yaml.MappingNode):
        children = [part for pair in node.value for part in pair]
    size = 1 + sum(_check_size(child, sizes) for child in children)
    if size > MAX_VALUES:
        raise InvalidObject(f"it has more than {MAX_VALUES} values: write fewer rules, or fewer aliases")
    sizes[id(node)] = size
    return size


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
