"""The inputs of the model, with where each is from: a flag, the recording, or a default."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Final

import msgspec

from fedhpa.api.default_values import SYNC_PERIOD_SECONDS
from fedhpa.api.errors import ConfigError
from fedhpa.api.quantity import format_milli
from fedhpa.api.times import format_duration
from fedhpa.backtest.recording import MILLI, ClusterSeries, Recording, known, metric_keys
from fedhpa.backtest.result import Assumption
from fedhpa.decision import ControllerSettings, ScalingSpec
from fedhpa.metric_types.metric import USAGE_API, ScalingMetric

SHARED: Final = "shared"
TIED: Final = "tied"
POD_START_SECONDS: Final = 30.0
METRICS_AGE_SECONDS: Final = 30.0
# metrics-server's own default.
METRICS_WINDOW_SECONDS: Final = 15.0
# A start that takes longer is a rollout, or a cluster without room.
MAX_POD_START_SECONDS: Final = 1_800.0
# Starts that are measured, at most. Their median does not change with more.
MAX_STARTS: Final = 200
# Pods that used so much of their limit may have been asked for more.
FULL: Final = 0.9


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The flags of the model; None where the recording or a default decides. Times are seconds.

    `pod_limit` is in milli-units of the first metric that pods have. `metrics_window` is the time between two
    samples of a pod, and `metrics_at` by cluster when in a window they are taken; 0 where it is shorter.
    `metrics_are_means` is False if a sample is the value of its moment, as kwok's are.
    """

    traffic: str = SHARED
    pod_start: float | None = None
    metrics_age: float | None = None
    metrics_window: float = METRICS_WINDOW_SECONDS
    metrics_at: tuple[float, ...] = ()
    metrics_are_means: bool = True
    pod_limit: int | None = None
    carry_over: bool = False
    settings: ControllerSettings = ControllerSettings()
    sync: float = SYNC_PERIOD_SECONDS


class Model(Options, frozen=True, kw_only=True):
    """The options of one workload, none left open. `pod_limit` is None if a pod can use any amount.

    `key` names the demand in the recording; `metric` is its index in spec.metrics. `limit_is_known` says that
    the limit is no guess from the largest usage seen.
    """

    pod_start: float
    metrics_age: float
    key: str
    metric: int
    limit_is_known: bool


def follows_pods(metric: ScalingMetric) -> bool:
    """True if a pod's value falls when pods are added. Memory and queues do not follow the pods."""
    is_memory = metric.metric_type.api == USAGE_API and metric.name == "memory"
    return metric.metric_type.per_pod and not is_memory


def primary_metric(spec: ScalingSpec) -> int:
    """Returns the index of the metric whose demand the model serves: the first that follows the pods."""
    return next((index for index, metric in enumerate(spec.metrics) if follows_pods(metric)), 0)


def model_of(recording: Recording, spec: ScalingSpec, options: Options) -> tuple[Model, list[Assumption]]:
    """Returns the model, and its inputs for people. Raises ConfigError if the recording lacks a metric."""
    keys = metric_keys(spec)
    _check_metrics(recording, spec, keys)
    index = primary_metric(spec)
    key = keys[index]
    start, start_source = _value(
        "--pod-start", options.pod_start, measured_start(recording), POD_START_SECONDS
    )
    age, age_source = _value("--metrics-age", options.metrics_age, None, METRICS_AGE_SECONDS)
    limit, limit_source = options.pod_limit, "--pod-limit"
    if limit is None and follows_pods(spec.metrics[index]):
        limit, limit_source = _limit(recording, key)
    found = {"pod_start": start, "metrics_age": age, "pod_limit": limit, "key": key, "metric": index}
    model = Model(**{**msgspec.structs.asdict(options), **found}, limit_is_known=limit_source != _SEEN)
    traffic = "each cluster has its own demand" if options.traffic == TIED else "ready pods share the demand"
    queue = "it waits and is served later" if options.carry_over else "it is lost"
    return model, [
        Assumption("traffic", f"{options.traffic}: {traffic}", "--traffic"),
        Assumption("pods become ready after", format_duration(start), start_source),
        Assumption("metrics are old by", format_duration(age), age_source),
        Assumption(
            "a pod uses at most", "any amount" if limit is None else format_milli(limit), limit_source
        ),
        Assumption("what exceeds it", queue, "--carry-over"),
        Assumption("time between decisions", format_duration(options.sync), "spec.syncPeriodSeconds"),
        Assumption("replicas are divided by", spec.assignment.policy or "equal weights", "the object"),
    ]


