"""`fedhpa explain` explains a FederatedHPA from its ScalingRecord, or a CronFederatedHPA from its status.

The right to get both is enough.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, TypeVar

import typer

from fedhpa.api.default_values import SYNC_PERIOD_SECONDS
from fedhpa.api.json import convert_json
from fedhpa.api.texts import counted, for_terminal, one_line
from fedhpa.cli import suggestions
from fedhpa.cli.hub_client import (
    find_object,
    hub_client,
    joined,
    names_cron,
    parse_cron_target,
    parse_target,
    read_object,
)
from fedhpa.cli.options import Context, Kubeconfig, Name, Namespace

if TYPE_CHECKING:
    from fedhpa.decision import StoredRecord
    from fedhpa.kube import ApiClient, Clock

T = TypeVar("T")

NO_CONTROLLER: Final = "check that a controller runs and leads: kubectl get leases -A"
# The controller writes a status in which nothing but times moves every ten minutes.
STILL_SECONDS: Final = 600
CRON_KIND: Final = "CronFederatedHPA"


class ExplainFormat(StrEnum):
    """The output formats of `fedhpa explain`."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("explain")(explain)


def explain(
    target: Annotated[
        str,
        typer.Argument(
            metavar="fhpa|cronfhpa",
            help="The kind, then its name; or KIND/NAME.",
            autocompletion=suggestions.objects,
        ),
    ],
    name: Name = "",
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    output: Annotated[
        ExplainFormat, typer.Option("-o", "--output", help="Output format.")
    ] = ExplainFormat.TEXT,
    watch: Annotated[
        bool,
        typer.Option(
            "-w", "--watch", help="Print the explanation again when it changes, until Ctrl-C or deletion."
        ),
    ] = False,
) -> None:
    """Explain why a FederatedHPA has its current replicas, or what the rules of a CronFederatedHPA do.

    The decision is that in the ScalingRecord of the FederatedHPA. A later one that changed nothing is not
    recorded.

    Example: fedhpa explain fhpa web -n shop
    """
    where = (namespace, kubeconfig, context)
    target = joined(target, name)
    if names_cron(target):
        _explain_cron(parse_cron_target(target), *where, output, watch=watch)
        return
    name = parse_target(target)
    if watch:
        from fedhpa.kube import SYSTEM

        kind, read = "FederatedHPA", partial(explanation_of, clock=SYSTEM)
        asyncio.run(_watch(name, *where, output, kind, read, _show, explained_parts))
        raise typer.Exit(1)
    if not _show(asyncio.run(_explanation(name, *where)), output):
        raise typer.Exit(1)


