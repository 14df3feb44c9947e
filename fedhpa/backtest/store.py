"""A recording read from a metrics store: Prometheus, Thanos or Mimir."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from fedhpa.api.errors import ConfigError, InvalidObject, MetricsUnavailable
from fedhpa.api.times import format_duration, format_time
from fedhpa.backtest.queries import Query, WorkloadQueries
from fedhpa.backtest.recording import (
    DAY_SECONDS,
    MAX_STEPS,
    MILLI,
    VERSION,
    Amounts,
    ClusterSeries,
    Recording,
    check,
    metric_keys,
    recorded_spec,
)
from metrics_adapter.prometheus import Rules
from metrics_adapter.prometheus.access import StoreAccess
from metrics_adapter.prometheus.ranges import ClusterValues, RangeReader

# A gap at the beginning that is longer tells of a store that keeps less.
_SHORT_SECONDS: Final = 3600.0


class Store(NamedTuple):
    """A metrics store, the rules for it, and the days to read. Times are seconds."""

    access: StoreAccess
    rules: Rules
    days: int
    step: float
    deadline: float


class Recorded(NamedTuple):
    """A recording, and what the reader must know of it."""

    recording: Recording
    notes: tuple[str, ...]


def record(
    store: Store,
    raw: Mapping[str, Any],
    wall: Callable[[], float],
    *,
    stored: Mapping[str, Any] | None = None,
    prices: Mapping[str, float] | None = None,
    progress: Callable[[float], None] = lambda _: None,
) -> Recorded:
    """Returns the recording of the workload of a FederatedHPA until now.

    `stored` is the object that was in force, None if it is unknown. `prices` are those of a replica for an
    hour by cluster. Raises ConfigError that says what to do.
    """
    steps = round(store.days * DAY_SECONDS / store.step)
    if steps > MAX_STEPS:
        raise ConfigError(
            f"--days={store.days}: {steps} steps, expected at most {MAX_STEPS}: use a longer --step"
        )
    end = wall() // store.step * store.step
    queries = WorkloadQueries(raw, store.rules)
    wanted = list(_wanted(queries))
    done = [0]

    def count() -> None:
        progress(min(done[0] / (len(wanted) * reader.pieces), 1.0))
        done[0] += 1

    reader = RangeReader(
        store.access,
        start=end - (steps - 1) * store.step,
        step=store.step,
        steps=steps,
        default=store.rules.default_cluster,
        deadline=store.deadline,
        wall=wall,
        on_query=count,
    )
    found = {name: _read(reader, query, store) for name, query in wanted}
    if not any(found[name] for name in found if name.startswith("demand.")):
        raise ConfigError(
            f"the metrics store has nothing of {queries.namespace}/{raw['metadata']['name']} within "
            f"{store.days} days: check that series have the label {store.rules.cluster_label} (or set "
            "defaultCluster in --metrics-rules), and the namespace; the query was: " + wanted[0][1].text
        )
    notes = [f"the metrics store warns: {text}" for text in reader.warnings]
    if not found["replicas"] or not found["ready"]:
        counted = queries.counted_pods()
        if counted is None:
            raise ConfigError(
                "the metrics store has no series of kube-state-metrics for the workload: collect "
                f"them, the query was: {wanted[0][1].text}"
            )
        notes.append("kube-state-metrics has nothing of the workload, so its pods with a usage are counted")
        found["replicas"] = found["ready"] = _read(reader, counted, store)
    recording = _recording(found, raw, queries, end - (steps - 1) * store.step, store.step, steps, prices)
    if stored is not None:
        recording = msgspec.structs.replace(recording, spec=recorded_spec(stored.get("spec") or {}))
    recording, short = _trimmed(recording, store)
    check(recording, "the metrics store")
    return Recorded(recording, (*notes, *short))


def _wanted(queries: WorkloadQueries) -> Iterator[tuple[str, Query]]:
    """Yields the queries by the series of a cluster that they fill."""
    replicas, ready = queries.sizes()
    for key, metric in zip(metric_keys(queries.spec), queries.spec.metrics, strict=True):
        yield f"demand.{key}", queries.demand(metric)
        for field in ("request", "limit"):
            query = queries.of_pod(metric, f"{field}s")
            if query is not None:
                yield f"{field}.{key}", query
    yield "replicas", replicas
    yield "ready", ready


def _read(reader: RangeReader, query: Query, store: Store) -> ClusterValues:
    try:
        return reader.read(query.text, query.label)
    except (MetricsUnavailable, InvalidObject) as error:
        text = str(error)
        remedy = "check --prometheus and that the store is up"
        if "HTTP 401" in text or "HTTP 403" in text:
            remedy = (
                "ask for the right to query it, and check --metrics-store-token-file and "
                "--metrics-store-tenant"
            )
        elif "HTTP 404" in text:
            remedy = "check --prometheus: expected the URL up to the part before /api/v1"
        elif "no answer within" in text:
            remedy = "use fewer --days, a longer --step or a longer --metrics-store-deadline"
        elif "HTTP 4" in text:
            remedy = f"check the rules; the query was: {query.text}"
        raise ConfigError(f"cannot read the metrics store {store.access.url}: {text}: {remedy}") from error


def _recording(
    found: Mapping[str, ClusterValues],
    raw: Mapping[str, Any],
    queries: WorkloadQueries,
    start: float,
    step: float,
    steps: int,
    prices: Mapping[str, float] | None,
) -> Recording:
    names = sorted({name for values in found.values() for name in values})
    gap: list[float | None] = [None] * steps

    def amounts(name: str, cluster: str, factor: int = MILLI) -> Amounts:
        values = found.get(name, {}).get(cluster, gap)
        return [None if value is None else round(value * factor) for value in values]

    clusters = []
    for cluster in names:
        demand, request, limit = (
            {
                name.removeprefix(field): amounts(name, cluster)
                for name in found
                if name.startswith(field) and cluster in found[name]
            }
            for field in ("demand.", "request.", "limit.")
        )
        replicas, ready = (amounts(name, cluster, 1) for name in ("replicas", "ready"))
        price = (prices or {}).get(cluster)
        clusters.append(ClusterSeries(cluster, replicas, ready, demand, request, limit, price))
    name = str(raw["metadata"]["name"])
    return Recording(
        version=VERSION, namespace=queries.namespace, name=name, start=start, step=step, clusters=clusters
    )


def _trimmed(recording: Recording, store: Store) -> tuple[Recording, list[str]]:
    """Returns the recording from its first to its last data, and notes about what is left out."""
    there = [step for step in range(recording.steps) if any(one.has(step) for one in recording.clusters)]
    if not there:
        raise ConfigError(
            "the metrics store has values of the metric, but no replicas with ready pods at the same "
            "time: check that "
            f"series of kube-state-metrics have the label {store.rules.cluster_label}"
        )
    first, last = there[0], there[-1] + 1
    lacking = first * recording.step
    notes = []
    if lacking >= _SHORT_SECONDS:
        notes.append(
            f"the metrics store has data from {format_time(recording.start + lacking)} on: "
            f"{format_duration(float(round((last - first) * recording.step)))} instead of {store.days} days; "
            "it keeps less, or the workload is younger"
        )
    return recording.between(first, last), notes
