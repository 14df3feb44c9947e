"""The syntax trees of the project's files, parsed once for all tests of a process that look at code."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def parsed(path: Path) -> ast.Module:
    """Returns the syntax tree of a file, which nobody may change."""
    return ast.parse(path.read_text(encoding="utf-8"))
