"""Cordons and drains a cluster: refuses what Karmada would undo, writes the taint, follows the replicas."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final

import msgspec
import typer

from fedhpa.api import federatedhpa
from fedhpa.api.errors import ConfigError, InvalidObject
from fedhpa.api.known_cluster import API_VERSION as CLUSTER_VERSION
from fedhpa.api.member_sources import CLUSTERS, ONLY_CLUSTERS, MemberSources
from fedhpa.api.taints import CORDON_TAINT, DRAIN_TAINT
from fedhpa.api.texts import counted, listed
from fedhpa.api.times import parse_time
from fedhpa.cli.drain.objects import (
    Alone,
    Forecast,
    Waiting,
    forecasts,
    placed_by_karmada,
    scaled_by_rules_alone,
    waiting,
)
from fedhpa.cli.drain.taints import change_taints, noted_in, read_cluster, taints_of, with_taint
from fedhpa.cli.hub_client import asking
from fedhpa.cli.member_notes import known_members

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from fedhpa.kube import ApiClient, Clock


# Lines that one change prints in a pipe, and that a final list has.
MAX_LINES: Final = 50
# Lines of a terminal that are not for objects: the bar, the number of further objects, and the cursor.
OTHER_LINES: Final = 3


class Lines:
    """Prints a line for each object that changed, and one with the sum; nothing if `silent`."""

    def __init__(self, *, silent: bool = False) -> None:
        self._silent, self._sum = silent, ""
        self._shown: dict[str, Waiting] = {}

    def running(self) -> AbstractContextManager[object]:
        """Returns the context in which it is shown."""
        return nullcontext()

    def show(self, progress: Progress) -> None:
        """Prints the changes since the last call."""
        lines = limited([one for one in progress.waiting if self._shown.get(one.name) != one])
        self._shown = {one.name: one for one in progress.waiting}
        if (total := sum_of(progress)) != self._sum:
            self._sum = total
            lines.append(total)
        for line in () if self._silent else lines:
            typer.echo(line)


class Bar:
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


def for_stdout() -> Lines | Bar:
    """Returns the view for standard output: a bar only in a terminal. rich honours NO_COLOR."""
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    return Bar(console) if console.is_terminal and not console.is_dumb_terminal else Lines()


# Objects that a refusal names.
MAX_NAMED: Final = 10
SECONDS: Final = 2.0
# A hub with many objects is asked less often: it works for at most a fifth of the time.
PAUSE_FOR_WORK: Final = 4.0
# One look at all objects. A healthy hub lists ten thousand of them within a few seconds.
LOOK_SECONDS: Final = 60.0

Look = Callable[[], Awaitable[Sequence[Waiting]]]


class Refused(Exception):
    """Karmada's scheduler would undo it, so nothing was written. `objects` are those that it places."""

    def __init__(self, cluster: str, objects: Sequence[str]) -> None:
        self.objects = tuple(objects)
        super().__init__(
            f"{cluster} was left as it is: in mode Centralized Karmada's scheduler places the replicas of "
            f"{listed(self.objects, MAX_NAMED)}, and gives a tainted cluster that holds replicas still more. "
            "Exclude the cluster in the PropagationPolicy of each workload:\n"
            "spec:\n"
            "  placement:\n"
            "    clusterAffinity:\n"
            f"      exclude: [{cluster}]"
        )


class Progress(msgspec.Struct, frozen=True):
    """Replicas to move, those that are still there, and the objects that have them."""

    cluster: str
    total: int = 0
    left: int = 0
    waiting: tuple[Waiting, ...] = ()

    @property
    def moved(self) -> int:
        """The replicas that have left the cluster."""
        return self.total - self.left


class Drained(msgspec.Struct, frozen=True):
    """The end of a drain: its last progress, and the workloads of rules `alone`, which do not move."""

    progress: Progress
    alone: tuple[Alone, ...] = ()

    @property
    def done(self) -> bool:
        """True if the cluster runs nothing of our objects."""
        return not self.progress.waiting

    def to_json(self) -> dict[str, Any]:
        """Returns the result as data."""
        return {
            "cluster": self.progress.cluster,
            "drained": self.done,
            "replicas": self.progress.total,
            "moved": self.progress.moved,
            "waiting": msgspec.to_builtins(self.progress.waiting),
            "notMoved": msgspec.to_builtins(self.alone),
        }


async def cordon(hub: ApiClient, cluster: str, clock: Clock, sources: MemberSources = ONLY_CLUSTERS) -> bool:
    """Adds the taint of a cordon. Returns False if it was there. Raises Refused, and ConfigError."""
    noted = await noted_in(hub, cluster, sources)
    await _check(hub, cluster, noted)
    return await change_taints(hub, cluster, with_taint(CORDON_TAINT, clock.wall()), noted) is not None


async def _check(hub: ApiClient, cluster: str, noted: str = "") -> list[Any]:
    """Returns the FederatedHPAs. Raises Refused if Karmada places some of them, ConfigError without it."""
    await read_cluster(hub, cluster, noted)
    raws = await listing(hub, "FederatedHPA")
    if found := placed_by_karmada(raws, cluster):
        raise Refused(cluster, found)
    return raws


