"""`fedhpa explain` explains the current replicas of a FederatedHPA from its status.

The right to get the object is enough.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

import typer

from fedhpa.cli.hub import find_object, hub_client, parse_target, read_object
from fedhpa.cli.options import Context, Kubeconfig, Namespace


class ExplainFormat(StrEnum):
    """The output formats of `fedhpa explain`."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("explain")(explain)


def explain(
    target: Annotated[str, typer.Argument(metavar="fhpa/NAME", help="Name of the FederatedHPA.")],
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
    """Explain why a FederatedHPA has its current replicas, and what would change them."""
    name = parse_target(target)
    if watch:
        asyncio.run(_watch(name, namespace, kubeconfig, context, output))
        raise typer.Exit(1)
    if not _show(asyncio.run(_read(name, namespace, kubeconfig, context)), output):
        raise typer.Exit(1)


def _show(found: Mapping[str, Any], output: ExplainFormat) -> bool:
    """Prints the explanation. Returns False if the object has no decision, which stderr then says."""
    status, metadata = found.get("status") or {}, found["metadata"]
    where = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
    if not status.get("decision"):
        typer.echo(
            f"fedhpa: {where} has no decision yet. Check that a controller is running and leads: "
            f"kubectl -n kube-system get lease",
            err=True,
        )
        return False
    typer.echo(render(status, where, output), nl=False)
    return True


def render(status: Mapping[str, Any], where: str, output: ExplainFormat) -> str:
    """Returns the decision of a status as JSON or YAML, or as text with the conditions."""
    from fedhpa.decision import read_status, to_text

    if output is ExplainFormat.JSON:
        return json.dumps(status["decision"], indent=2) + "\n"
    if output is ExplainFormat.YAML:
        from fedhpa.api.yaml import print_yaml

        return print_yaml([status["decision"]], sort_keys=False)
    decision = read_status(status).last_decision()
    assert decision is not None, "the caller checked status.decision"
    conditions = [
        f"  {condition.type}={condition.status} {condition.reason}: {condition.message}\n"
        for condition in decision.conditions
    ]
    return to_text(decision, where) + "conditions:\n" + "".join(conditions)


async def _watch(name: str, namespace: str, kubeconfig: str, context: str, output: ExplainFormat) -> None:
    """Prints the explanation whenever it changes; returns when the object was deleted."""
    from fedhpa.cli.follow import follow

    between = {ExplainFormat.TEXT: "\n", ExplainFormat.YAML: "---\n"}.get(output, "")
    shown = False

    def show(found: Mapping[str, Any]) -> None:
        nonlocal shown
        if shown:
            typer.echo(between, nl=False)
        shown = _show(found, output) or shown
        sys.stdout.flush()

    def warn(text: str) -> None:
        typer.echo(f"fedhpa: {text}", err=True)

    async with hub_client(kubeconfig, context) as (hub, default):
        chosen = namespace or default
        found: Mapping[str, Any] | None = await read_object(hub, chosen, name, named=bool(namespace))

        async def read() -> Mapping[str, Any] | None:
            nonlocal found
            known, found = found, None
            return known or await find_object(hub, chosen, name)

        await follow(read, show, warn)
    warn(f"{chosen}/{name} was deleted")


async def _read(name: str, namespace: str, kubeconfig: str, context: str) -> dict[str, Any]:
    async with hub_client(kubeconfig, context) as (hub, default):
        return await read_object(hub, namespace or default, name, named=bool(namespace))
