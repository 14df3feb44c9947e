"""The pods of one simulated cluster, and their usage as a metrics API would report it."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from fedhpa.metric_types.metric import ScalingMetric
from fedhpa.scaling import ContainerUsage, CustomSample, PodRecord, PodRequests, UsageRecord

SELECTOR: Final = "app=workload"
LABELS: Final[Mapping[str, str]] = {"app": "workload"}
# Seconds that a sample of usage covers, as metrics-server reports it.
WINDOW_SECONDS: Final = 15.0
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

    def __init__(self, cluster: str, namespace: str, now: float, count: int, requests: PodRequests) -> None:
        self.cluster, self.namespace = cluster, namespace
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
        return not self._ready_at or self._ready_at[-1] + WINDOW_SECONDS <= at

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
                UsageRecord(place, space, pod.name, at, WINDOW_SECONDS, cpu, memory, containers)
                if index < ready
                else UsageRecord(place, space, pod.name, at, WINDOW_SECONDS, no_cpu, no_memory, idle)
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
    """The samples of one cluster, which a metrics API delivers when they are `age` seconds old.

    A sample is the mean of a window, as rates are. The first one stands for all earlier times: the workload
    ran before the recording began. A cluster that was away has its old samples until a new window is full.
    """

    def __init__(self, age: float) -> None:
        self._age = age
        self._kept: deque[Sample] = deque()
        self._window: deque[Sample] = deque()
        self._since = float("-inf")

    def add(self, sample: Sample, seconds: float) -> None:
        """Keeps a sample of the next `seconds`."""
        window = self._window
        if not self._kept:
            self._kept.append(Sample(sample.at - self._age - WINDOW_SECONDS, sample.values))
        elif sample.at > window[-1].at + 1.5 * seconds:
            window.clear()
            self._since = sample.at
        window.append(sample)
        while window[0].at <= sample.at - WINDOW_SECONDS:
            window.popleft()
        if sample.at + seconds < self._since + WINDOW_SECONDS:
            return
        self._kept.append(sample if len(window) == 1 else Sample(sample.at, _means(window)))

    def at(self, now: float) -> Sample | None:
        """Returns the newest sample that is old enough; None before the first one."""
        kept = self._kept
        while len(kept) > 1 and kept[1].at <= now - self._age:
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