async def listing(hub: ApiClient, kind: str) -> list[Any]:
    """Returns all objects of a kind of ours; one that cannot be decoded is no mapping. Raises ConfigError."""
    from fedhpa.kube import resource_path

    path = resource_path(federatedhpa.API_VERSION, f"{kind.lower()}s")
    with asking(f"cannot list {kind}s"):
        return list((await hub.list_leniently(path, dict[str, Any]))[0])


class Draining:
    """One drain. `tainted` is True once the Cluster has the taint, which stays whatever happens then."""

    def __init__(self, cluster: str, clock: Clock, sources: MemberSources = ONLY_CLUSTERS) -> None:
        self.cluster = cluster
        self._sources = sources
        self.tainted = False
        self._clock = clock

    async def run(
        self, hub: ApiClient, view: Lines | Bar, say: Callable[[str], None], *, timeout: float | None = None
    ) -> Drained:
        """Writes the taint and follows the replicas until nothing waits, or for `timeout` seconds.

        `say` gets notes for people. Raises Refused, and ConfigError with the remedy.
        """
        cluster, noted = self.cluster, await noted_in(hub, self.cluster, self._sources)
        raws = await _check(hub, cluster, noted)
        alone = scaled_by_rules_alone(await listing(hub, "CronFederatedHPA"), raws)
        written = await change_taints(hub, cluster, with_taint(DRAIN_TAINT, self._clock.wall()), noted)
        self.tainted = True
        since = _since(written or await read_cluster(hub, cluster, noted)) or self._clock.wall()
        say(f"{cluster} {'drains now' if written else 'was draining already'}; Ctrl-C ends only the waiting")

        async def look() -> list[Waiting]:
            raws = await listing(hub, "FederatedHPA")
            return list(waiting(raws, cluster, since, self._clock.wall()))

        with view.running():
            progress = await watch(cluster, look, view.show, say, clock=self._clock, timeout=timeout)
        return Drained(progress, tuple(alone))


def _since(cluster: dict[str, Any]) -> float | None:
    """Returns when the taint of the drain was added, None if it does not say."""
    for taint in taints_of(cluster):
        if isinstance(taint, dict) and taint.get("key") == DRAIN_TAINT:
            try:
                return parse_time(str(taint.get("timeAdded")))
            except InvalidObject:
                return None
    return None


async def forecast(
    hub: ApiClient, cluster: str, sources: MemberSources = ONLY_CLUSTERS
) -> tuple[list[Forecast], list[Alone]]:
    """Returns where the replicas would go, and the workloads that would not move. Writes nothing.

    Raises Refused, and ConfigError with the remedy.
    """
    from fedhpa.api.known_cluster import KnownCluster, RawCluster, known_cluster
    from fedhpa.kube import resource_path

    noted = await noted_in(hub, cluster, sources)
    raws = await _check(hub, cluster, noted)
    crons, path = await listing(hub, "CronFederatedHPA"), resource_path(CLUSTER_VERSION, "clusters")
    known = {}
    if sources.has_foreign:
        # A person who drains clusters need not read their objects. Labels of the source are unknown here.
        known = {name: KnownCluster(name) for name in await known_members(hub, sources.namespace)}
    if CLUSTERS in sources.names:
        with asking("cannot list Clusters"):
            found, _ = await hub.list_leniently(path, RawCluster)
        known |= {one.metadata.name: known_cluster(one) for one in found if isinstance(one, RawCluster)}
    return list(forecasts(raws, cluster, known)), list(scaled_by_rules_alone(crons, raws))


async def watch(
    cluster: str,
    look: Look,
    show: Callable[[Progress], None],
    warn: Callable[[str], None],
    *,
    clock: Clock,
    timeout: float | None = None,
) -> Progress:
    """Shows the progress after each look, until nothing waits or `timeout` seconds are over.

    `look` returns the objects with replicas in the cluster; `warn` gets each new problem. Returns the last
    progress. Raises ConfigError if the first look fails.
    """
    # The most replicas that each object had in the cluster are the replicas to move.
    most: dict[str, int] = {}
    found, warned = None, ""
    ends = None if timeout is None else clock.monotonic() + timeout
    while True:
        begun = clock.monotonic()
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                waiting = await look()
        except (ConfigError, TimeoutError) as error:
            text = str(error) or f"the hub did not list its objects within {LOOK_SECONDS:g} s"
            if found is None:
                raise ConfigError(text) from error
            if text != warned:
                warned = text
                warn(f"{text}; trying again")
        else:
            warned = ""
            counts = {one.name: one.replicas or 0 for one in waiting}
            most |= {name: max(count, most.get(name, 0)) for name, count in counts.items()}
            found = Progress(cluster, sum(most.values()), sum(counts.values()), tuple(waiting))
            show(found)
            if not waiting:
                return found
        now = clock.monotonic()
        if ends is not None and now >= ends:
            return found
        pause = max(SECONDS, PAUSE_FOR_WORK * (now - begun))
        await asyncio.sleep(pause if ends is None else min(pause, ends - now))
