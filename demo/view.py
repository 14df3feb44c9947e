"""Two ways to watch: a live picture on a terminal, a line per step in a pipe."""

import sys
from collections import deque
from typing import TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from demo.picture import REQUEST_MILLIS, MemberView, Picture

OBSERVED = "observed: "
LOG_LINES = 12


class Lines:
    """A line per step and per change of what the objects say."""

    def __init__(self, out: TextIO = sys.stdout) -> None:
        self._out = out
        self._last: tuple[object, ...] = ()

    def say(self, text: str) -> None:
        """Print one line."""
        print(text, file=self._out, flush=True)

    def show(self, picture: Picture, demand_millis: int) -> None:
        """Print a line if replicas, the desired number, the reason or the missing changed."""
        seen = (picture.replicas, picture.desired, picture.reason, picture.missing)
        if seen == self._last:
            return
        self._last = seen
        pods = ", ".join(f"{name} {_count(view)}" for name, view in picture.members.items())
        usage = picture.utilization()
        known = "usage unknown" if usage is None else f"usage {usage:.0f} %"
        desired = picture.desired or "-"
        because = f" ({picture.reason})" if picture.reason else ""
        self.say(
            f"[{picture.seconds:5.1f} s] demand {demand_millis}m, {known}; {pods}; desired {desired}{because}"
        )

    def close(self) -> None:
        """Nothing to close."""


class LiveView:
    """A table of clusters, the decision above it, what happened below it."""

    def __init__(self, hints: list[str]) -> None:
        self._said: deque[str] = deque(maxlen=LOG_LINES)
        self._observed: list[str] = []
        self._hints = hints
        self._picture: Picture | None = None
        self._demand = 0
        self._live = Live(self._render(), console=Console(), refresh_per_second=4)
        self._live.start()

    def say(self, text: str) -> None:
        """Add a line to what happened; observations are also printed after the end."""
        self._said.append(text)
        if text.startswith(OBSERVED):
            self._observed.append(text)
        self._live.update(self._render())

    def show(self, picture: Picture, demand_millis: int) -> None:
        """Draw the moment."""
        self._picture, self._demand = picture, demand_millis
        self._live.update(self._render())

    def close(self) -> None:
        """End the live picture and print the observations as lines."""
        self._live.stop()
        for line in self._observed:
            print(line)

    def _render(self) -> RenderableType:
        parts: list[RenderableType] = []
        if self._picture is not None:
            parts += [self._decision(self._picture), self._table(self._picture)]
        if self._said:
            parts.append(Panel("\n".join(self._said), title="what happened", title_align="left"))
        if self._picture is not None and self._hints:
            parts.append(Text("\n".join(["in another terminal:", *self._hints]), style="dim"))
        return Group(*parts)

    def _decision(self, picture: Picture) -> RenderableType:
        usage = picture.utilization()
        known = "-" if usage is None else f"{usage:.0f} %"
        lines = [
            f"demand {self._demand}m   usage {known} of requests, target 50 %",
            f"pods {picture.total}   desired {picture.desired or '-'}   {picture.reason}",
        ]
        text = Text("\n".join(lines))
        if picture.missing:
            text.append(f"\n{picture.missing}", style="yellow")
        return Panel(text, title=f"FederatedHPA shop/web, {picture.seconds:.0f} s", title_align="left")

    def _table(self, picture: Picture) -> Table:
        table = Table(expand=True)
        for column in ("cluster", "state", "pods", "ready", "CPU of its pods", ""):
            table.add_column(column)
        for name, view in picture.members.items():
            state = Text("answers", style="green") if view.replicas is not None else Text("away", style="red")
            table.add_row(
                name, state, _count(view), str(view.ready if view.ready is not None else "?"), *_usage(view)
            )
        return table


def _count(view: MemberView) -> str:
    return "?" if view.replicas is None else str(view.replicas)


def _usage(view: MemberView) -> tuple[str, str]:
    if view.usage_millis is None:
        return "?", ""
    if not view.replicas:
        return f"{view.usage_millis}m", ""
    share = view.usage_millis / (view.replicas * REQUEST_MILLIS)
    return f"{view.usage_millis}m", "█" * min(30, round(share * 15))
