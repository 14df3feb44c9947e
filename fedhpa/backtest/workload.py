"""The workload: pods in each cluster serve the recorded demand, and metrics APIs report their usage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from fedhpa.backtest.model import TIED, Model, Target, follows_pods, target_of
from fedhpa.backtest.pods import SELECTOR, Pods, Sample, Samples
from fedhpa.backtest.recording import Amounts, ClusterSeries, Recording, metric_keys
from fedhpa.decision import ClusterScale, ClusterSnapshot, MemoryState, ScalingSpec
from fedhpa.metric_types.metric import CUSTOM_API, EXTERNAL_API, USAGE_API, ScalingMetric
from fedhpa.scaling import ContainerUsage, CustomSample, ExternalSample, PodRequests, UsageRecord

AWAY: Final = "the recording has nothing of this cluster"


class Served(msgspec.Struct, frozen=True):
    """One moment over all clusters with data. Amounts are milli-units, None where nothing is known.

    `capacity` is what the ready pods serve at target. `usage` is usage divided by target. `unserved` is the
    demand above what the ready pods could serve.
    """

    demand: float | None = None
    capacity: float | None = None
    usage: float | None = None
    unserved: float | None = None


def served_by(target: Target, ready: int, demand: float, usage: float, unserved: float) -> Served:
    """Returns what so many ready pods serve of a demand."""
    capacity = None if target.of_pod is None else float(target.of_pod * ready)
    at_target = capacity if target.whole is None else float(target.whole)
    return Served(demand, capacity, usage / at_target if at_target else None, unserved)


class Place:
    """One cluster: its series, and once it has data its pods with their samples.

    `here` is True while the recording has data of it. `since` is the first step with data: before, the
    cluster was not registered.
    """

    def __init__(self, series: ClusterSeries, keys: Sequence[str]) -> None:
        self.series, self.name = series, series.name
        self.demands: tuple[Amounts | None, ...] = tuple([series.demand.get(key) for key in keys])
        steps = range(len(series.ready))
        self.since = next((step for step in steps if series.has(step)), len(steps))
        self.here = False
        self.pods: Pods | None = None
        self.samples: Samples | None = None

    @property
    def ready(self) -> int:
        """The number of its ready pods."""
        return 0 if self.pods is None else self.pods.ready

    @property
    def replicas(self) -> int:
        """The number of its replicas."""
        return 0 if self.pods is None else self.pods.count

    def demand(self, metric: int, step: int) -> int | None:
        """Returns the recorded total of a metric in milli-units; None in a gap."""
        values = self.demands[metric]
        return None if values is None else values[step]


class Workload:
    """All clusters of a run. `begin_step` and `serve` move it through time."""

    def __init__(self, recording: Recording, spec: ScalingSpec, model: Model, namespace: str) -> None:
        self._spec, self._model, self._namespace = spec, model, namespace
        self._keys = metric_keys(spec)
        self._follows = tuple([follows_pods(metric) for metric in spec.metrics])
        self._requests: dict[tuple[int | None, ...], PodRequests] = {}
        self._backlog: dict[str, float] = {}
        self._target = Target(None)
        self.places = [Place(one, self._keys) for one in recording.clusters]
        self._begins = min(place.since for place in self.places)

    @property
    def replicas(self) -> int:
        """The replicas of all clusters."""
        return sum(place.replicas for place in self.places)

    @property
    def started(self) -> int:
        """The number of pods that were started since the beginning."""
        return sum(place.pods.started for place in self.places if place.pods is not None)

    def candidates(self, step: int) -> list[Place]:
        """Returns the clusters that are registered in a step."""
        return [place for place in self.places if place.since <= step]

    def begin_step(self, step: int, now: float) -> None:
        """Lets clusters come and go, and takes over the requests of a step."""
        for place in self.places:
            place.here = place.series.has(step)
            if not place.here:
                continue
            requests = self._requests_at(place.series, step)
            if place.pods is None:
                # A cluster that joins later begins without replicas.
                count = place.series.replicas[step] or 0 if place.since == self._begins else 0
                window = self._model.metrics_window
                place.pods = Pods(place.name, self._namespace, now, count, requests, window)
                place.samples = Samples(self._model, self.places.index(place))
            place.pods.request(requests)
        self._target = self._target_at(step)

    def serve(self, step: int, now: float, seconds: float) -> Served:
        """Lets the pods serve for `seconds` from `now`, and measures them."""
        here = [place for place in self.places if place.here]
        for place in here:
            if place.pods is not None:
                place.pods.advance(now)
        groups = [[place] for place in here] if self._model.traffic == TIED else [here]
        values: dict[str, list[int | None]] = {place.name: [None] * len(self._follows) for place in here}
        demand = usage = unserved = 0.0
        is_known = False
        for metric, follows in enumerate(self._follows):
            is_primary = metric == self._model.metric
            for group in groups if follows else [[place] for place in here]:
                known = [place for place in group if place.demand(metric, step) is not None]
                total = float(sum(place.demand(metric, step) or 0 for place in known))
                ready = sum(place.ready for place in known)
                used = total
                if is_primary and known:
                    is_known = True
                    if follows:
                        used, lost = self._used(group, total, ready, seconds)
                        unserved += lost
                    demand, usage = demand + total, usage + used
                for place in known:
                    values[place.name][metric] = self._value(metric, place, step, used, ready)
        for place in here:
            if place.samples is not None:
                place.samples.add(Sample(now, tuple(values[place.name])), seconds)
        return self._served(here, demand, usage, unserved) if is_known else Served()

    def _used(self, group: Sequence[Place], demand: float, ready: int, seconds: float) -> tuple[float, float]:
        """Returns the usage of a group of clusters, and the part of the demand that they cannot serve now."""
        limit = self._model.pod_limit
        most = float(limit * ready) if limit is not None else float("inf") if ready else 0.0
        lost = max(demand - most, 0.0)
        if not self._model.carry_over:
            return demand - lost, lost
        key = group[0].name if self._model.traffic == TIED else ""
        waiting = self._backlog.get(key, 0.0)
        used = min(demand + waiting / seconds, most)
        self._backlog[key] = max(waiting + (demand - used) * seconds, 0.0)
        return used, lost

    @property
    def backlog(self) -> float:
        """The demand that still waits, in milli-units times seconds."""
        return sum(self._backlog.values())

    def _value(self, metric: int, place: Place, step: int, used: float, ready: int) -> int | None:
        """Returns what a metrics API reports of a metric in a cluster, None if nothing."""
        if self._follows[metric]:
            return round(used / ready) if ready else None
        if not self._spec.metrics[metric].metric_type.per_pod:
            return round(used)
        recorded = place.series.ready[step]
        return round(used / recorded) if recorded else None

    def _served(self, here: Iterable[Place], demand: float, usage: float, unserved: float) -> Served:
        return served_by(self._target, sum(place.ready for place in here), demand, usage, unserved)

    def _target_at(self, step: int) -> Target:
        metric, key = self._spec.metrics[self._model.metric], self._keys[self._model.metric]
        rows = [place.series.request.get(key) for place in self.places if place.here]
        known = [row[step] for row in rows if row is not None]
        requests = [value for value in known if value is not None]
        found = target_of(metric, round(sum(requests) / len(requests)) if requests else None)
        return self._target if found == Target(None) else found

    def _requests_at(self, series: ClusterSeries, step: int) -> PodRequests:
        """Returns the requests of a pod. In a step without them, the first known ones count."""
        amounts = tuple([_request(series.request.get(key), step) for key in self._keys])
        found = self._requests.get(amounts)
        if found is None:
            found = self._requests[amounts] = _pod_requests(self._spec.metrics, amounts)
        return found

    def cluster_snapshot(self, place: Place, now: float, memory: MemoryState) -> ClusterSnapshot:
        """Returns one cluster as a decision at `now` reads it."""
        sample = None if place.samples is None else place.samples.at(now)
        if not place.here or place.pods is None:
            return ClusterSnapshot(
                name=place.name,
                ready=False,
                error=AWAY,
                last_replicas=place.replicas,
                absence=memory.absences.get(place.name),
            )
        usage: tuple[UsageRecord, ...] = ()
        metrics: dict[str, tuple[CustomSample, ...] | tuple[ExternalSample, ...]] = {}
        if sample is not None:
            usage = self._usage(place.pods, sample)
            for metric, value in zip(self._spec.metrics, sample.values, strict=True):
                if value is not None and metric.metric_type.api == CUSTOM_API:
                    metrics[metric.query_key] = _custom(place.pods, metric, sample.at, value)
                elif value is not None and metric.metric_type.api == EXTERNAL_API:
                    metrics[metric.query_key] = (ExternalSample(metric.name, None, value),)
        count = place.pods.count
        return ClusterSnapshot(
            name=place.name,
            scale=ClusterScale(count, count, SELECTOR),
            pods=place.pods.records(),
            usage=usage,
            metrics=metrics,
            last_replicas=count,
            absence=memory.absences.get(place.name) if memory.absences else None,
            implausible_for=0.0,
        )

    def _usage(self, pods: Pods, sample: Sample) -> tuple[UsageRecord, ...]:
        cpu = memory = None
        containers: dict[str, dict[str, int | None]] = {}
        for metric, value in zip(self._spec.metrics, sample.values, strict=True):
            if metric.metric_type.api != USAGE_API:
                continue
            if metric.container:
                containers.setdefault(metric.container, {})[metric.name] = value
            elif metric.name == "cpu":
                cpu = value
            elif metric.name == "memory":
                memory = value
        if cpu is None and memory is None and not containers:
            return ()
        each = tuple(
            [ContainerUsage(name, used.get("cpu"), used.get("memory")) for name, used in containers.items()]
        )
        return pods.usage(sample.at, cpu, memory, each)


def _custom(pods: Pods, metric: ScalingMetric, at: float, value: int) -> tuple[CustomSample, ...]:
    if metric.metric_type.per_pod:
        return tuple(pods.samples(at, metric.name, value))
    described: Mapping[str, Any] = metric.described_object or {}
    kind, name = str(described.get("kind", "")), str(described.get("name", ""))
    return (CustomSample(metric.name, kind, pods.namespace, name, value, at),)


def _request(values: Amounts | None, step: int) -> int | None:
    if values is None:
        return None
    return (
        values[step] if values[step] is not None else next((one for one in values if one is not None), None)
    )


def _pod_requests(metrics: Iterable[ScalingMetric], amounts: Iterable[int | None]) -> PodRequests:
    whole: dict[str, int] = {}
    containers: dict[str, dict[str, int]] = {}
    for metric, amount in zip(metrics, amounts, strict=True):
        if amount is not None and metric.metric_type.api == USAGE_API:
            of = containers.setdefault(metric.container, {}) if metric.container else whole
            of[metric.name] = amount
    return PodRequests(tuple(containers.items()), whole)
