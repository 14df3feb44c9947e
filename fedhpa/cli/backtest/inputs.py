"""The inputs of the commands about backtests: the object, its rules, and the recording."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import typer

from fedhpa.api.errors import ApiError, ConfigError, InvalidObject
from fedhpa.cli.backtest.flags import Inputs, ModelFlags, StoreFlags
from fedhpa.cli.files import MAX_BYTES, read_file
from fedhpa.cli.hub_client import hub_client, hub_error, joined, parse_target, read_object
from fedhpa.cli.options import HubFlags, seconds_of
from fedhpa.cli.preview import CRON_FEDERATED_HPA, FEDERATED_HPA, admitted, read_objects

if TYPE_CHECKING:
    from fedhpa.backtest import Candidate, Options, Recording
    from fedhpa.backtest.result import Mark
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

    seconds = seconds_of("--step", flags.step, "30s", most=MAX_SECONDS)
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
    deadline = seconds_of("--metrics-store-deadline", flags.store_deadline, "30s", most=MAX_SECONDS)
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
    from fedhpa.cli.completion import CLUSTERS

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


PRICE_ANNOTATION: Final = "fedhpa.io/price-per-replica-hour"
DEFAULT_NAMESPACE: Final = "default"
MAX_SECONDS: Final = 3600.0


class Subject(NamedTuple):
    """A FederatedHPA as admission stores it, and the CronFederatedHPAs beside it."""

    raw: dict[str, Any]
    crons: tuple[dict[str, Any], ...] = ()


def read_recording(file: str) -> Recording:
    """Returns the recording in a file. Raises ConfigError that names the file and what is wrong in it."""
    from fedhpa.backtest.csv_file import decode_csv
    from fedhpa.backtest.recording import decode_recording, unpacked

    content = read_file(file, option="--recording", max_bytes=MAX_BYTES)
    place = f"--recording={file}"
    content = unpacked(content, place)
    if content.lstrip()[:1] == b"{":
        return decode_recording(content, place)
    return decode_csv(content, place)


def subject_of_file(file: str, name: str, namespace: str, recording: Recording | None) -> Subject:
    """Returns the FederatedHPA of a file, by name if it has several. Raises ConfigError."""
    objects = read_objects(file)
    found = [one for one in objects if one["kind"] == FEDERATED_HPA]
    if name:
        found = [one for one in found if one["metadata"]["name"] == name]
    if len(found) != 1:
        which = f" of the name {name}" if name else ""
        raise ConfigError(
            f"--filename={file}: expected one FederatedHPA{which}, got {len(found)}: name it as fhpa/NAME"
        )
    space = namespace or found[0]["metadata"].get("namespace") or (recording.namespace if recording else "")
    crons = [one for one in objects if one["kind"] == CRON_FEDERATED_HPA]
    raws = [_admitted(one, space or DEFAULT_NAMESPACE, f"--filename={file}") for one in (found[0], *crons)]
    return Subject(raws[0], tuple(raws[1:]))


def subject_of_recording(recording: Recording, file: str) -> Subject:
    """Returns the object that a recording holds. Raises ConfigError if it holds none."""
    if not recording.spec:
        raise ConfigError(
            f"--recording={file}: it holds no FederatedHPA: give one with --filename or as fhpa/NAME"
        )
    raw = {
        "apiVersion": "autoscaling.karmada.io/v1alpha1",
        "kind": FEDERATED_HPA,
        "metadata": {"name": recording.name, "namespace": recording.namespace},
        "spec": recording.spec,
    }
    return Subject(_admitted(raw, recording.namespace or DEFAULT_NAMESPACE, f"--recording={file}"))


async def subject_of_hub(hub: ApiClient, namespace: str, name: str, *, named: bool) -> Subject:
    """Returns a stored FederatedHPA and the CronFederatedHPAs of its namespace. Raises ConfigError."""
    from fedhpa.cli.cron.preview import list_crons

    raw = await read_object(hub, namespace, name, named=named)
    try:
        crons = await list_crons(hub, namespace)
    except ApiError as error:
        raise hub_error(f"cannot list CronFederatedHPAs in namespace {namespace}", error) from error
    return Subject(raw, tuple(crons.values()))


def _admitted(raw: Mapping[str, Any], namespace: str, place: str) -> dict[str, Any]:
    """Returns an object as it would be stored. Raises ConfigError if admission would refuse it."""
    metadata = {"namespace": namespace, **raw["metadata"]}
    refusal, _, stored = admitted(raw["kind"], {**raw, "metadata": metadata})
    if refusal:
        raise ConfigError(f"{place}: {raw['kind']} {metadata['name']} would be refused: {refusal}")
    return stored


def candidates_of(
    subject: Subject, variants: list[str], recording: Recording
) -> tuple[list[Candidate], list[Mark]]:
    """Returns the object and its variants with the bounds that rules set, and the marks of the rules.

    A variant that is equal to an earlier object is left out.
    """
    from fedhpa.backtest import PRESENT, Candidate, parse_variants, variant_name, varied

    candidates = [Candidate(PRESENT, subject.raw)]
    for variant in parse_variants(variants):
        name = variant_name(variant)
        raw = _admitted(varied(subject.raw, variant), DEFAULT_NAMESPACE, f"--vary {name}")
        if all(raw["spec"] != one.raw["spec"] for one in candidates):
            candidates.append(Candidate(name, raw))
    return with_rules(candidates, subject, recording)


def with_rules(
    candidates: list[Candidate], subject: Subject, recording: Recording
) -> tuple[list[Candidate], list[Mark]]:
    """Returns objects with the bounds that rules set on them, and the marks of the first one's rules."""
    from fedhpa.backtest.rules import rules_of

    async def found() -> tuple[list[Candidate], list[Mark]]:
        planned = [await rules_of(subject.crons, one.raw, recording) for one in candidates]
        bound = [
            one._replace(bounds=tuple(bounds)) for one, (bounds, _) in zip(candidates, planned, strict=True)
        ]
        return bound, planned[0][1]

    return asyncio.run(found()) if subject.crons else (candidates, [])


