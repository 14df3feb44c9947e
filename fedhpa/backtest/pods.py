"""The pods of one simulated cluster, and their usage as a metrics API would report it."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from fedhpa.backtest.model import Model
from fedhpa.metric_types.metric import ScalingMetric
from fedhpa.scaling import ContainerUsage, CustomSample, PodRecord, PodRequests, UsageRecord

SELECTOR: Final = "app=workload"
LABELS: Final[Mapping[str, str]] = {"app": "workload"}
# Watches that a lost API server ended are repeated after 0.8 s, twice that and so on, up to 30 s (client-go,
# reflector). After a longer loss they begin again half of that after its return, on average.
RETURN_SECONDS: Final = 15.0
# Seconds since the start of a pod that ran before the recording began.
LONG_AGO: Final = 86_400.0


def requested(requests: PodRequests, metric: ScalingMetric) -> int:
    """Returns the request of a pod, or of one container, for a metric in milli-units; 0 without one."""
    of = dict(requests.containers).get(metric.container) if metric.container else requests.pod_level
    return (of or {}).get(metric.name, 0)


class Sample(NamedTuple):
    """The measured values at one time: one for each metric, in milli-units; None if there is none.

    Values of per-pod metrics are those of one ready pod, the others are totals of the cluster.
    """

    at: float
    values: tuple[int | None, ...]


class Pods:
    """The pods of one cluster, oldest first, so those that are ready come first."""

    def __init__(
        self, cluster: str, namespace: str, now: float, count: int, requests: PodRequests, window: float
    ) -> None:
        self.cluster, self.namespace, self._window = cluster, namespace, window
        self.requests = requests
        self.started = 0
        self._serial = 0
        self._created: list[float] = []
        self._ready_at: list[float] = []
        self._records: list[PodRecord] = []
        self._ready = 0
        self._tuple: tuple[PodRecord, ...] | None = None
        self._add(count, now - LONG_AGO, now - LONG_AGO)
        self.advance(now)
        self.started = 0

    @property
    def ready(self) -> int:
        """The number of ready pods at the last `advance`."""
        return self._ready

    @property
    def count(self) -> int:
        """The number of all pods."""
        return len(self._records)

    def advance(self, now: float) -> None:
        """Makes the pods ready that are by `now`."""
        ready = bisect_right(self._ready_at, now)
        if ready == self._ready:
            return
        for index in range(self._ready, ready):
            self._records[index] = self._record(index, is_ready=True)
        self._ready, self._tuple = ready, None

    def scale(self, replicas: int, now: float, pod_start: float) -> None:
        """Adds or removes pods. As in a ReplicaSet, those that are not ready go first, then the youngest."""
        if replicas > self.count:
            self._add(replicas - self.count, now, now + pod_start)
        elif replicas < self.count:
            for values in (self._created, self._ready_at, self._records):
                del values[replicas:]
            self._ready, self._tuple = min(self._ready, replicas), None

    def request(self, requests: PodRequests) -> None:
        """Gives all pods these requests."""
        if requests is not self.requests:
            self.requests = requests
            self._records = [self._record(index, index < self._ready) for index in range(self.count)]
            self._tuple = None

    def records(self) -> tuple[PodRecord, ...]:
        """Returns the pods as a decision reads them."""
        if self._tuple is None:
            self._tuple = tuple(self._records)
        return self._tuple

    def measured(self, at: float) -> tuple[int, int]:
        """Returns how many of the present pods existed at a time, and how many were ready."""
        return bisect_right(self._created, at), bisect_right(self._ready_at, at)

    def is_settled(self, at: float) -> bool:
        """True if every pod had been ready for a whole window at the time of a sample."""
        return not self._ready_at or self._ready_at[-1] + self._window <= at

    def usage(
        self, at: float, cpu: int | None, memory: int | None, containers: tuple[ContainerUsage, ...]
    ) -> tuple[UsageRecord, ...]:
        """Returns the usage at the time of a sample. A pod that is starting uses nothing."""
        existing, ready = self.measured(at)
        place, space = self.cluster, self.namespace
        idle = tuple([ContainerUsage(one.name, 0, 0) for one in containers])
        no_cpu = None if cpu is None else 0
        no_memory = None if memory is None else 0
        return tuple(
            [
                UsageRecord(place, space, pod.name, at, self._window, cpu, memory, containers)
                if index < ready
                else UsageRecord(place, space, pod.name, at, self._window, no_cpu, no_memory, idle)
                for index, pod in enumerate(self._records[:existing])
            ]
        )

    def samples(self, at: float, metric: str, milli: int) -> list[CustomSample]:
        """Returns the values of a metric of type Pods at the time of a sample."""
        existing, ready = self.measured(at)
        return [
            CustomSample(metric, "Pod", self.namespace, pod.name, milli if index < ready else 0, at)
            for index, pod in enumerate(self._records[:existing])
        ]

    def _add(self, count: int, created: float, ready_at: float) -> None:
        for _ in range(count):
            self._created.append(created)
            self._ready_at.append(ready_at)
            self._serial += 1
            self._records.append(self._record(len(self._records), is_ready=False, serial=self._serial))
        self.started += count
        self._tuple = None

    def _record(self, index: int, is_ready: bool, serial: int = 0) -> PodRecord:
        name = f"pod-{serial}" if serial else self._records[index].name
        created = self._created[index]
        return PodRecord(
            cluster=self.cluster,
            namespace=self.namespace,
            name=name,
            labels=LABELS,
            requests=self.requests,
            running=True,
            ready="True" if is_ready else "False",
            ready_since=self._ready_at[index] if is_ready else created,
            start=created,
            settled=is_ready,
            created=created,
        )


class Samples:
    """The samples of one cluster, as a metrics API delivers them: one for each window.

    Their age is that of `model` on average: a sample is seen until the next one comes. A sample is the mean
    of its window, as rates are, unless the metrics API reads values of the moment. The first one stands for
    all earlier times: the workload ran before the recording began. A cluster that was away has its old
    samples for a while.
    """

    def __init__(self, model: Model, number: int) -> None:
        self._model = model
        self._offset = model.metrics_at[number] if number < len(model.metrics_at) else 0.0
        self._delay = max(model.metrics_age - model.metrics_window / 2, 0.0)
        self._kept: deque[Sample] = deque()
        self._window: deque[Sample] = deque()
        self._number = 0.0
        self._since = float("-inf")

    def add(self, sample: Sample, seconds: float) -> None:
        """Keeps a sample of the next `seconds`."""
        window, length = self._window, self._model.metrics_window
        if not self._kept:
            self._kept.append(Sample(float("-inf"), sample.values))
        elif sample.at > window[-1].at + 1.5 * seconds:
            window.clear()
            self._since = sample.at
        window.append(sample)
        while window[0].at <= sample.at - length:
            window.popleft()
        number = (sample.at - self._offset) // length
        if number == self._number or sample.at + seconds < self._since + RETURN_SECONDS:
            return
        self._number = number
        is_mean = self._model.metrics_are_means and len(window) > 1
        self._kept.append(Sample(sample.at, _means(window)) if is_mean else sample)

    def at(self, now: float) -> Sample | None:
        """Returns the newest sample that is old enough; None before the first one."""
        kept = self._kept
        while len(kept) > 1 and kept[1].at <= now - self._delay:
            kept.popleft()
        return kept[0] if kept else None


def _means(window: Iterable[Sample]) -> tuple[int | None, ...]:
    columns = zip(*[sample.values for sample in window], strict=True)
    return tuple(
        [
            None if None in column else round(sum(value or 0 for value in column) / len(column))
            for column in columns
        ]
    )
