"""`fedhpa doctor` names what stands between a FederatedHPA and its pods, and the commands that fix it."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from fedhpa.api.errors import ConfigError
from fedhpa.cli.colours import GREEN, RED, YELLOW, painted
from fedhpa.cli.member_options import MemberFlags
from fedhpa.cli.options import Hub, JsonOrText, Output, with_flags

if TYPE_CHECKING:
    from fedhpa.doctor import Report

MAX_TIMEOUT: Final = 60.0


@with_flags()
def doctor(
    hub: Hub,
    members: MemberFlags,
    namespace: str = "",
    system_namespace: str = "",
    output: Output = JsonOrText.TEXT,
    bundle: Path | None = None,
    timeout: float = 3.0,
) -> None:
    """Find what stands between a FederatedHPA and its pods, and name the commands that fix it.

    The command reads with your rights and changes nothing; new objects are sent as dry runs only. Exit code 0
    means that every object is Ready and every check was made, 1 that there is a finding, and 3 that nothing
    was found but some checks could not be made.

    Options:
    -n, --namespace: Check only the objects in this namespace, for people with rights in one.
    --system-namespace: Namespace of the installation; if not set, it is looked for.
    --bundle: Also write a tar.gz for a bug report to this file. It has no secrets.
    --timeout: Seconds to wait for each answer, above 0 and at most 60.
    """
    if not 0 < timeout <= MAX_TIMEOUT:
        raise ConfigError(f"--timeout={timeout:g}: expected more than 0 and at most {MAX_TIMEOUT:g} seconds")
    looked = {"only": namespace, "system": system_namespace, "sources": members.sources()}
    report = asyncio.run(_run(hub, bundle, timeout, looked))
    if output is JsonOrText.JSON:
        typer.echo(json.dumps(report.to_json(), indent=2))
    else:
        typer.echo("\n".join(map(_coloured, report.to_text().splitlines())))
    if report.exit_code:
        raise typer.Exit(report.exit_code)


def _coloured(line: str) -> str:
    """Returns a line of the report in its colour: findings red, what is unknown yellow, all well green."""
    unknown = line.startswith(("not checked", "nothing was found", "with rights"))
    plain = line.startswith(("  ", "context "))
    return painted(line, "" if plain else YELLOW if unknown else GREEN if line.startswith("healthy") else RED)


async def _run(flags: Hub, bundle: Path | None, seconds: float, looked: dict[str, Any]) -> Report:
    """Examines the hub with the arguments of `examine`, and writes the bundle if one is wanted."""
    from fedhpa.doctor import Commands, Report, check_bundle, examine, write_bundle
    from fedhpa.kube import SYSTEM
    from fedhpa.kube.config import known_contexts

    if bundle is not None:
        check_bundle(bundle)
    current, contexts = known_contexts(flags.kubeconfig)
    context = flags.context or current
    async with AsyncExitStack() as stack:
        hub = None
        try:
            hub, _ = await stack.enter_async_context(flags.client())
            commands = Commands(flags.kubeconfig, flags.context, contexts)
            report = await examine(
                hub, clock=SYSTEM, commands=commands, context=context, seconds=seconds, **looked
            )
        except ConfigError as error:
            report = Report(context)
            report.add("kubeconfig-unusable", "kubeconfig", what=str(error))
        if bundle is not None:
            await write_bundle(bundle, hub, report, seconds=seconds, now=SYSTEM.wall())
    return report