def options_of(flags: ModelFlags) -> Options:
    """Returns the options of the model. Raises ConfigError that names the flag."""
    from fedhpa.api.quantity import parse_milli
    from fedhpa.backtest import SHARED, TIED, Options

    if flags.traffic not in (SHARED, TIED):
        raise ConfigError(f"--traffic={flags.traffic[:50]}: expected {SHARED} or {TIED}")
    limit, text = None, flags.pod_limit
    if text:
        try:
            limit = parse_milli(text)
        except InvalidObject as error:
            raise ConfigError(f"--pod-limit={text[:50]}: expected a quantity such as 500m") from error
        if limit <= 0:
            raise ConfigError(f"--pod-limit={text[:50]}: expected more than 0")
    return Options(
        traffic=flags.traffic,
        pod_start=_optional("--pod-start", flags.pod_start),
        metrics_age=_optional("--metrics-age", flags.metrics_age),
        pod_limit=limit,
        carry_over=flags.carry_over,
    )


def _optional(option: str, text: str) -> float | None:
    return seconds_of(option, text, "30s", zero=True, most=MAX_SECONDS) if text else None


def part_of(option: str, text: str) -> float:
    """Returns a percentage as a part, 0 to 1. Raises ConfigError that names the option."""
    try:
        part = float(text.strip().removesuffix("%")) / 100
    except ValueError:
        part = -1.0
    if not 0 <= part <= 1:
        raise ConfigError(f"{option}={text[:50]}: expected a percentage such as 0.1%")
    return part


@contextmanager
def progress_bar(title: str) -> Iterator[Any]:
    """Yields a function that shows the part that is done, 0 to 1, as a bar if stderr is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=1.0)
        yield lambda part: bar.update(task, completed=part)
