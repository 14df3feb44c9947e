"""Markdown that the generators of reference pages share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table; a `|` in a cell is escaped, a line break becomes a blank."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return [*lines, *("| " + " | ".join(_cell(cell) for cell in row) + " |" for row in rows)]


def code(text: str) -> str:
    """The text as code; an empty text stays empty."""
    return f"`{text}`" if text else ""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
