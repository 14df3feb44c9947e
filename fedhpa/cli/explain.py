"""`fedhpa explain`: why a FederatedHPA has its size, from its status; the right to get it is enough."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import typer

from fedhpa.api.errors import ApiError, ConfigError

KINDS = ("fhpa", "federatedhpa", "federatedhpas", "federatedhpa.autoscaling.karmada.io")
API_VERSION = "autoscaling.karmada.io/v1alpha1"
DEADLINE_SECONDS = 10.0


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
    namespace: str = typer.Option("", "-n", "--namespace", help="Its namespace; default the context's."),
    kubeconfig: str = typer.Option("", "--kubeconfig", help="The hub's kubeconfig."),
    context: str = typer.Option("", "--context", help="A context of the kubeconfig."),
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


def parse_target(text: str) -> str:
    """The name in `fhpa/NAME` or NAME. ConfigError for another kind."""
    kind, separator, name = text.rpartition("/")
    if not name or (separator and kind.lower() not in KINDS):
        raise ConfigError(f"{text!r}: expected fhpa/NAME")
    return name


def render(status: Mapping[str, Any], where: str, output: Output) -> str:
    """The decision and conditions of a status, as text for people or as data."""
    from fedhpa.decision.render_text import to_text
    from fedhpa.decision.stored import stored_decision

    if output is Output.JSON:
        return json.dumps(status["decision"], indent=2) + "\n"
    if output is Output.YAML:
        import yaml

        return str(yaml.safe_dump(status["decision"], sort_keys=False))
    decision = stored_decision(status)
    assert decision is not None, "the caller looked"
    conditions = [
        f"  {condition.type}={condition.status} {condition.reason}: {condition.message}\n"
        for condition in decision.conditions
    ]
    return to_text(decision, where) + "conditions:\n" + "".join(conditions)


async def _read(name: str, namespace: str, kubeconfig: str, context: str) -> dict[str, Any]:
    from fedhpa.kube.client import ApiClient
    from fedhpa.kube.config import load_config
    from fedhpa.kube.paths import resource_path
    from fedhpa.kube.responses import NOT_FOUND

    config = await load_config(kubeconfig or None, context or None)
    where = namespace or config.namespace
    async with ApiClient(config) as hub:
        try:
            return await hub.get_json(
                resource_path(API_VERSION, "federatedhpas", where, name), deadline=DEADLINE_SECONDS
            )
        except ApiError as error:
            hint = ": name its namespace with -n" if error.status == NOT_FOUND and not namespace else ""
            raise ConfigError(f"cannot read FederatedHPA {where}/{name}: {error}{hint}") from error