_SEEN: Final = "the largest usage in the recording"


def _value(name: str, flag: float | None, measured: float | None, default: float) -> tuple[float, str]:
    if flag is not None:
        return flag, name
    return (default, "default") if measured is None else (measured, "the recording")


def _check_metrics(recording: Recording, spec: ScalingSpec, keys: list[str]) -> None:
    """Raises ConfigError if a metric of the object, or a request that it needs, is not in the recording."""
    for metric, key in zip(spec.metrics, keys, strict=True):
        if not any(known(one.demand.get(key, ())) for one in recording.clusters):
            there = sorted({name for one in recording.clusters for name in one.demand})
            raise ConfigError(
                f"the recording has no value of metric {key}: record it again with this object, or use a "
                f"metric that it has: {', '.join(there)[:300] or 'none'}"
            )
        needs = metric.average_utilization is not None and metric.average_value is None
        if needs and not any(known(one.request.get(key, ())) for one in recording.clusters):
            raise ConfigError(
                f"the recording has no request of {key}, which a target of Utilization needs: use "
                "averageValue, or add the request to the recording"
            )


def _limit(recording: Recording, key: str) -> tuple[int | None, str]:
    """Returns how much of a metric a pod can use, and where that is from."""
    limits = [value for one in recording.clusters for value in known(one.limit.get(key, ())) if value]
    if limits:
        return int(median(limits)), "the limit of the pods in the recording"
    seen = max((usage for one in recording.clusters for usage in usages(one, key)), default=None)
    return (None, "no pod was ready") if seen is None else (max(-(-seen // 1), 1), _SEEN)


def usages(cluster: ClusterSeries, key: str) -> Iterator[int]:
    """Yields the usage of a ready pod in each step that has one, in milli-units and rounded up."""
    for demand, ready in zip(cluster.demand.get(key, ()), cluster.ready, strict=False):
        if demand is not None and ready:
            yield -(-demand // ready)


def measured_start(recording: Recording) -> float | None:
    """Returns the median time between growing replicas and as many ready pods, in seconds; None if unknown.

    The time is known to a step only, so half a step is taken off.
    """
    starts = []
    for one in recording.clusters:
        replicas, ready = one.replicas, one.ready
        for step in range(1, recording.steps):
            before, after = replicas[step - 1], replicas[step]
            # A growth that begins while older pods are still starting would be measured too long.
            if before is None or after is None or after <= before or ready[step - 1] != before:
                continue
            taken = _steps_until_ready(one, step, recording.step)
            if taken is not None:
                starts.append(max(taken * recording.step - recording.step / 2, 0.0))
            if len(starts) >= MAX_STARTS:
                break
    return float(median(starts)) if starts else None


def _steps_until_ready(cluster: ClusterSeries, step: int, seconds: float) -> int | None:
    wanted = cluster.replicas[step] or 0
    for later in range(step, min(len(cluster.ready), step + int(MAX_POD_START_SECONDS / seconds) + 1)):
        ready, replicas = cluster.ready[later], cluster.replicas[later]
        if ready is None or replicas is None or replicas < wanted:
            return None
        if ready >= wanted:
            return later - step
    return None


class Target(msgspec.Struct, frozen=True):
    """The demand that one ready pod serves at target, or that all of them do.

    A target of type Value is that of the whole workload: then `of_pod` is None and `whole` has it.
    """

    of_pod: int | None
    whole: int | None = None


def target_of(metric: ScalingMetric, request: int | None) -> Target:
    """Returns the target of a metric in milli-units. `request` is that of a pod, None if it is unknown."""
    if metric.average_value is not None:
        return Target(metric.average_value)
    if metric.average_utilization is not None:
        return Target(None if request is None else request * metric.average_utilization // 100)
    return Target(None, metric.value)


def unit_of(key: str) -> str:
    """Returns the unit of a metric for people."""
    resource = key.rpartition("/")[2] if not key.partition("/")[0].islower() or "/" not in key else key
    return {"cpu": "cores", "memory": "bytes"}.get(key.rpartition("/")[2], resource)


def in_units(milli: float | None) -> float | None:
    """Returns milli-units in units."""
    return None if milli is None else milli / MILLI
