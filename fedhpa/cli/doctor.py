"""`fedhpa doctor` names what stands between a FederatedHPA and its pods, and the commands that fix it."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from fedhpa.api.errors import ConfigError
from fedhpa.cli.colours import GREEN, RED, YELLOW, painted
from fedhpa.cli.hub_client import hub_client
from fedhpa.cli.member_options import MemberFlags
from fedhpa.cli.options import Context, JsonOrText, Kubeconfig, with_flags

if TYPE_CHECKING:
    from fedhpa.api.member_sources import MemberSources
    from fedhpa.doctor import Report

MAX_TIMEOUT: Final = 60.0


@with_flags()
def doctor(
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    namespace: Annotated[
        str,
        typer.Option(
            "-n",
            "--namespace",
            help="Check only the objects in this namespace, for people with rights in one.",
        ),
    ] = "",
    system_namespace: Annotated[
        str, typer.Option(help="Namespace of the installation; if not set, it is looked for.")
    ] = "",
    output: Annotated[JsonOrText, typer.Option("-o", "--output", help="Output format.")] = JsonOrText.TEXT,
    bundle: Annotated[
        Path | None,
        typer.Option(help="Also write a tar.gz for a bug report to this file. It has no secrets."),
    ] = None,
    timeout: Annotated[
        float, typer.Option(help="Seconds to wait for each answer, above 0 and at most 60.")
    ] = 3.0,
    *,
    members: MemberFlags,
) -> None:
    """Find what stands between a FederatedHPA and its pods, and name the commands that fix it.

    The command reads with your rights and changes nothing; new objects are sent as dry runs only. Exit code 0
    means that every object is Ready and every check was made, 1 that there is a finding, and 3 that nothing
    was found but some checks could not be made.
    """
    if not 0 < timeout <= MAX_TIMEOUT:
        raise ConfigError(f"--timeout={timeout:g}: expected more than 0 and at most {MAX_TIMEOUT:g} seconds")
    sources = members.sources()
    report = asyncio.run(_run(kubeconfig, context, namespace, system_namespace, timeout, bundle, sources))
    if output is JsonOrText.JSON:
        typer.echo(json.dumps(report.to_json(), indent=2))
    else:
        typer.echo("\n".join(map(_coloured, report.to_text().splitlines())))
    if report.exit_code:
        raise typer.Exit(report.exit_code)


def _coloured(line: str) -> str:
    """Returns a line of the report in its colour: findings red, what is unknown yellow, all well green."""
    unknown = line.startswith(("not checked", "nothing was found"))
    plain = line.startswith(("  ", "context "))
    return painted(line, "" if plain else YELLOW if unknown else GREEN if line.startswith("healthy") else RED)


async def _run(
    kubeconfig: str,
    context: str,
    only: str,
    system: str,
    timeout: float,
    bundle: Path | None,
    sources: MemberSources,
) -> Report:
    from fedhpa.doctor import Commands, Report, check_bundle, examine, write_bundle
    from fedhpa.kube import SYSTEM
    from fedhpa.kube.config import known_contexts

    if bundle is not None:
        check_bundle(bundle)
    current, contexts = known_contexts(kubeconfig)
    async with AsyncExitStack() as stack:
        hub = None
        try:
            hub, _ = await stack.enter_async_context(hub_client(kubeconfig, context))
            report = await examine(
                hub,
                clock=SYSTEM,
                commands=Commands(kubeconfig, context, contexts),
                context=context or current,
                system=system,
                only=only,
                seconds=timeout,
                sources=sources,
            )
        except ConfigError as error:
            report = Report(context or current)
            report.add("kubeconfig-unusable", "kubeconfig", str(error))
        if bundle is not None:
            await write_bundle(bundle, hub, report, seconds=timeout, now=SYSTEM.wall())
    return report
