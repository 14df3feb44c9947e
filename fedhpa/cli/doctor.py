"""`fedhpa doctor` names the first failed check of each chain, and the command that fixes it."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from fedhpa.api.errors import ConfigError
from fedhpa.api.texts import one_line
from fedhpa.cli.hub import hub_client
from fedhpa.cli.options import Context, JsonOrText, Kubeconfig

if TYPE_CHECKING:
    from fedhpa.doctor import Observation, Report

MAX_TIMEOUT: Final = 60.0


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("doctor")(doctor)


def doctor(
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    namespace: Annotated[
        str, typer.Option("-n", "--namespace", help="Namespace of the installation.")
    ] = "fedhpa-system",
    output: Annotated[JsonOrText, typer.Option("-o", "--output", help="Output format.")] = JsonOrText.TEXT,
    bundle: Annotated[
        Path | None,
        typer.Option(help="Also write a tar.gz for a bug report to this file. It has no secrets."),
    ] = None,
    timeout: Annotated[
        float, typer.Option(help="Seconds to wait for each answer, above 0 and at most 60.")
    ] = 3.0,
) -> None:
    """Find the first failed check between a FederatedHPA and its pods, and name the command that fixes it.

    The command reads with your rights and changes nothing; new objects are sent as dry runs only. A check
    that you may not make is reported as not checked. Exit code 1 means that at least one check fails.
    """
    if not 0 < timeout <= MAX_TIMEOUT:
        raise ConfigError(f"--timeout={timeout:g}: expected more than 0 and at most {MAX_TIMEOUT:g} seconds")
    observation, report = asyncio.run(_run(kubeconfig, context, namespace, timeout, bundle))
    if output is JsonOrText.JSON:
        typer.echo(json.dumps(to_json(observation, report), indent=2))
    else:
        typer.echo(to_text(observation, report), nl=False)
    if report.findings:
        raise typer.Exit(1)


async def _run(
    kubeconfig: str, context: str, namespace: str, timeout: float, bundle: Path | None
) -> tuple[Observation, Report]:
    from fedhpa.doctor import Hub, Observation, check_bundle, diagnose, examine, write_bundle
    from fedhpa.kube import SYSTEM

    if bundle is not None:
        check_bundle(bundle)
    async with AsyncExitStack() as stack:
        hub = None
        try:
            hub, _ = await stack.enter_async_context(hub_client(kubeconfig, context))
            observation = await examine(hub, namespace=namespace, seconds=timeout, clock=SYSTEM)
        except ConfigError as error:
            observation = Observation(SYSTEM.wall(), Hub(kubeconfig=one_line(str(error))))
        report = diagnose(observation)
        if bundle is not None:
            await write_bundle(bundle, hub, observation, report, seconds=timeout)
    return observation, report


def to_json(observation: Observation, report: Report) -> dict[str, Any]:
    """Returns the report as JSON."""
    return {"healthy": not report.findings, **report.to_json(), "checked": _counts(observation)}


def to_text(observation: Observation, report: Report) -> str:
    """Returns the report as text; one line if nothing is broken and everything was checked."""
    lines = []
    for each in report.findings:
        lines += [
            f"{each.id}  {each.subject}",
            f"  what  {each.what}",
            f"  why   {each.why}",
            f"  fix   {each.command}",
        ]
    if not report.findings:
        counts = _counts(observation)
        lines.append(
            f"nothing is broken (members: {counts['members']}, FederatedHPAs: {counts['federatedHPAs']}, "
            f"CronFederatedHPAs: {counts['cronFederatedHPAs']})"
        )
    lines += [f"not checked: {each.check}: {each.why}" for each in report.not_checked]
    return "\n".join(lines) + "\n"


def _counts(observation: Observation) -> dict[str, int]:
    members, objects = observation.members, observation.objects
    return {
        "members": len(members) if isinstance(members, tuple) else 0,
        "federatedHPAs": len(objects.scaled) if objects and isinstance(objects.scaled, tuple) else 0,
        "cronFederatedHPAs": len(objects.crons) if objects and isinstance(objects.crons, tuple) else 0,
    }
