"""The text of a rules file: read into rules, or refused in words that its writer understands."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import yaml
from pydantic import ValidationError

from fedhpa.api.errors import InvalidObject
from metrics_adapter.prometheus.rules import Rules

# What a number of errors is worth in a log line.
SHOWN_ERRORS = 5


class _Loader(yaml.SafeLoader):
    """Refuses a key that stands twice: YAML would silently forget all rules of the first."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Called by the base class."""
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    line = key.start_mark.line + 1
                    raise InvalidObject(f"line {line}: {key.value!r} stands twice here: keep one")
                seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


def read_rules(text: str) -> Rules:
    """The rules of a file's text. Raises InvalidObject naming each field and the remedy."""
    try:
        content = yaml.load(text, _Loader)  # noqa: S506 - it is a SafeLoader
    # A ValueError is of a date or number that is none ("2026-13-01").
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise InvalidObject(f"it is no YAML: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise InvalidObject("expected a mapping with external, custom or resources")
    try:
        return Rules.model_validate(content)
    except ValidationError as error:
        found = list(_problems(error))
        more = f"; and {len(found) - SHOWN_ERRORS} more" if len(found) > SHOWN_ERRORS else ""
        raise InvalidObject("; ".join(found[:SHOWN_ERRORS]) + more) from None


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
        "missing": "required, and not there",
    }
    return str(known.get(kind) or text.removeprefix("Value error, "))
