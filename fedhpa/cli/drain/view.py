"""Two views of a drain: a progress bar in a terminal, and a line for each change in a pipe."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Final

import typer

from fedhpa.api.texts import counted
from fedhpa.cli.drain.objects import Waiting

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from fedhpa.cli.drain.draining import Progress

# Lines that one change prints in a pipe, and that a final list has.
MAX_LINES: Final = 50
# Lines of a terminal that are not for objects: the bar, the number of further objects, and the cursor.
OTHER_LINES: Final = 3


class View:
    """Shows a drain to a person. This one shows nothing, for output that is one JSON document."""

    def show(self, progress: Progress) -> None:
        """Shows the progress."""

    def running(self) -> AbstractContextManager[object]:
        """Returns the context in which it is shown."""
        return nullcontext()


class Lines(View):
    """Prints a line for each object that changed, and one with the sum."""

    def __init__(self) -> None:
        self._shown: dict[str, Waiting] = {}
        self._sum = ""

    def show(self, progress: Progress) -> None:
        """Prints the changes since the last call."""
        changed = [one for one in progress.waiting if self._shown.get(one.name) != one]
        for line in limited(changed):
            typer.echo(line)
        self._shown = {one.name: one for one in progress.waiting}
        line = sum_of(progress)
        if line != self._sum:
            self._sum = line
            typer.echo(line)


class Bar(View):
    """Draws one bar over all objects, and a line for each object that waits."""

    def __init__(self, console: Console) -> None:
        from rich.live import Live

        self._console = console
        self._live = Live(console=console, auto_refresh=False, vertical_overflow="crop")

    def running(self) -> AbstractContextManager[object]:
        """Returns the context in which the bar is drawn."""
        return self._live

    def show(self, progress: Progress) -> None:
        """Draws the progress."""
        self._live.update(self._drawn(progress), refresh=True)

    def _drawn(self, progress: Progress) -> RenderableType:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        bar = Table.grid(padding=(0, 1))
        total, moved = (progress.total, progress.moved) if progress.total else (1, not progress.waiting)
        width = max(min(40, self._console.width - len(progress.cluster) - 35), 10)
        drawn = ProgressBar(total=total, completed=int(moved), width=width)
        bar.add_row(Text(progress.cluster), drawn, Text(f"{progress.moved}/{progress.total} replicas moved"))
        return Group(bar, *(Text(line) for line in limited(progress.waiting, self._room(progress.waiting))))

    def _room(self, waiting: Sequence[Waiting]) -> int:
        """Returns for how many of the objects the terminal has lines."""
        room = self._console.height - OTHER_LINES
        for number, one in enumerate(waiting):
            room -= -(-len(f"  {one}") // self._console.width)
            if room < 0:
                return number
        return len(waiting)


def limited(lines: Sequence[object], most: int = MAX_LINES) -> list[str]:
    """Returns a line for each object, at most `most` of them and one with the number of the others."""
    shown = [f"  {one}" for one in lines[:most]]
    return [*shown, f"  and {counted(len(lines) - most, 'more object')}"] if len(lines) > most else shown


def sum_of(progress: Progress) -> str:
    """Returns the progress as one line."""
    wait = f"{counted(len(progress.waiting), 'object')} left"
    return f"{progress.cluster}: {progress.moved} of {counted(progress.total, 'replica')} moved, {wait}"


def for_stdout() -> View:
    """Returns the view for standard output: a bar only in a terminal. rich honours NO_COLOR."""
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    return Bar(console) if console.is_terminal and not console.is_dumb_terminal else Lines()
