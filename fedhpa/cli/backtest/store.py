"""The flags of the metrics store, and the recording that is read from it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedhpa.api.errors import ApiError, ConfigError, InvalidObject
from fedhpa.cli.backtest.inputs import (
    PRICE_ANNOTATION,
    Subject,
    progress_bar,
    seconds_of,
    subject_of_file,
    subject_of_hub,
)
from fedhpa.cli.hub_client import hub_client, hub_error

if TYPE_CHECKING:
    from fedhpa.backtest import Recording
    from fedhpa.backtest.store import Recorded, Store
    from fedhpa.kube import ApiClient

MAX_DAYS = 90
# Replicas that cost more an hour are typing errors.
MAX_PRICE = 1e6

Days = Annotated[
    int, typer.Option("--days", help="Days to read from the metrics store.", min=1, max=MAX_DAYS)
]
Prometheus = Annotated[
    str,
    typer.Option(
        "--prometheus",
        metavar="URL",
        help="Base URL of the metrics store: Prometheus, Thanos or Mimir, as for "
        "the adapter's --metrics-store-url.",
    ),
]
MetricsRules = Annotated[
    str,
    typer.Option(
        "--metrics-rules",
        metavar="FILE",
        help="The adapter's rules file, which maps metrics to queries; if not set, CPU and memory as "
        "cAdvisor has them.",
    ),
]
Step = Annotated[str, typer.Option("--step", help="Time between two values of the recording, 5s to 1h.")]
StoreCa = Annotated[
    str,
    typer.Option("--metrics-store-ca-file", metavar="FILE", help="PEM file of CAs that verify the store."),
]
StoreToken = Annotated[
    str,
    typer.Option(
        "--metrics-store-token-file", metavar="FILE", help="File with the bearer token for the store."
    ),
]
StoreTenant = Annotated[
    str, typer.Option("--metrics-store-tenant", help="Tenant to send as the header X-Scope-OrgID (Mimir).")
]
StoreDeadline = Annotated[
    str, typer.Option("--metrics-store-deadline", help="Time for one query of the store.")
]

# The flags, in the order of `store_of`.
StoreFlags = tuple[int, str, str, str, str, str, str, str]


def store_of(
    days: int, url: str, rules_file: str, step: str, ca_file: str, token_file: str, tenant: str, deadline: str
) -> Store:
    """Returns the store that the flags name. Raises ConfigError that names the flag."""
    from fedhpa.backtest.store import Store
    from metrics_adapter.prometheus import Rules, read, read_rules
    from metrics_adapter.prometheus.access import StoreAccess

    seconds = seconds_of("--step", step) or 0.0
    if seconds < 5 or seconds != int(seconds):
        raise ConfigError(f"--step={step[:50]}: expected whole seconds from 5s to 1h")
    try:
        rules = read_rules(read(Path(rules_file))) if rules_file else Rules()
    except InvalidObject as error:
        raise ConfigError(f"--metrics-rules={rules_file}: {error}") from error
    try:
        access = StoreAccess(url, ca_file=ca_file, token_file=token_file, tenant=tenant)
        access.check()
    except ConfigError as error:
        raise ConfigError(str(error).replace("--metrics-store-url", "--prometheus")) from error
    return Store(access, rules, days, seconds, seconds_of("--metrics-store-deadline", deadline) or 30.0)


def recorded_days(
    target: str, file: str, hub: tuple[str, str, str], store: Store
) -> tuple[Recorded, Subject]:
    """Returns the recording of an object from the store, and the object.

    `hub` are namespace, kubeconfig and context.

    The object of the file is used in place of the stored one. Raises ConfigError.
    """
    namespace, kubeconfig, context = hub
    if not target and not file:
        raise ConfigError(
            "expected fhpa/NAME or --filename: the metrics of the object are read from the store"
        )
    stored, prices = None, None
    if target and not file:
        subject, prices = asyncio.run(_of_hub(target, namespace, kubeconfig, context))
        stored = subject.raw
    else:
        subject = subject_of_file(file, target, namespace, None)
    return record_from(store, subject.raw, stored, prices), subject


def record_from(
    store: Store, raw: Mapping[str, Any], stored: Mapping[str, Any] | None, prices: Mapping[str, float] | None
) -> Recorded:
    """Returns the recording with a progress bar. Raises ConfigError."""
    from fedhpa.backtest.store import record
    from fedhpa.kube import SYSTEM

    with progress_bar("reading the metrics store") as progress:
        return record(store, raw, SYSTEM.wall, stored=stored, prices=prices, progress=progress)


async def _of_hub(
    name: str, namespace: str, kubeconfig: str, context: str
) -> tuple[Subject, dict[str, float]]:
    async with hub_client(kubeconfig, context) as (hub, default):
        subject = await subject_of_hub(hub, namespace or default, name, named=bool(namespace))
        return subject, await prices_of(hub)


async def prices_of(hub: ApiClient) -> dict[str, float]:
    """Returns the prices that annotations of Clusters give. Raises ConfigError for one that is no price."""
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
        found[name_of(one)] = price
    return found


def name_of(raw: Mapping[str, Any]) -> str:
    """Returns the name of an object."""
    return str(raw["metadata"]["name"])


def noted(recorded: Recorded) -> Recording:
    """Prints the notes of a recording to standard error, and returns the recording."""
    for note in recorded.notes:
        typer.echo(f"note: {note}", err=True)
    return recorded.recording
