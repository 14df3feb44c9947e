"""`fedhpa record`: everything that a decision on one FederatedHPA is made from, as a scenario for replay."""

from __future__ import annotations

import asyncio
import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from fedhpa.api.errors import ConfigError
from fedhpa.cli.hub import (
    Context,
    Kubeconfig,
    MetricsVia,
    Namespace,
    Propagation,
    hub_client,
    parse_target,
    read_object,
)


class Output(StrEnum):
    """How the scenario is printed."""

    JSON = "json"
    YAML = "yaml"


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("record")(record)


def record(
    target: Annotated[str, typer.Argument(metavar="fhpa/NAME", help="The FederatedHPA.")],
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    propagation: Propagation = "",
    metrics_via: MetricsVia = "",
    file: Annotated[
        Path | None, typer.Option("-f", "--file", help="Where to write; default standard output.")
    ] = None,
    output: Annotated[Output, typer.Option("-o", "--output", help="json (one line) or yaml.")] = Output.JSON,
) -> None:
    """Write what a decision on a FederatedHPA is made from now: fedhpa record fhpa/web | fedhpa replay -"""
    flags = (propagation, metrics_via)
    scenario = asyncio.run(_gather(parse_target(target), namespace, kubeconfig, context, flags))
    text = _text(scenario, output)
    if file is None:
        sys.stdout.write(text)
        return
    try:
        file.write_text(text)
    except OSError as error:
        raise ConfigError(f"--file={file}: cannot be written: {error.strerror}") from error


def _text(scenario: dict[str, Any], output: Output) -> str:
    if output is Output.YAML:
        import yaml

        return str(yaml.safe_dump(scenario, sort_keys=False))
    return json.dumps(scenario, separators=(",", ":")) + "\n"


async def _gather(
    name: str, namespace: str, kubeconfig: str, context: str, flags: tuple[str, str]
) -> dict[str, Any]:
    from controller.federatedhpa.one_shot import one_shot_reader, settings_for

    async with hub_client(kubeconfig, context) as (hub, usual):
        raw = await read_object(hub, namespace or usual, name, named=bool(namespace))
        async with one_shot_reader(hub, settings_for(raw, *flags)) as reader:
            return (await reader.read(raw)).scenario()
