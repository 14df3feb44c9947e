"""`fedhpa explain`: why a FederatedHPA has its size, from its status; the right to get it is enough."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import typer

from fedhpa.cli.hub import Context, Kubeconfig, Namespace, hub_client, parse_target, read_object


class Output(StrEnum):
    """How the decision is printed."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("explain")(explain)


def explain(
    target: str = typer.Argument(..., metavar="fhpa/NAME", help="The FederatedHPA."),
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    output: Output = typer.Option(Output.TEXT, "-o", "--output", help="text, json or yaml."),
) -> None:
    """Say why a FederatedHPA has the size it has, and what would have to change for it to move."""
    name = parse_target(target)
    found = asyncio.run(_read(name, namespace, kubeconfig, context))
    status = found.get("status") or {}
    where = f"{found['metadata'].get('namespace', '')}/{name}"
    if not status.get("decision"):
        typer.echo(
            f"fedhpa: {where} has no decision yet: is a controller running, and the leader? "
            f"See 'kubectl -n kube-system get lease'",
            err=True,
        )
        raise typer.Exit(1)
    typer.echo(render(status, where, output), nl=False)


def render(status: Mapping[str, Any], where: str, output: Output) -> str:
    """The decision and conditions of a status, as text for people or as data."""
    from fedhpa.decision import read_status, to_text

    if output is Output.JSON:
        return json.dumps(status["decision"], indent=2) + "\n"
    if output is Output.YAML:
        import yaml

        return str(yaml.safe_dump(status["decision"], sort_keys=False))
    decision = read_status(status).last_decision()
    assert decision is not None, "the caller looked"
    conditions = [
        f"  {condition.type}={condition.status} {condition.reason}: {condition.message}\n"
        for condition in decision.conditions
    ]
    return to_text(decision, where) + "conditions:\n" + "".join(conditions)


async def _read(name: str, namespace: str, kubeconfig: str, context: str) -> dict[str, Any]:
    async with hub_client(kubeconfig, context) as (hub, usual):
        return await read_object(hub, namespace or usual, name, named=bool(namespace))
