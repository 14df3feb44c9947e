"""`fedhpa top` shows all FederatedHPAs in one table that follows them, those that need attention first."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from fedhpa.api.errors import ConfigError
from fedhpa.api.free_json import Json, at, condition, entries, text_at, time_at
from fedhpa.api.texts import one_line
from fedhpa.cli.colours import BOLD, GREEN, RED, YELLOW, columns, painted
from fedhpa.cli.hub_client import API_VERSION, asking
from fedhpa.cli.options import HubFlags, JsonOrText, with_flags

if TYPE_CHECKING:
    from fedhpa.kube import ApiClient

# One bar of eight heights for the replicas of each cluster, as a share of the largest one.
BARS: Final = "▁▂▃▄▅▆▇█"
MAX_BARS: Final = 6
MAX_NAME: Final = 22
MAX_USAGE: Final = 12
# The limits in words that fit into 80 columns, by the reason of ScalingLimited.
LIMITS: Final = {"TooFewReplicas": "at minimum", "TooManyReplicas": "at maximum"}
# Words that most reasons have, and that 80 columns have no room for.
COMMON: Final = " resource utilization (percentage of request)"
LIST_SECONDS: Final = 30.0
# Clears the screen and goes to its beginning; shows the other screen and hides the cursor; and back.
HOME, ENTER, LEAVE = "\x1b[H\x1b[J", "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"


@with_flags()
def top(
    hub: HubFlags,
    all_namespaces: bool = False,
    once: bool = False,
    interval: Annotated[float, typer.Option(help="Seconds between two looks.", min=1.0, max=3600.0)] = 5.0,
    output: JsonOrText = JsonOrText.TEXT,
) -> None:
    """Show all FederatedHPAs in a table that follows them, those that need attention first.

    Each row has the replicas and the maximum, a bar for each cluster, usage and target, and what holds the
    object. Objects that are not Ready come first. In a pipe the table is printed once. End it with Ctrl-C.

    Example: fedhpa top -A

    Options:
    -A, --all-namespaces: The objects of all namespaces.
    --once: Print the table once, with all rows.
    -o, --output: Output format; json is printed once.
    """
    live = not once and output is JsonOrText.TEXT and sys.stdout.isatty()
    hub.run(lambda api, place: _run(api, "" if all_namespaces else place, output, interval if live else 0.0))


async def _run(hub: ApiClient, place: str, output: JsonOrText, interval: float) -> None:
    """Prints the table once, or draws it again and again with an interval above 0."""
    from fedhpa.kube import SYSTEM

    if not interval:
        rows = await _rows(hub, place, SYSTEM.wall())
        if output is JsonOrText.JSON:
            typer.echo(json.dumps(rows, indent=2))
            return
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
        typer.echo("\n".join(table(rows, width, place)))
        return
    sys.stdout.write(ENTER)
    try:
        while True:
            await _draw(hub, place, SYSTEM.wall())
            await asyncio.sleep(interval)
    finally:
        sys.stdout.write(LEAVE)
        sys.stdout.flush()


async def _draw(hub: ApiClient, place: str, now: float) -> None:
    """Draws one screen. A hub that does not answer is named, and asked again at the next look."""
    size = shutil.get_terminal_size()
    try:
        rows = await _rows(hub, place, now)
    except ConfigError as error:
        lines = [painted(one_line(str(error), size.columns), RED)]
    else:
        lines = table(rows, size.columns, place)
        if len(lines) > size.lines - 1:
            hidden = len(lines) - size.lines + 2
            lines = [*lines[: size.lines - 2], f"and {hidden} more, which need less attention"]
    sys.stdout.write(HOME + "\n".join(lines))
    sys.stdout.flush()


async def _rows(hub: ApiClient, namespace: str, now: float) -> list[Json]:
    from fedhpa.kube import resource_path

    path = resource_path(API_VERSION, "federatedhpas", namespace)
    with asking("cannot list FederatedHPAs"):
        found = (await hub.list(path, dict[str, Any], idle=LIST_SECONDS)).items
    return ordered(row(each, now) for each in found)


def row(raw: Mapping[str, Any], now: float) -> Json:
    """Returns what a row shows of a stored FederatedHPA. `now` is in POSIX seconds."""
    status, ready = at(raw, "status"), condition(raw, "Ready")
    created = time_at(raw, "metadata", "creationTimestamp")
    clusters = {text_at(one, "name"): at(one, "currentReplicas") for one in entries(status, "clusters")}
    current, desired = (_number(at(status, key)) for key in ("currentReplicas", "desiredReplicas"))
    minimum, maximum = (text_at(status, "summary", key) for key in ("min", "max"))
    return {
        "namespace": text_at(raw, "metadata", "namespace"),
        "name": text_at(raw, "metadata", "name"),
        "ready": text_at(ready, "status") or "Unknown",
        "current": current,
        "desired": desired,
        "min": minimum,
        "max": maximum,
        "clusters": clusters,
        "targets": text_at(status, "summary", "targets"),
        "holds": _holds(raw, ready),
        "ageSeconds": None if created is None else max(0, int(now - created)),
        "attention": _attention(raw, ready, current, desired),
    }


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def _attention(raw: Mapping[str, Any], ready: Json, current: int | None, desired: int | None) -> int:
    """Returns how much attention an object needs: 4 not Ready, 3 at a limit, 2 held, 1 scaling, 0 none."""
    if ready.get("status") != "True":
        return 4
    limited = condition(raw, "ScalingLimited")
    if limited.get("status") == "True" and limited.get("reason") == "TooManyReplicas":
        return 3
    if condition(raw, "Held").get("status") == "True":
        return 2
    return int(current != desired)


def _holds(raw: Mapping[str, Any], ready: Json) -> str:
    """Returns why an object has the size that it has, in a few words."""
    if not ready:
        return "no controller has looked at it"
    if ready.get("status") != "True":
        return f"{text_at(ready, 'reason')}: {text_at(ready, 'message')}"
    for kind in ("Held", "ScalingLimited"):
        found = condition(raw, kind)
        if found.get("status") == "True":
            return LIMITS.get(text_at(found, "reason")) or text_at(found, "message")
    return text_at(raw, "status", "summary", "reason")


def ordered(rows: Iterable[Json]) -> list[Json]:
    """Returns the rows with those first that need most attention, then by name."""
    return sorted(rows, key=lambda one: (-one["attention"], one["namespace"], one["name"]))


def table(rows: list[Json], width: int, place: str = "") -> list[str]:
    """Returns the lines of the table, none wider than `width` characters; 0 cuts nothing.

    `place` is the only namespace, "" for all, which then have a column.
    """
    if not rows:
        where = f" in namespace {place}: see those of all namespaces with -A" if place else ""
        return [f"No FederatedHPAs found{where}."]
    head = ["NAME", "REPLICAS", "CLUSTERS", "USAGE", "AGE", "HOLDS"]
    if not place:
        head.insert(0, "NAMESPACE")
    head_line, *lines = columns([head, *(list(_cells(one, with_namespace=not place)) for one in rows)], width)
    colours = {4: RED, 3: YELLOW, 2: YELLOW, 1: GREEN}
    shown = zip(rows, lines, strict=True)
    return [
        painted(head_line, BOLD),
        *(painted(line, colours.get(one["attention"], "")) for one, line in shown),
    ]


def _cells(one: Json, *, with_namespace: bool) -> Iterator[str]:
    if with_namespace:
        yield one_line(one["namespace"], MAX_NAME // 2)
    yield one_line(one["name"], MAX_NAME)
    current, desired = ("?" if one[key] is None else str(one[key]) for key in ("current", "desired"))
    size = current if current == desired else f"{current}→{desired}"
    yield f"{size}/{one_line(one['max'], MAX_USAGE)}" if one["max"] else size
    yield bars(one["clusters"].values())
    usage = one["targets"].partition(", ")[0].removeprefix("cpu: ")
    yield one_line(usage.replace("<unknown>", "?"), MAX_USAGE)
    yield age(one["ageSeconds"])
    yield one_line(one["holds"].replace(COMMON, ""), 200)


def bars(replicas: Iterable[Any]) -> str:
    """Returns a bar for each cluster, as high as its share of the largest one; · for none, ? for unknown."""
    known = list(replicas)
    most = max((each for each in known if isinstance(each, int)), default=0)
    drawn = ""
    for each in known[:MAX_BARS]:
        if not isinstance(each, int):
            drawn += "?"
        else:
            drawn += BARS[max(0, round(each / most * len(BARS)) - 1)] if each > 0 else "·"
    return drawn + ("…" if len(known) > MAX_BARS else "")


def age(seconds: int | None) -> str:
    """Returns an age in its largest unit, as kubectl does: 45s, 12m, 3h, 20d."""
    if seconds is None:
        return "?"
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
