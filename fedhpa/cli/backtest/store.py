"""The recording and the object that the flags name, from files, a metrics store and the hub."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from fedhpa.api.errors import ApiError, ConfigError, InvalidObject
from fedhpa.cli.backtest.flags import Inputs, StoreFlags
from fedhpa.cli.backtest.inputs import (
    PRICE_ANNOTATION,
    Subject,
    progress_bar,
    read_recording,
    seconds_of,
    subject_of_file,
    subject_of_hub,
    subject_of_recording,
)
from fedhpa.cli.hub_client import hub_client, hub_error, joined, parse_target
from fedhpa.cli.options import HubFlags

if TYPE_CHECKING:
    from fedhpa.backtest import Recording
    from fedhpa.backtest.store import Store
    from fedhpa.kube import ApiClient


def gathered(inputs: Inputs) -> tuple[Recording, Subject]:
    """Returns the recording, from a file or a metrics store, and the object. Raises ConfigError.

    The object is that of the file, else the stored one, else that of the recording.
    """
    target = parse_target(joined(inputs.target, inputs.name)) if inputs.target else ""
    if bool(inputs.recording) == bool(inputs.store.prometheus):
        raise ConfigError("expected either --recording or --prometheus")
    if not inputs.recording:
        return recorded_days(target, inputs.file, inputs.hub, store_of(inputs.days, inputs.store))
    found = read_recording(inputs.recording)
    if inputs.file:
        return found, subject_of_file(inputs.file, target, inputs.hub.namespace, found)
    if target:
        return found, asyncio.run(_of_hub(target, inputs.hub, with_prices=False))[0]
    return found, subject_of_recording(found, inputs.recording)


def store_of(days: int, flags: StoreFlags) -> Store:
    """Returns the store that the flags name. Raises ConfigError that names the flag."""
    from fedhpa.backtest.store import Store
    from metrics_adapter.prometheus import Rules, read, read_rules
    from metrics_adapter.prometheus.access import StoreAccess

    seconds = seconds_of("--step", flags.step) or 0.0
    if seconds < 5 or seconds != int(seconds):
        raise ConfigError(f"--step={flags.step[:50]}: expected whole seconds from 5s to 1h")
    try:
        rules = read_rules(read(Path(flags.metrics_rules))) if flags.metrics_rules else Rules()
    except InvalidObject as error:
        raise ConfigError(f"--metrics-rules={flags.metrics_rules}: {error}") from error
    try:
        access = StoreAccess(
            flags.prometheus,
            ca_file=flags.store_ca,
            token_file=flags.store_token,
            tenant=flags.store_tenant,
        )
        access.check()
    except ConfigError as error:
        raise ConfigError(str(error).replace("--metrics-store-url", "--prometheus")) from error
    deadline = seconds_of("--metrics-store-deadline", flags.store_deadline) or 30.0
    return Store(access, rules, days, seconds, deadline)


def recorded_days(target: str, file: str, hub: HubFlags, store: Store) -> tuple[Recording, Subject]:
    """Returns the recording of an object from the store, and the object. Raises ConfigError.

    The object of the file is used in place of the stored one. Notes go to standard error.
    """
    from fedhpa.backtest.store import record
    from fedhpa.kube import SYSTEM

    stored, prices = None, None
    if file:
        subject = subject_of_file(file, target, hub.namespace, None)
    elif target:
        subject, prices = asyncio.run(_of_hub(target, hub, with_prices=True))
        stored = subject.raw
    else:
        raise ConfigError(
            "expected fhpa/NAME or --filename: the metrics of the object are read from the store"
        )
    with progress_bar("reading the metrics store") as progress:
        found = record(store, subject.raw, SYSTEM.wall, stored=stored, prices=prices, progress=progress)
    for note in found.notes:
        typer.echo(f"note: {note}", err=True)
    return found.recording, subject


async def _of_hub(name: str, flags: HubFlags, *, with_prices: bool) -> tuple[Subject, dict[str, float]]:
    async with hub_client(flags.kubeconfig, flags.context) as (hub, default):
        namespace = flags.namespace or default
        subject = await subject_of_hub(hub, namespace, name, named=bool(flags.namespace))
        return subject, await prices_of(hub) if with_prices else {}


async def prices_of(hub: ApiClient) -> dict[str, float]:
    """Returns the prices that annotations of Clusters give. Raises ConfigError for one that is no price."""
    from fedhpa.backtest.recording import MAX_PRICE
    from fedhpa.cli.suggestions import CLUSTERS

    try:
        clusters = (await hub.list(CLUSTERS, dict[str, Any])).items
    except ApiError as error:
        raise hub_error("cannot list Clusters, whose annotations have prices", error) from error
    found = {}
    for one in clusters:
        text = (one["metadata"].get("annotations") or {}).get(PRICE_ANNOTATION)
        if text is None:
            continue
        try:
            price = float(text)
        except (TypeError, ValueError):
            price = -1.0
        if not 0 <= price <= MAX_PRICE:
            name = one["metadata"]["name"]
            raise ConfigError(
                f"Cluster {name}: annotation {PRICE_ANNOTATION}: expected a number, got {str(text)[:50]!r}"
            )
        found[str(one["metadata"]["name"])] = price
    return found
