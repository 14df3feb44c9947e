"""The bar of `fedhpa drain` in wide, narrow and low terminals, and the choice between bar and lines."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from fedhpa.cli.drain.draining import Bar, Lines, Progress, for_stdout
from fedhpa.cli.drain.objects import Waiting

WAITING = tuple(Waiting(f"shop/w{number}", 2, "waiting for 1 new pod in member1") for number in range(40))


def drawn(width: int, height: int, waiting: tuple[Waiting, ...], left: int) -> list[str]:
    """The lines that stay on a terminal of this size."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=width, height=height, no_color=True)
    bar = Bar(console)
    with bar.running():
        bar.show(Progress("member2", 100, left, waiting))
        out.truncate(0)
        out.seek(0)
    plain = re.sub(r"\x1b\[[?\d;]*[A-Za-z]", "", out.getvalue())
    return [line.rstrip() for line in plain.splitlines() if line.strip()]


@pytest.mark.parametrize("width", [130, 80, 40])
def test_the_numbers_are_shown_at_every_width(width: int) -> None:
    text = " ".join(" ".join(drawn(width, 20, WAITING[:1], 80)).split())

    assert "20/100 replicas moved" in text
    assert "shop/w0: 2 replicas still there: waiting for 1 new pod in member1" in text
    assert all(len(line) <= width for line in drawn(width, 20, WAITING[:1], 80))


def test_a_low_terminal_shows_as_many_objects_as_it_has_lines() -> None:
    """The others are counted."""
    lines = drawn(100, 10, WAITING, 80)

    assert len(lines) <= 10
    assert lines[-1] == "  and 33 more objects"


def test_a_narrow_terminal_shows_fewer_objects() -> None:
    """Each of them takes two lines there."""
    lines = drawn(50, 10, WAITING, 80)

    assert len(lines) <= 10
    assert lines[-1] == "  and 37 more objects"


def test_a_cluster_without_replicas_is_a_full_bar() -> None:
    (line,) = drawn(100, 10, (), 0)

    assert "100/100 replicas moved" in line


@pytest.mark.parametrize(("terminal", "kind"), [("xterm", Bar), ("dumb", Lines)])
def test_only_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch, terminal: str, kind: type) -> None:
    """A dumb terminal cannot move its cursor."""
    assert isinstance(for_stdout(), Lines)

    monkeypatch.setenv("TERM", terminal)
    monkeypatch.setenv("FORCE_COLOR", "1")  # for rich: standard output is a terminal
    assert isinstance(for_stdout(), kind)
