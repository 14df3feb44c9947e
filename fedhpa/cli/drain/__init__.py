"""`fedhpa cordon`, `fedhpa drain` and `fedhpa uncordon`: take a cluster out for maintenance, and back in."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Annotated, Final

import typer

from fedhpa.api.member_sources import MemberSources
from fedhpa.api.texts import counted
from fedhpa.cli import completion
from fedhpa.cli.member_options import TaintFlags
from fedhpa.cli.options import Hub, JsonOrText, Output, cluster_name, seconds_of, with_flags

if TYPE_CHECKING:
    from fedhpa.cli.drain.draining import Drained, Refused
    from fedhpa.kube import ApiClient

ClusterName = Annotated[
    str,
    typer.Argument(
        metavar="CLUSTER", help="Name of the Cluster on the hub.", autocompletion=completion.clusters
    ),
]
ONLY_CLUSTERS: Final = TaintFlags()
Timeout = Annotated[
    str,
    typer.Option(help="Time to wait until the cluster is empty, such as 30m; if not set, without a limit."),
]


@with_flags()
def cordon(hub: Hub, members: TaintFlags, cluster: ClusterName) -> None:
    """Keep replicas from being added in a cluster. Those that it runs stay there.

    Example: fedhpa cordon member2
    """
    from fedhpa.cli.drain import draining
    from fedhpa.kube import SYSTEM

    name, sources = cluster_name(cluster), members.sources()
    try:
        written = hub.run(lambda api, _: draining.cordon(api, name, SYSTEM, sources))
    except draining.Refused as error:
        raise refusal(error) from error
    done = "is cordoned" if written else "was cordoned already"
    undo = hub.command("uncordon", name, *members.words())
    typer.echo(f"{name} {done}: its replicas stay, and it gets no more. Undo it with: {undo}")


@with_flags()
def uncordon(hub: Hub, members: TaintFlags, cluster: ClusterName) -> None:
    """Let a cluster take replicas again, after a cordon or a drain. Taints of others stay.

    Example: fedhpa uncordon member2
    """
    from fedhpa.cli.drain.taints import change_taints, noted_in, without_own

    name, sources = cluster_name(cluster), members.sources()

    async def run(api: ApiClient, _: str) -> bool:
        noted = await noted_in(api, name, sources)
        return await change_taints(api, name, without_own, noted) is not None

    is_changed = hub.run(run)
    typer.echo(
        f"{name} takes replicas again." if is_changed else f"{name} was neither cordoned nor draining."
    )


@with_flags()
def drain(
    hub: Hub,
    members: TaintFlags,
    cluster: ClusterName,
    dry_run: bool = False,
    timeout: Timeout = "",
    output: Output = JsonOrText.TEXT,
) -> None:
    """Move the replicas of all FederatedHPAs out of a cluster, and wait until it runs none of them.

    Their replacements are started in other clusters first. Exits 1 after --timeout, and if some replicas
    stay, or would stay with --dry-run.
    Ctrl-C ends only the waiting: the cluster goes on draining.

    Example: fedhpa drain member2 --dry-run

    Options:
    --dry-run: Print where the replicas of each object would go. Nothing is written.
    """
    from fedhpa.cli.drain.draining import Refused

    name, as_json = cluster_name(cluster), output is JsonOrText.JSON
    seconds, sources = timeout_seconds(timeout), members.sources()
    try:
        if dry_run:
            _forecast(name, sources, hub, as_json=as_json)
            return
        drained = asyncio.run(drained_cluster(name, seconds, hub, silent=as_json, members=members))
    except Refused as error:
        if as_json:
            typer.echo(json.dumps({"cluster": name, "drained": False, "refused": error.objects}, indent=2))
        raise refusal(error) from error
    if as_json:
        typer.echo(json.dumps(drained.to_json(), indent=2))
    if not drained.done:
        raise typer.Exit(1)


async def drained_cluster(
    name: str,
    timeout: float | None,
    hub: Hub,
    *,
    silent: bool = False,
    members: TaintFlags = ONLY_CLUSTERS,
) -> Drained:
    """Drains a cluster and shows it on stdout, unless `silent`. Raises Refused, and ConfigError."""
    from fedhpa.cli.drain.draining import Draining, Lines, for_stdout, limited
    from fedhpa.kube import SYSTEM

    draining = Draining(name, SYSTEM, members.sources())
    undo, again = (hub.command(word, name, *members.words()) for word in ("uncordon", "drain"))
    try:
        async with hub.client() as (api, _):
            shown = Lines(silent=True) if silent else for_stdout()
            drained = await draining.run(api, shown, lambda line: typer.echo(line, err=True), timeout=timeout)
    except asyncio.CancelledError:
        if draining.tainted:
            typer.echo(f"{name} goes on draining. Watch it again: {again}. Undo it: {undo}", err=True)
        raise
    if silent:
        return drained
    moved, left = drained.progress.moved, drained.progress.left
    if drained.done:
        typer.echo(f"{name} is drained: {counted(moved, 'replica')} moved. It gets no more until: {undo}")
    else:
        typer.echo(f"{name} is not drained: {counted(left, 'replica')} still there. It goes on draining.")
        typer.echo("\n".join(limited(drained.progress.waiting)))
        typer.echo(f"Watch it again: {again}. Undo it: {undo}")
    if drained.alone:
        typer.echo("not moved:")
        typer.echo("\n".join(limited(drained.alone)))
    return drained


def _forecast(name: str, sources: MemberSources, hub: Hub, *, as_json: bool) -> None:
    """Prints where the replicas would go. Raises Exit if some would stay."""
    import msgspec

    from fedhpa.cli.drain.draining import forecast, limited

    found, alone = hub.run(lambda api, _: forecast(api, name, sources))
    if as_json:
        shown = {"objects": [one.to_json() for one in found], "notMoved": msgspec.to_builtins(alone)}
        typer.echo(json.dumps({"cluster": name, "dryRun": True, **shown}, indent=2))
    else:
        count, stay = sum(one.replicas or 0 for one in found), sum(one.is_finding for one in found)
        would = f"{counted(stay, 'object')} would keep some there" if stay else "all would move"
        typer.echo(f"{name} runs {counted(count, 'replica')} of {counted(len(found), 'object')}; {would}")
        for line in limited([*found, *alone]):
            typer.echo(line)
        typer.echo("Nothing was written.")
    if any(one.is_finding for one in found):
        raise typer.Exit(1)


def timeout_seconds(text: str) -> float | None:
    """Returns the seconds of --timeout, None if it is not set. Raises ConfigError."""
    return seconds_of("--timeout", text, "30m") if text else None


def refusal(error: Refused) -> typer.Exit:
    """Says on stderr why nothing was written, and returns the exit for it."""
    typer.echo(f"fedhpa: {error}", err=True)
    return typer.Exit(1)
