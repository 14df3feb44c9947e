"""The values of the Helm chart, from their schema: the chart's values.yaml and the rows of their page.

charts/fedhpa/values.schema.json is the only source. Each of its leaves has a description and a default.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from testbed.reference.markdown import code, table

CHART: Final = Path(__file__).parents[2] / "charts" / "fedhpa"
VALUES: Final = CHART / "values.yaml"
SCHEMA: Final = CHART / "values.schema.json"
WIDTH: Final = 100

Schema = dict[str, Any]


class Value(NamedTuple):
    """One value of the chart; `path` has dots, and `schema` the definition it refers to."""

    path: str
    schema: Schema


def schema() -> Schema:
    """Returns the schema of the chart's values."""
    return dict(json.loads(SCHEMA.read_text(encoding="utf-8")))


def values(root: Schema | None = None) -> Iterator[Value]:
    """The values that have no values below them, in the order of the schema."""
    root = root or schema()
    yield from _values(root, root, "")


def values_yaml() -> str:
    """Returns the text of the chart's values.yaml: the defaults, each below its description."""
    root = schema()
    head = (
        "# Written by `make docs` from values.schema.json. docs/reference/values.md has the same as a table."
    )
    return "\n".join([head, *_lines(root, root, 0)]) + "\n"


def value_tables() -> list[str]:
    """Returns the lines of one table for each group of values."""
    groups: dict[str, list[Value]] = {}
    for value in values():
        group, dot, _ = value.path.partition(".")
        groups.setdefault(group if dot else "", []).append(value)
    root = schema()
    lines: list[str] = []
    for group, found in groups.items():
        title, about = (group, root["properties"][group]["description"]) if group else ("General", "")
        lines += ["", f"## {title}", "", *([about, ""] if about else [])]
        lines += table(("value", "default", "expected", "meaning"), map(_row, found))
    return lines[1:]


def _row(value: Value) -> tuple[str, str, str, str]:
    default = json.dumps(value.schema["default"], ensure_ascii=False)
    return code(value.path), code(default), _expected(value.schema), value.schema["description"]


def _expected(found: Schema) -> str:
    if "enum" in found:
        return ", ".join(code(str(one).lower() if isinstance(one, bool) else one) for one in found["enum"])
    if isinstance(found["type"], list):
        return "a number or a percentage"
    if found["type"] == "integer":
        low, high = found.get("minimum"), found.get("maximum")
        return f"{low} to {high}" if high is not None else f"a whole number from {low}"
    names = {"string": "a text", "boolean": "true or false", "array": "a list", "object": "a mapping"}
    return names[found["type"]]


def _values(root: Schema, node: Schema, prefix: str) -> Iterator[Value]:
    for name, child in node["properties"].items():
        found = _resolved(root, child)
        if "properties" in found:
            yield from _values(root, found, f"{prefix}{name}.")
        else:
            yield Value(prefix + name, found)


def _resolved(root: Schema, node: Schema) -> Schema:
    """Returns the schema with what it refers to; its own description and default win."""
    reference = node.get("$ref")
    if reference is None:
        return node
    return {**root["definitions"][reference.rpartition("/")[2]], **node}


def _lines(root: Schema, node: Schema, depth: int) -> Iterator[str]:
    indent = "  " * depth
    for name, child in node["properties"].items():
        found = _resolved(root, child)
        if depth == 0:
            yield ""
        yield from textwrap.wrap(
            found["description"],
            WIDTH,
            break_on_hyphens=False,
            initial_indent=f"{indent}# ",
            subsequent_indent=f"{indent}# ",
        )
        if "properties" in found:
            yield f"{indent}{name}:"
            yield from _lines(root, found, depth + 1)
        else:
            dumped = yaml.safe_dump({name: found["default"]}, sort_keys=False, allow_unicode=True)
            yield from (indent + line for line in dumped.splitlines())
