"""The two views: a live picture in a terminal, and a line per step in a pipe."""

import sys
import textwrap
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from demo.picture import REQUEST_MILLIS, TARGET, MemberView, Picture

OBSERVED = "observed: "
HISTORY = 500  # kept columns of the curves and lines of text, more than a terminal shows
LABEL = 15  # columns in front of a curve
HEIGHT_OF_OTHERS = 17  # lines besides the list of events
BARS = " ▁▂▃▄▅▆▇█"


class Lines:
    """Prints a line per step and per change of the objects."""

    def __init__(self, out: TextIO = sys.stdout) -> None:
        self._out = out
        self._last: tuple[object, ...] = ()
        self._rules = ""

    def say(self, text: str) -> None:
        """Prints one line."""
        print(text, file=self._out, flush=True)

    def show(self, picture: Picture, demand_millis: int) -> None:
        """Prints a line if replicas, desired replicas, reason or missing members changed."""
        if picture.rules.line not in ("", self._rules):
            self._rules = picture.rules.line
            self.say(f"[{picture.seconds:5.1f} s] rules: {self._rules}")
        bounds = [view.bounds for view in picture.members.values()]
        seen = (picture.replicas, picture.desired, picture.reason, picture.missing, bounds)
        if seen == self._last:
            return
        self._last = seen
        pods = ", ".join(f"{name} {_count(view)}{_in_bounds(view)}" for name, view in picture.members.items())
        usage = picture.utilization()
        known = "usage unknown" if usage is None else f"usage {usage:.0f} %"
        desired = picture.desired or "-"
        because = f" ({picture.reason})" if picture.reason else ""
        self.say(
            f"[{picture.seconds:5.1f} s] demand {demand_millis}m, {known}; {pods}; desired {desired}{because}"
        )

    def close(self) -> None:
        """Does nothing."""


class LiveView:
    """The curves, a table of clusters and the list of events, as far as the terminal has room."""

    def __init__(
        self,
        peak: int,
        hints: Sequence[str],
        console: Console | None = None,
        *,
        samples_per_column: int = 1,
    ) -> None:
        self._said: deque[str] = deque(maxlen=HISTORY)
        self._observed: list[str] = []
        self._hints = hints
        self._picture: Picture | None = None
        self._curves = Curves(peak, samples_per_column)
        self._console = console or Console()
        self._live = Live(self.render(), console=self._console, refresh_per_second=4)
        self._live.start()

    def say(self, text: str) -> None:
        """Adds a line to the events. Observations are also printed at the end."""
        seconds = 0.0 if self._picture is None else self._picture.seconds
        self._said.append(f"{seconds:3.0f} s  {text}")
        if text.startswith(OBSERVED):
            self._observed.append(text)
        self._live.update(self.render())

    def show(self, picture: Picture, demand_millis: int) -> None:
        """Draws the current state."""
        self._picture = picture
        self._curves.add(picture, demand_millis)
        self._live.update(self.render())

    def close(self) -> None:
        """Ends the live picture and prints the observations as lines."""
        self._live.stop()
        for line in self._observed:
            print(line)

    def render(self) -> RenderableType:
        """Returns the whole picture."""
        parts: list[RenderableType] = []
        room = self._console.height - HEIGHT_OF_OTHERS
        if self._picture is not None:
            parts += [self._decision(self._picture), _table(self._picture)]
            if self._picture.rules.line:
                text = f" rules: {self._picture.rules.line}"
                parts.append(Text(text, no_wrap=True, overflow="ellipsis"))
        hints = ["in another terminal:", *(f"  {hint}" for hint in self._hints)]
        if self._hints and room >= len(hints) + 8:
            room -= len(hints)
        else:
            hints = []
        if self._said:
            parts.append(Panel(self._happened(max(1, room)), title="events", title_align="left"))
        if self._picture is not None and hints:
            parts.append(Text("\n".join(hints), style="dim", no_wrap=True, overflow="ellipsis"))
        return Group(*parts)

    def _decision(self, picture: Picture) -> RenderableType:
        text = self._curves.draw(self._console.width - LABEL - 4)
        text.append(f"wanted {picture.desired or '-'}" + (f": {picture.reason}" if picture.reason else ""))
        if picture.missing:
            text.append(f"\n{picture.missing}", style="yellow")
        title = f"FederatedHPA shop/web, {len(picture.members)} clusters, {picture.seconds:.0f} s"
        return Panel(text, title=title, title_align="left")

    def _happened(self, lines: int) -> Text:
        """Returns the newest lines. Older ones are not wrapped, because this runs at every refresh."""
        shown: deque[Text] = deque()
        for said in reversed(self._said):
            style = "bold green" if OBSERVED in said else ""
            wrapped = _wrapped(said, self._console.width - 4)
            shown.extendleft(Text(line, style=style) for line in reversed(wrapped))
            if len(shown) >= lines:
                break
        return Text("\n").join([*shown][-lines:])


