"""`fedhpa cordon`, `fedhpa drain` and `fedhpa uncordon`: take a cluster out for maintenance, and back in."""

from __future__ import annotations

import asyncio
import json
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from fedhpa.api.errors import ConfigError
from fedhpa.api.member_sources import ONLY_CLUSTERS, SOURCES, MemberSources
from fedhpa.api.texts import counted
from fedhpa.cli import suggestions
from fedhpa.cli.hub_client import hub_client
from fedhpa.cli.member_options import DEFAULT, DEFAULT_NAMESPACE, MembersFrom, MembersNamespace
from fedhpa.cli.options import Context, JsonOrText, Kubeconfig, cluster_name, seconds_of

if TYPE_CHECKING:
    from fedhpa.cli.drain.draining import Drained, Refused
    from fedhpa.cli.drain.forecast import Forecast
    from fedhpa.cli.drain.objects import Alone

ClusterName = Annotated[
    str,
    typer.Argument(
        metavar="CLUSTER", help="Name of the Cluster on the hub.", autocompletion=suggestions.clusters
    ),
]
Timeout = Annotated[
    str,
    typer.Option(help="Time to wait until the cluster is empty, such as 30m; if not set, without a limit."),
]


def cordon(
    cluster: ClusterName,
    members_from: MembersFrom = DEFAULT,
    members_namespace: MembersNamespace = DEFAULT_NAMESPACE,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
) -> None:
    """Keep replicas from being added in a cluster. Those that it runs stay there.

    Example: fedhpa cordon member2
    """
    from fedhpa.cli.drain import draining
    from fedhpa.kube import SYSTEM

    name, sources = cluster_name(cluster), taint_sources(members_from, members_namespace)

    async def run() -> bool:
        async with hub_client(kubeconfig, context) as (hub, _):
            return await draining.cordon(hub, name, SYSTEM, sources)

    try:
        written = asyncio.run(run())
    except draining.Refused as error:
        raise refusal(error) from error
    done = "is cordoned" if written else "was cordoned already"
    undo = command("uncordon", name, kubeconfig, context)
    typer.echo(f"{name} {done}: its replicas stay, and it gets no more. Undo it with: {undo}")


def uncordon(
    cluster: ClusterName,
    members_from: MembersFrom = DEFAULT,
    members_namespace: MembersNamespace = DEFAULT_NAMESPACE,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
) -> None:
    """Let a cluster take replicas again, after a cordon or a drain. Taints of others stay.

    Example: fedhpa uncordon member2
    """
    from fedhpa.cli.drain.taints import change_taints, noted_in, without_own

    name, sources = cluster_name(cluster), taint_sources(members_from, members_namespace)

    async def run() -> bool:
        async with hub_client(kubeconfig, context) as (hub, _):
            noted = await noted_in(hub, name, sources)
            return await change_taints(hub, name, without_own, noted) is not None

    if asyncio.run(run()):
        typer.echo(f"{name} takes replicas again.")
    else:
        typer.echo(f"{name} was neither cordoned nor draining.")


def drain(
    cluster: ClusterName,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Print where the replicas of each object would go. Nothing is written."
        ),
    ] = False,
    timeout: Timeout = "",
    output: Annotated[JsonOrText, typer.Option("-o", "--output", help="Output format.")] = JsonOrText.TEXT,
    members_from: MembersFrom = DEFAULT,
    members_namespace: MembersNamespace = DEFAULT_NAMESPACE,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
) -> None:
    """Move the replicas of all FederatedHPAs out of a cluster, and wait until it runs none of them.

    Their replacements are started in other clusters first. Exits 1 after --timeout, and if some replicas
    stay, or would stay with --dry-run.
    Ctrl-C ends only the waiting: the cluster goes on draining.

    Example: fedhpa drain member2 --dry-run
    """
    from fedhpa.cli.drain.draining import Refused

    name, as_json = cluster_name(cluster), output is JsonOrText.JSON
    seconds, sources = timeout_seconds(timeout), taint_sources(members_from, members_namespace)
    try:
        if dry_run:
            _forecast(name, sources, kubeconfig, context, as_json=as_json)
            return
        drained = asyncio.run(
            drained_cluster(name, seconds, kubeconfig, context, silent=as_json, sources=sources)
        )
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
    kubeconfig: str,
    context: str,
    *,
    silent: bool = False,
    sources: MemberSources = ONLY_CLUSTERS,
) -> Drained:
    """Drains a cluster and shows it on stdout, unless `silent`. Raises Refused, and ConfigError."""
    from fedhpa.cli.drain import view
    from fedhpa.cli.drain.draining import Draining
    from fedhpa.kube import SYSTEM

    draining = Draining(name, SYSTEM, sources)
    undo = command("uncordon", name, kubeconfig, context)
    again = command("drain", name, kubeconfig, context)
    try:
        async with hub_client(kubeconfig, context) as (hub, _):
            shown = view.View() if silent else view.for_stdout()
            drained = await draining.run(hub, shown, lambda line: typer.echo(line, err=True), timeout=timeout)
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
        typer.echo("\n".join(view.limited(drained.progress.waiting)))
        typer.echo(f"Watch it again: {again}. Undo it: {undo}")
    if drained.alone:
        typer.echo("not moved:")
        typer.echo("\n".join(view.limited(drained.alone)))
    return drained


def _forecast(name: str, sources: MemberSources, kubeconfig: str, context: str, *, as_json: bool) -> None:
    """Prints where the replicas would go. Raises Exit if some would stay."""
    import msgspec

    from fedhpa.cli.drain import draining, view

    async def run() -> tuple[list[Forecast], list[Alone]]:
        async with hub_client(kubeconfig, context) as (hub, _):
            return await draining.forecast(hub, name, sources)

    found, alone = asyncio.run(run())
    if as_json:
        shown = {"objects": [one.to_json() for one in found], "notMoved": msgspec.to_builtins(alone)}
        typer.echo(json.dumps({"cluster": name, "dryRun": True, **shown}, indent=2))
    else:
        count, stay = sum(one.replicas or 0 for one in found), sum(one.is_finding for one in found)
        would = f"{counted(stay, 'object')} would keep some there" if stay else "all would move"
        typer.echo(f"{name} runs {counted(count, 'replica')} of {counted(len(found), 'object')}; {would}")
        for line in view.limited([*found, *alone]):
            typer.echo(line)
        typer.echo("Nothing was written.")
    if any(one.is_finding for one in found):
        raise typer.Exit(1)


def taint_sources(members_from: str, namespace: str) -> MemberSources:
    """Returns the sources of members, as far as taints depend on them. Raises ConfigError."""
    names = tuple(filter(None, members_from.split(",")))
    if not names or set(names) - set(SOURCES):
        raise ConfigError(f"--members-from={members_from[:100]!r}: expected some of {', '.join(SOURCES)}")
    return MemberSources(names, namespace)


def timeout_seconds(text: str) -> float | None:
    """Returns the seconds of --timeout, None if it is not set. Raises ConfigError."""
    return seconds_of("--timeout", text, "30m") if text else None


def refusal(error: Refused) -> typer.Exit:
    """Says on stderr why nothing was written, and returns the exit for it."""
    typer.echo(f"fedhpa: {error}", err=True)
    return typer.Exit(1)


def command(name: str, cluster: str, kubeconfig: str, context: str) -> str:
    """Returns the command line for the same hub."""
    options = (("--kubeconfig", kubeconfig), ("--context", context))
    return " ".join(["fedhpa", name, cluster, *(f"{key}={quote(value)}" for key, value in options if value)])
