"""`fedhpa record` writes the input of a decision on one FederatedHPA as a scenario for `fedhpa replay`."""

from __future__ import annotations

import asyncio
import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedhpa.api.errors import ConfigError
from fedhpa.cli import suggestions
from fedhpa.cli.backtest.flags import MAX_DAYS, StoreFlags
from fedhpa.cli.backtest.output import write_file
from fedhpa.cli.backtest.store import recorded_days, store_of
from fedhpa.cli.hub_client import hub_client, joined, parse_target, read_object
from fedhpa.cli.member_options import MemberFlags
from fedhpa.cli.options import HubFlags, MetricsVia, Name, Propagation, with_flags

if TYPE_CHECKING:
    from fedhpa.api.member_sources import MemberSources
    from fedhpa.backtest.store import Store


class RecordFormat(StrEnum):
    """The output formats of `fedhpa record`."""

    JSON = "json"
    YAML = "yaml"


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("record")(record)


@with_flags()
def record(
    hub: HubFlags,
    store: StoreFlags,
    target: Annotated[
        str,
        typer.Argument(
            metavar="fhpa", help="The kind, then its name; or fhpa/NAME.", autocompletion=suggestions.objects
        ),
    ],
    name: Name = "",
    propagation: Propagation = "",
    metrics_via: MetricsVia = "",
    days: Annotated[
        int,
        typer.Option(
            "--days",
            help="Record so many days for fedhpa backtest from the metrics store of --prometheus, in "
            "place of one decision; the file is compressed if its name ends with .gz.",
            min=0,
            max=MAX_DAYS,
        ),
    ] = 0,
    manifest: Annotated[
        str,
        typer.Option(
            "--manifest",
            metavar="FILE",
            help="With --days: YAML or JSON file with the FederatedHPA; then the hub is not asked.",
        ),
    ] = "",
    file: Annotated[
        Path | None, typer.Option("-f", "--file", help="File to write; if not set, standard output.")
    ] = None,
    output: Annotated[
        RecordFormat, typer.Option("-o", "--output", help="Output format; json is one line.")
    ] = RecordFormat.JSON,
    *,
    members: MemberFlags,
) -> None:
    """Record the current input of a decision on a FederatedHPA as a scenario, or with --days its last days.

    Examples: fedhpa record fhpa/web | fedhpa replay -; fedhpa record fhpa/web --days 7 --prometheus URL -f
    week.json.gz
    """
    if bool(days) != bool(store.prometheus) or (manifest and not days):
        raise ConfigError("expected --days and --prometheus together; --manifest needs both")
    if days:
        name = parse_target(joined(target, name))
        _record_days(name, manifest, hub, store_of(days, store), file, output)
        return
    flags = (propagation, metrics_via, members.sources())
    scenario = asyncio.run(_gather(parse_target(joined(target, name)), hub, flags))
    text = _text(scenario, output)
    if file is None:
        sys.stdout.write(text)
        return
    try:
        file.write_text(text)
    except OSError as error:
        raise ConfigError(f"--file={file}: cannot be written: {error.strerror}") from error


def _record_days(
    name: str, manifest: str, hub: HubFlags, store: Store, file: Path | None, output: RecordFormat
) -> None:
    """Records days from a metrics store. The file is complete or not there."""
    from fedhpa.backtest import encode_recording

    if output is not RecordFormat.JSON:
        raise ConfigError(f"--output={output}: a recording of days is JSON")
    recorded, _ = recorded_days(name, manifest, hub, store)
    content = encode_recording(recorded, compressed=file is not None and file.suffix == ".gz")
    if file is None:
        sys.stdout.buffer.write(content + b"\n")
        return
    write_file(file, content, "--file")


def _text(scenario: dict[str, Any], output: RecordFormat) -> str:
    if output is RecordFormat.YAML:
        from fedhpa.api.yaml import print_yaml

        return print_yaml([scenario], sort_keys=False)
    return json.dumps(scenario, separators=(",", ":")) + "\n"


async def _gather(name: str, hub_flags: HubFlags, flags: tuple[str, str, MemberSources]) -> dict[str, Any]:
    from controller.federatedhpa import one_shot_reader, settings_for
    from fedhpa.kube import SYSTEM

    async with hub_client(hub_flags.kubeconfig, hub_flags.context) as (hub, default):
        namespace = hub_flags.namespace
        raw = await read_object(hub, namespace or default, name, named=bool(namespace))
        settings = await settings_for(hub, raw, *flags)
        async with one_shot_reader(hub, settings, clock=SYSTEM) as reader:
            return (await reader.read(raw)).scenario()
