"""A recording: what one workload used and ran in each cluster, by step, and its file.

A file has JSON, which may be compressed with gzip, or CSV (`fedhpa.backtest.csv_file`). The numbers come from
outside, so all of them are bounded.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec

from fedhpa.api.errors import ConfigError
from fedhpa.api.json import InvalidJson, decode_json
from fedhpa.api.names import dns_subdomain
from fedhpa.decision import ScalingSpec
from fedhpa.metric_types.metric import USAGE_API, ScalingMetric

VERSION: Final = 1
# A recording of four weeks over 50 clusters in steps of 30 s has 16 million values.
MAX_VALUES: Final = 20_000_000
MAX_BYTES: Final = 256 * 1024 * 1024
MAX_CLUSTERS: Final = 1_000
MAX_STEPS: Final = 500_000
MAX_METRICS: Final = 32
MAX_STEP_SECONDS: Final = 3600.0
# Replicas that cost more an hour are typing errors.
MAX_PRICE: Final = 1e6
DAY_SECONDS: Final = 86_400
MILLI: Final = 1000

Amount = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Amounts = list[Amount | None]


class ClusterSeries(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One cluster by step; None is a gap.

    `demand` has the total of each metric over the pods of the workload, `request` and `limit` those of one
    pod, all in milli-units by `metric_key`. `price` is that of a replica for an hour.
    """

    name: str
    replicas: list[Count | None]
    ready: list[Count | None]
    demand: dict[str, Amounts]
    request: dict[str, Amounts] = {}
    limit: dict[str, Amounts] = {}
    price: Annotated[float, msgspec.Meta(ge=0, le=MAX_PRICE)] | None = None

    def has(self, step: int) -> bool:
        """True if the cluster answered in a step."""
        return self.ready[step] is not None and self.replicas[step] is not None

    def mapped(self, change: Callable[[Sequence[int | None]], Amounts]) -> ClusterSeries:
        """Returns the cluster with each series changed."""
        fields: dict[str, Any] = {name: change(getattr(self, name)) for name in ("replicas", "ready")}
        for name in ("demand", "request", "limit"):
            fields[name] = {key: change(values) for key, values in getattr(self, name).items()}
        return msgspec.structs.replace(self, **fields)

    def series(self) -> Iterator[tuple[str, list[Any]]]:
        """Yields the path and the values of each series."""
        yield "replicas", self.replicas
        yield "ready", self.ready
        for field in ("demand", "request", "limit"):
            for key, values in getattr(self, field).items():
                yield f"{field}.{key}", values


