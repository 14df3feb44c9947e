"""No docstring or comment begins with a clause in place of a subject (docs/contributing/style.md)."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (
    "fedhpa", "webhook", "metrics_adapter", "controller", "certs", "testbed", "demo", "benchmarks", "tests",
)  # fmt: skip
CLAUSE = re.compile(r"(What|Who|Whom|Whose|Whoever|Whatever|Whether|How (long|many|much|often|far))\b(?!')")
# Most files have no such beginning. To parse them all would take four seconds.
BEGINNING = re.compile(r"""["'#][#\\\s]*""" + CLAUSE.pattern)


def texts(source: str) -> Iterator[tuple[int, str]]:
    """Yields the line and the text of each docstring and comment."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found = ast.get_docstring(node)
            if found is not None:
                yield node.body[0].lineno, found
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# ")


def test_no_docstring_or_comment_begins_with_a_clause() -> None:
    """Each one names its subject: "Seconds that ..." and not "How many seconds ..."."""
    found = []
    for path in sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        for line, text in texts(source) if BEGINNING.search(source) else ():
            if CLAUSE.match(text):
                found.append(f"{path.relative_to(ROOT)}:{line}: {text[:60]}")

    assert found == []