def _explain_cron(
    name: str, namespace: str, kubeconfig: str, context: str, output: ExplainFormat, *, watch: bool
) -> None:
    """Prints what the rules of a CronFederatedHPA do."""
    from fedhpa.cli.cron.explain import explanation

    async def explained(hub: ApiClient, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        from controller.cronfederatedhpa import planned_targets

        (unit,) = await planned_targets(hub, [raw], [raw["metadata"]["name"]])
        return explanation(raw, unit) | {"has_status": bool(raw.get("status"))}

    if watch:
        where = (name, namespace, kubeconfig, context)
        asyncio.run(_watch(*where, output, CRON_KIND, explained, _show_cron, dict))
        raise typer.Exit(1)

    async def read() -> Mapping[str, Any]:
        async with hub_client(kubeconfig, context) as (hub, default):
            chosen = namespace or default
            raw = await read_object(hub, chosen, name, named=bool(namespace), kind=CRON_KIND)
            return await explained(hub, raw)

    if not _show_cron(asyncio.run(read()), output):
        raise typer.Exit(1)


def _show_cron(explained: Mapping[str, Any], output: ExplainFormat) -> bool:
    """Prints what the rules of an object do. Returns False if it has no status, which stderr then says."""
    from fedhpa.cli.cron.explain import explanation_text

    found = dict(explained)
    if not found.pop("has_status"):
        typer.echo(f"fedhpa: {found['object']} has no status yet: {NO_CONTROLLER}", err=True)
        return False
    if output is ExplainFormat.TEXT:
        typer.echo(for_terminal(explanation_text(found)), nl=False)
    elif output is ExplainFormat.JSON:
        typer.echo(json.dumps(found, indent=2))
    else:
        from fedhpa.api.yaml import print_yaml

        typer.echo(print_yaml([found], sort_keys=False), nl=False)
    return True


class Explanation(NamedTuple):
    """A recorded decision, None if there is none, and the object's status. `note` is for stderr."""

    where: str
    record: StoredRecord | None
    status: Mapping[str, Any]
    note: str = ""


def _show(explanation: Explanation, output: ExplainFormat) -> bool:
    """Prints the explanation. Returns False if there is no decision, which stderr then says."""
    from fedhpa.kube import SYSTEM

    if explanation.note:
        typer.echo(f"fedhpa: {explanation.note}", err=True)
    if explanation.record is None:
        return False
    typer.echo(render(explanation, output, SYSTEM.wall()), nl=False)
    return True


async def explanation_of(hub: ApiClient, raw: Mapping[str, Any], clock: Clock) -> Explanation:
    """Returns the last recorded decision of a FederatedHPA, with a warning if no controller seems to run.

    Raises ConfigError if it cannot be read.
    """
    from controller.federatedhpa import read_recording

    recording = await read_recording(hub, raw)
    metadata, status = raw["metadata"], raw.get("status") or {}
    where = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
    record = recording.record
    if record is None:
        note = recording.lost or f"{where} has no decision yet: {NO_CONTROLLER}"
    elif not record.decision:
        note = f"the last decision of {where} was too large to be recorded"
    else:
        now = clock.wall()
        return Explanation(where, record, status, _deleted(raw, now) or _late(raw, now))
    return Explanation(where, None, status, note)


def _deleted(raw: Mapping[str, Any], now: float) -> str:
    """Returns the reason why an object that was deleted is still there; "" if it was not deleted."""
    from fedhpa.api.member_hpas import DELETION_WAITS
    from fedhpa.api.times import parse_time

    deleted = parse_time(raw["metadata"].get("deletionTimestamp"))
    return "" if deleted is None else f"it was deleted {age(now - deleted)} ago, and waits: {DELETION_WAITS}"


def _late(raw: Mapping[str, Any], now: float) -> str:
    """Returns a warning if the status is older than a running controller leaves it, else ""."""
    from fedhpa.decision import RawStatus, last_answer

    seen = last_answer(convert_json(raw.get("status") or {}, RawStatus))
    period = (raw.get("spec") or {}).get("syncPeriodSeconds")
    expected = STILL_SECONDS + 4 * (period if isinstance(period, int) else SYNC_PERIOD_SECONDS)
    if seen is None or now - seen <= expected:
        return ""
    return (
        f"warning: the status is {age(now - seen)} old, and a running controller renews it within "
        f"{age(expected)}: check that one runs and leads: kubectl get leases -A"
    )


def age(seconds: float) -> str:
    """Returns a duration in its largest units, as kubectl shows ages: 12 s, 3 min, 2 h, 5 d."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(int(seconds), 0)} s"


def render(found: Explanation, output: ExplainFormat, now: float) -> str:
    """Returns a recorded decision as JSON or YAML, or as text with its age and the object's conditions."""
    from fedhpa.decision import RawStatus, stored_status, to_text

    assert found.record is not None, "the caller checked it"
    fields = found.record.decision
    if output is ExplainFormat.JSON:
        return json.dumps(fields, indent=2) + "\n"
    if output is ExplainFormat.YAML:
        from fedhpa.api.yaml import print_yaml

        return print_yaml([fields], sort_keys=False)
    conditions = stored_status(convert_json(found.status, RawStatus)).conditions
    decision = found.record.last_decision(conditions)
    assert decision is not None, "the caller checked the decision"
    lines = [
        f"  {condition.type}={condition.status} {condition.reason}: {condition.message}\n"
        for condition in conditions
    ]
    # A later decision that changes nothing is not recorded.
    decided = f"recorded {age(now - decision.now)} ago\n"
    text = to_text(decision, found.where)
    # The status is younger: Ready says what was decided last, in the words of the first line.
    ready = next((one for one in conditions if one.type == "Ready" and one.status == "True"), None)
    if ready is not None and text.partition("\n")[0] != f"{found.where}: {ready.message}":
        text = f"{found.where}: {ready.message}\nthe last recorded decision: {to_text(decision)}"
    moves = "".join(f"  {line}\n" for line in memberships(found.status))
    clusters = f"clusters that are no Member:\n{moves}" if moves else ""
    return for_terminal(text + decided + clusters + "conditions:\n" + "".join(lines))


def memberships(status: Mapping[str, Any]) -> list[str]:
    """Returns a line for each cluster that is no Member, with its replicas and what it waits for."""
    lines = []
    entries = status.get("clusters")
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, Mapping) or not entry.get("membership"):
            continue
        name, membership, waits_for = (
            one_line(str(entry.get(field) or "")) for field in ("name", "membership", "waitsFor")
        )
        count = entry.get("currentReplicas")
        runs = counted(count, "replica") if isinstance(count, int) else "an unknown number of replicas"
        lines.append(f"{name} ({membership}): {runs} there{f', {waits_for}' if waits_for else ''}")
    return lines


def explained_parts(found: Explanation) -> object:
    """Returns the parts that a person follows, without times."""
    fields = {} if found.record is None else found.record.decision
    conditions = [
        (one.get("type"), one.get("status"), one.get("reason"), one.get("message"))
        for one in found.status.get("conditions") or ()
    ]
    decided = {key: value for key, value in fields.items() if key != "time"}
    return decided, conditions, memberships(found.status)


async def _watch(
    name: str,
    namespace: str,
    kubeconfig: str,
    context: str,
    output: ExplainFormat,
    kind: str,
    explained: Callable[[ApiClient, Mapping[str, Any]], Awaitable[T]],
    show: Callable[[T, ExplainFormat], bool],
    state: Callable[[T], object],
) -> None:
    """Prints the explanation whenever it changes; returns when the object was deleted.

    `explained` returns what `show` prints of an object; `show` returns False if there is nothing yet.
    """
    from fedhpa.cli.follow import follow

    between = "\n" if output is ExplainFormat.TEXT else ""
    shown = False

    def show_next(found: T) -> None:
        nonlocal shown
        if shown:
            typer.echo(between, nl=False)
        shown = show(found, output) or shown
        sys.stdout.flush()

    def warn(text: str) -> None:
        typer.echo(f"fedhpa: {text}", err=True)

    async with hub_client(kubeconfig, context) as (hub, default):
        chosen = namespace or default
        first: Mapping[str, Any] | None = await read_object(
            hub, chosen, name, named=bool(namespace), kind=kind
        )

        async def read() -> T | None:
            nonlocal first
            raw, first = first or await find_object(hub, chosen, name, kind), None
            return None if raw is None else await explained(hub, raw)

        await follow(read, show_next, warn, state=state)
    warn(f"{chosen}/{name} was deleted")


async def _explanation(name: str, namespace: str, kubeconfig: str, context: str) -> Explanation:
    from fedhpa.kube import SYSTEM

    async with hub_client(kubeconfig, context) as (hub, default):
        raw = await read_object(hub, namespace or default, name, named=bool(namespace))
        return await explanation_of(hub, raw, SYSTEM)
