"""The commands of the documentation: in blocks of pages, and in code within sentences."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
PROGRAMS = ("fedhpa", "helm", "kubectl")
# In blocks of outputs and of yaml no line begins with a program.
BLOCK = re.compile(r"^```\w*\n(.*?)^```$", re.M | re.S)
INLINE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
OPERATORS = frozenset("();<>|&")


def pages() -> list[Path]:
    """Returns all pages for users. The records of decisions may show commands of earlier versions."""
    return [page for page in sorted(DOCS.rglob("*.md")) if "decisions" not in page.parts]


def commands(page: str) -> Iterator[list[str]]:
    """Yields program and arguments of each command, without redirections. Variables stay as they are.

    In sentences these are only commands of `fedhpa`, because others are often cut short.
    """
    for block in BLOCK.findall(page):
        for line in block.replace("\\\n", " ").splitlines():
            yield from _of_line(line.removeprefix("$ "))
    for code in INLINE.findall(BLOCK.sub("", page)):
        if code.startswith("fedhpa "):
            yield from _of_line(" ".join(code.split()))


def _of_line(line: str) -> Iterator[list[str]]:
    if not any(program in line for program in PROGRAMS):
        return
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:  # text with an apostrophe, so no command
        return
    command: list[str] = []
    for word in [*words, "|"]:
        if set(word) <= OPERATORS:
            if command and command[0] in PROGRAMS:
                yield command
            command = []
        else:
            command.append(word)