class Recording(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """The recording of one workload. Step i begins at `start` + i * `step` (Unix seconds).

    `spec` are the fields of the FederatedHPA that was in force, as far as the size depends on them, without
    selectors; empty if that is unknown.
    """

    version: int = 0
    namespace: str = ""
    name: str = ""
    start: float
    step: Annotated[float, msgspec.Meta(gt=0, le=MAX_STEP_SECONDS)]
    clusters: list[ClusterSeries]
    spec: dict[str, Any] = {}

    @property
    def steps(self) -> int:
        """The number of steps."""
        return len(self.clusters[0].ready)

    @property
    def end(self) -> float:
        """The end of the last step, in Unix seconds."""
        return self.start + self.steps * self.step

    def between(self, first: int, last: int) -> Recording:
        """Returns the steps from `first` up to `last`, which is not part of it."""
        start = self.start + first * self.step
        clusters = [one.mapped(lambda values: [*values[first:last]]) for one in self.clusters]
        return msgspec.structs.replace(self, start=start, clusters=clusters)

    def times(self, factor: float, steps: Container[int] | None = None) -> Recording:
        """Returns the recording with the demand of some steps multiplied, or that of all."""

        def higher(values: Amounts) -> Amounts:
            return [
                value if value is None or (steps is not None and step not in steps) else round(value * factor)
                for step, value in enumerate(values)
            ]

        clusters = [
            msgspec.structs.replace(one, demand={key: higher(values) for key, values in one.demand.items()})
            for one in self.clusters
        ]
        return msgspec.structs.replace(self, clusters=clusters)


def metric_key(metric: ScalingMetric) -> str:
    """Returns the name of a metric in a recording: `cpu` of whole pods, else `type/name`."""
    if metric.metric_type.api != USAGE_API:
        return f"{metric.type.lower()}/{metric.name}"
    return f"{metric.container}/{metric.name}" if metric.container else metric.name


def metric_keys(spec: ScalingSpec) -> list[str]:
    """Returns the names of the metrics of an object, in their order.

    Two metrics that differ only in their selectors are told apart by their number.
    """
    found: list[str] = []
    for index, metric in enumerate(spec.metrics):
        key = metric_key(metric)
        found.append(f"{key}#{index + 1}" if key in found else key)
    return found


def encode_recording(recording: Recording, *, compressed: bool) -> bytes:
    """Returns the content of a file. The same recording always gives the same bytes."""
    data = msgspec.json.encode(recording)
    return gzip.compress(data, 9, mtime=0) if compressed else data


def decode_recording(content: bytes, place: str) -> Recording:
    """Returns the recording in a file, compressed or not. Raises ConfigError that begins with `place`."""
    try:
        recording = decode_json(unpacked(content, place), Recording, max_values=MAX_VALUES)
    except InvalidJson as error:
        raise ConfigError(f"{place}: it is no recording: {error}") from error
    if recording.version != VERSION:
        raise ConfigError(f"{place}: version is {recording.version}, expected {VERSION}")
    check(recording, place)
    return recording


def unpacked(content: bytes, place: str) -> bytes:
    """Returns the content of a file, unpacked if it is compressed. Raises ConfigError."""
    if not content.startswith(b"\x1f\x8b"):
        return content
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as stream:
            data = stream.read(MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError(f"{place}: it cannot be unpacked: {error}") from error
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{place}: it has more than {MAX_BYTES} bytes unpacked: record fewer days")
    return data


def check(recording: Recording, place: str) -> None:
    """Raises ConfigError that names the field if the recording contradicts itself."""
    for problem in _problems(recording):
        raise ConfigError(f"{place}: {problem}")


def _problems(recording: Recording) -> Iterator[str]:
    clusters = recording.clusters
    if not 0 < len(clusters) <= MAX_CLUSTERS:
        yield f"clusters: expected 1 to {MAX_CLUSTERS}, got {len(clusters)}"
        return
    if not 0 < recording.steps <= MAX_STEPS:
        yield f"clusters[0].ready: expected 1 to {MAX_STEPS} steps, got {recording.steps}"
    if not 0 <= recording.start < 3.2e10:
        yield "start: expected Unix seconds"
    names = [one.name for one in clusters]
    for index, one in enumerate(clusters):
        if dns_subdomain(one.name):
            yield f"clusters[{index}].name: expected the name of a Cluster"
        if one.name in names[:index]:
            yield f"clusters[{index}].name: {one.name} stands there twice"
        if len(one.demand) > MAX_METRICS:
            yield f"clusters[{index}].demand: expected at most {MAX_METRICS} metrics, got {len(one.demand)}"
        for path, values in one.series():
            if len(values) != recording.steps:
                yield (
                    f"clusters[{index}].{path}: expected {recording.steps} steps as in clusters[0].ready, "
                    f"got {len(values)}"
                )
    if not any(one.has(step) for one in clusters for step in range(recording.steps)):
        yield "clusters: no step has replicas and ready pods"


# Fields of a spec on which the size depends, as far as they name nothing but the workload.
_FIELDS: Final = (
    "scaleTargetRef",
    "minReplicas",
    "maxReplicas",
    "federatedMinReplicas",
    "federatedMaxReplicas",
    "behavior",
    "mode",
    "syncPeriodSeconds",
)


def recorded_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the part of a FederatedHPA's spec that a recording keeps: nothing that selects by labels."""
    found = {field: spec[field] for field in _FIELDS if field in spec}
    if spec.get("metrics"):
        found["metrics"] = [_without_selectors(metric) for metric in spec["metrics"]]
    return found


def _without_selectors(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_selectors(one) for key, one in value.items() if key != "selector"}
    if isinstance(value, list):
        return [_without_selectors(one) for one in value]
    return value


def known(values: Iterable[int | None]) -> list[int]:
    """Returns the values without the gaps."""
    return [value for value in values if value is not None]