@lru_cache(maxsize=HISTORY)
def _wrapped(said: str, width: int) -> list[str]:
    return textwrap.wrap(said, width, subsequent_indent=" " * 7)


@dataclass(frozen=True)
class Sample:
    """One column of the curves. `pods` counts only members that answer."""

    demand: int
    usage: float | None
    pods: int
    complete: bool


class Curves:
    """The curves of load, usage and pods. A column shows the newest of its samples."""

    def __init__(self, peak: int, samples_per_column: int = 1) -> None:
        self._peak = peak
        self._step = samples_per_column
        self._samples: deque[Sample] = deque(maxlen=HISTORY)
        self._most = 1

    def add(self, picture: Picture, demand: int) -> None:
        """Adds a sample."""
        complete = len(picture.replicas) == len(picture.members)
        self._samples.append(Sample(demand, picture.utilization(), picture.total, complete))
        self._most = picture.most or self._most

    def draw(self, columns: int) -> Text:
        """Returns three lines, each with the current value and the newest part of its curve."""
        now, samples = self._samples[-1], list(self._samples)[:: -self._step][::-1]
        usage = "?" if now.usage is None else f"{now.usage:.0f} %"
        pods = f"{now.pods}" if now.complete else f"{now.pods} + ?"
        far = now.usage is None or abs(now.usage - TARGET) > TARGET / 10
        rows: tuple[tuple[str, Sequence[float | None], str], ...] = (
            (f"load {now.demand:>7}m", [each.demand for each in samples], "cyan"),
            (f"usage {usage:>7}", [each.usage for each in samples], "yellow" if far else "green"),
            (f"pods  {pods:>7}", [each.pods for each in samples], "blue"),
        )
        mosts = (self._peak, 2 * TARGET, max(self._most, now.pods))
        text = Text(no_wrap=True, overflow="ellipsis")
        for (label, values, style), most in zip(rows, mosts, strict=True):
            text.append(f"{label}  ").append(_curve(values, columns, most) + "\n", style=style)
        return text


def _curve(values: Sequence[float | None], columns: int, most: float) -> str:
    return "".join(_bar(value, most) for value in values[-max(1, columns) :])


def _bar(value: float | None, most: float) -> str:
    if value is None:
        return "?"
    return BARS[max(1, min(8, round(8 * value / max(1, most))))]


def _table(picture: Picture) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 1))
    with_hpas = any(view.bounds is not None for view in picture.members.values())
    for column in ("cluster", "state", *(["HPA"] if with_hpas else []), "pods", "", "CPU", "of requests"):
        table.add_column(column, no_wrap=True, justify="right" if column in ("pods", "CPU") else "left")
    for name, view in picture.members.items():
        state = Text("answers", style="green") if view.replicas is not None else Text("away", style="red")
        hpa = [_in_bounds(view).strip(" []").replace("..", " to ")] if with_hpas else []
        table.add_row(name, state, *hpa, _count(view), _dots(view), *_usage(view))
    return table


def _count(view: MemberView) -> str:
    return "?" if view.replicas is None else str(view.replicas)


def _in_bounds(view: MemberView) -> str:
    """Returns the bounds of the member's HPA in brackets; "" if it has none."""
    return "" if view.bounds is None else " [{}..{}]".format(*view.bounds)


def _dots(view: MemberView) -> Text:
    """Returns one dot for each pod, filled if the pod is ready."""
    if view.replicas is None:
        return Text("?")
    ready = min(view.ready or 0, view.replicas)
    return Text("●" * ready + "○" * (view.replicas - ready), style="blue")


def _usage(view: MemberView) -> tuple[str, str]:
    if view.usage_millis is None:
        return "?", ""
    if not view.replicas:
        return f"{view.usage_millis}m", ""
    share = view.usage_millis / (view.replicas * REQUEST_MILLIS)
    return f"{view.usage_millis}m", f"{100 * share:3.0f} % " + "█" * min(15, round(share * 15))
