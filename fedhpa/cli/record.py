"""`fedhpa record` writes the input of a decision on one FederatedHPA as a scenario for `fedhpa replay`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fedhpa.api.errors import ConfigError
from fedhpa.cli.backtest.flags import MAX_DAYS, StoreFlags
from fedhpa.cli.backtest.inputs import recorded_days, store_of
from fedhpa.cli.backtest.output import write_file
from fedhpa.cli.hub_client import joined, parse_target, read_object
from fedhpa.cli.member_options import MemberFlags
from fedhpa.cli.options import HubFlags, MetricsVia, Name, Propagation, with_flags

if TYPE_CHECKING:
    from fedhpa.api.member_sources import MemberSources
    from fedhpa.backtest.store import Store
    from fedhpa.kube import ApiClient


RecordFormat = Literal["json", "yaml"]


@with_flags()
def record(
    hub: HubFlags,
    store: StoreFlags,
    members: MemberFlags,
    target: str,
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
    manifest: str = "",
    file: Path | None = None,
    output: RecordFormat = "json",
) -> None:
    """Record the current input of a decision on a FederatedHPA as a scenario, or with --days its last days.

    Examples: fedhpa record fhpa/web | fedhpa replay -; fedhpa record fhpa/web --days 7 --prometheus URL -f
    week.json.gz

    Options:
    target fhpa: The kind, then its name; or fhpa/NAME.
    --manifest FILE: With --days: YAML or JSON file with the FederatedHPA; then the hub is not asked.
    -f, --file: File to write; if not set, standard output.
    -o, --output: Output format; json is one line.
    """
    from fedhpa.api.yaml import print_yaml

    if bool(days) != bool(store.prometheus) or (manifest and not days):
        raise ConfigError("expected --days and --prometheus together; --manifest needs both")
    if days:
        name = parse_target(joined(target, name))
        _record_days(name, manifest, hub, store_of(days, store), file, output)
        return
    flags = (propagation, metrics_via, members.sources())
    name, named = parse_target(joined(target, name)), bool(hub.namespace)
    scenario = hub.run(lambda api, namespace: _gather(api, namespace, name, flags, named=named))
    if output == "yaml":
        text = print_yaml([scenario], sort_keys=False)
    else:
        text = json.dumps(scenario, separators=(",", ":")) + "\n"
    if file is None:
        sys.stdout.write(text)
    else:
        write_file(file, text.encode(), "--file")


def _record_days(
    name: str, manifest: str, hub: HubFlags, store: Store, file: Path | None, output: RecordFormat
) -> None:
    """Records days from a metrics store. The file is complete or not there."""
    from fedhpa.backtest import encode_recording

    if output != "json":
        raise ConfigError(f"--output={output}: a recording of days is JSON")
    recorded, _ = recorded_days(name, manifest, hub, store)
    content = encode_recording(recorded, compressed=file is not None and file.suffix == ".gz")
    if file is None:
        sys.stdout.buffer.write(content + b"\n")
        return
    write_file(file, content, "--file")


async def _gather(
    hub: ApiClient, namespace: str, name: str, flags: tuple[str, str, MemberSources], *, named: bool
) -> dict[str, Any]:
    from controller.federatedhpa import one_shot_reader, settings_for
    from fedhpa.kube import SYSTEM

    raw = await read_object(hub, namespace, name, named=named)
    settings = await settings_for(hub, raw, *flags)
    async with one_shot_reader(hub, settings, clock=SYSTEM) as reader:
        return (await reader.read(raw)).scenario()
