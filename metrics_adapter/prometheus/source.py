"""Metrics from a metrics store where a rule names them, and from the members otherwise.

A registered cluster without series in the store is missing if its rule expects it, or if it had series
minutes ago. Otherwise it has no such metric. A cluster whose exporter fails therefore never counts as zero.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol, TypeVar

from prometheus_client import CollectorRegistry

from fedhpa.api.errors import FedHPAError, MetricsUnavailable
from fedhpa.api.selectors import EQUALS, EXISTS, IN, NOT_EQUALS, NOT_EXISTS, NOT_IN, Selector
from fedhpa.api.wire import ObjectReference
from fedhpa.kube import Clock
from fedhpa.members.metrics import CUSTOM, EXTERNAL
from fedhpa.serving.flags import Values
from metrics_adapter import store_flags as flags
from metrics_adapter.apis import GROUP, PODS, MetricsKind
from metrics_adapter.members.custom_metrics import CustomValue, MetricLabelRequirement, MetricLabelSelector
from metrics_adapter.members.external_metrics import ClusterValues, ExternalValue
from metrics_adapter.members.queries import CustomMetricQuery, MetricSelectors
from metrics_adapter.members.recently_served import RecentlyServed
from metrics_adapter.members.resource_metrics import MemberItems
from metrics_adapter.members.source import ClusterFilter, Gathered, MembersSource, only
from metrics_adapter.prometheus.access import StoreAccess
from metrics_adapter.prometheus.grouping import GroupedSeries, Sample, by_cluster
from metrics_adapter.prometheus.queries import (
    RuleQuery,
    custom_query,
    external_query,
    usage_labels,
    usage_query,
)
from metrics_adapter.prometheus.resource_metrics import member_items
from metrics_adapter.prometheus.results import QueryResult
from metrics_adapter.prometheus.rules.file import RulesFile
from metrics_adapter.prometheus.rules.model import CustomRule, Rules, UsageRule
from metrics_adapter.prometheus.store import MetricsStore
from metrics_adapter.prometheus.store_series import StoreTelemetry

T = TypeVar("T")

# The name of the store in reasons and warnings, where members have their cluster's name.
STORE = "the metrics store"
NO_SERIES = "the metrics store has no series of it"
# Results with more series, which take over about 20 ms, are processed in a thread.
LARGE_RESULT = 1000
# The owner of a workload may give its metrics any number of label sets, and each request processes all of
# them. This many take a fifth of a second. Usage is computed once for all requests and has no such limit.
MAX_VALUES = 10_000
# Usage lists that are cached. Each may have megabytes.
MAX_CACHED_USAGE = 4
MAX_CACHED_USAGE_BYTES = 128 * 2**20
OPERATORS = {
    EQUALS: "In",
    IN: "In",
    NOT_EQUALS: "NotIn",
    NOT_IN: "NotIn",
    EXISTS: "Exists",
    NOT_EXISTS: "DoesNotExist",
}
# The inputs of a usage list: rules and results, compared by identity, and the registered clusters.
_UsageInputs = tuple[tuple[Rules, QueryResult, QueryResult], list[str]]


class RulesInUse(Protocol):
    """Holds the rules that are in use now."""

    current: Rules


class PrometheusSource(MembersSource):
    """Metrics from the store alone where a rule names them, and from the members otherwise."""

    def __init__(
        self, members: MembersSource, store: MetricsStore, rules: RulesInUse, telemetry: StoreTelemetry
    ) -> None:
        """`members` answers for metrics without a rule."""
        super().__init__(
            members.members,
            members.lists,
            max_age=members.max_age,
            clock=members.clock,
            observer=members.observer,
        )
        self._store = store
        self._rules = rules
        self._telemetry = telemetry
        self._recent_series = RecentlyServed(clock=self.clock)
        self._usage_cache: dict[str, tuple[_UsageInputs, Gathered[MemberItems]]] = {}
        self._usage_lock = asyncio.Lock()

    async def external(
        self, namespace: str, metric: str, selector: Selector, selects: ClusterFilter
    ) -> Gathered[ClusterValues]:
        """Returns the values of an external metric: one for each series, by cluster."""
        rules = self._rules.current
        rule = rules.external_rule(metric)
        if rule is None:
            return await super().external(namespace, metric, selector, selects)
        window = rule.window

        def convert(cluster: str, samples: Sequence[Sample]) -> ClusterValues:
            if len({frozenset(one.labels.items()) for one in samples}) < len(samples):
                raise MetricsUnavailable("the metrics store has two values of it with the same labels")
            values = [
                ExternalValue(
                    metric=metric, labels=one.labels, timestamp=one.at, window=window, amount=one.amount
                )
                for one in samples
            ]
            return ClusterValues(cluster, values)

        query = external_query(rules, rule, namespace, selector, selects)
        gathered = await self._query(query, convert, strict=True, api=EXTERNAL)
        return replace(gathered, aggregation=rule.aggregation or "")

    async def custom(
        self, query: CustomMetricQuery, selectors: MetricSelectors, cluster: str | None
    ) -> Gathered[Sequence[CustomValue] | None]:
        """Returns the values of a custom metric: one for each object and cluster."""
        rules = self._rules.current
        rule = rules.custom_rule(query.resource, query.metric)
        if rule is None:
            return await super().custom(query, selectors, cluster)
        namespace = rules.namespace_of(rule) if rule.is_namespaced else None

        def convert(_: str, samples: Sequence[Sample]) -> Sequence[CustomValue] | None:
            return object_values(samples, rule, namespace, selectors.metric)

        # A pod without a usable value is left out. Other values are summed, and a partial sum would be wrong.
        strict = query.resource != PODS.plural
        rule_query = custom_query(rules, rule, query, selectors, only(cluster))
        gathered = await self._query(rule_query, convert, strict=strict, api=CUSTOM)
        return replace(gathered, aggregation=rule.aggregation)

    async def list(
        self, kind: MetricsKind, namespace: str, selector: Selector, cluster: str | None
    ) -> Gathered[MemberItems]:
        """Returns the usage in a namespace ("": all)."""
        rule = self._usage_rule(kind)
        if rule is None:
            return await super().list(kind, namespace, selector, cluster)
        return await self._usage(rule, kind, (namespace, ""), selector, cluster)

    async def get(
        self, kind: MetricsKind, namespace: str, name: str, cluster: str | None
    ) -> Gathered[MemberItems]:
        """Returns the usage of the objects of that name."""
        rule = self._usage_rule(kind)
        if rule is None:
            return await super().get(kind, namespace, name, cluster)
        return await self._usage(rule, kind, (namespace, name), Selector(), cluster)

    def configured_names(self, group: str) -> Sequence[tuple[str, bool]]:
        """Returns name and scope (True: namespaced) of the metrics that rules name."""
        rules = self._rules.current
        if group == EXTERNAL:
            return [(rule.metric, True) for rule in rules.external]
        return [(f"{rule.resource}/{rule.metric}", rule.is_namespaced) for rule in rules.custom]

    def _usage_rule(self, kind: MetricsKind) -> UsageRule | None:
        resources = self._rules.current.resources
        return resources.pods if kind == PODS else resources.nodes

    async def _usage(
        self,
        rule: UsageRule,
        kind: MetricsKind,
        name: tuple[str, str],
        selector: Selector,
        cluster: str | None,
    ) -> Gathered[MemberItems]:
        rules = self._rules.current
        cpu, memory = (
            usage_query(rules, rule, promql, kind, name, selector, only(cluster))
            for promql in (rule.cpu, rule.memory)
        )
        try:
            results = await asyncio.gather(self._store.query(cpu.query), self._store.query(memory.query))
        except FedHPAError as error:
            return Gathered((), {STORE: str(error)})
        inputs = (rules, *results), sorted(self.members())
        key = f"{kind.plural} {name} {selector} {cluster}"
        async with self._usage_lock:
            cached = self._usage_cache.pop(key, None)
            if cached is None or not _same(cached[0], inputs):
                labels = usage_labels(rules, rule, kind)
                samples = (
                    await self._usage_samples(cpu, results[0]),
                    await self._usage_samples(memory, results[1]),
                )
                usage = await _in_thread_if_large(
                    results[0], lambda: member_items(*samples, kind, rule, labels)
                )
                cached = inputs, usage
            # The most recently used entry moves to the end, and the first one is dropped.
            self._usage_cache[key] = cached
            while len(self._usage_cache) > 1 and (
                len(self._usage_cache) > MAX_CACHED_USAGE
                or sum(_size(usage) for _, usage in self._usage_cache.values()) > MAX_CACHED_USAGE_BYTES
            ):
                del self._usage_cache[next(iter(self._usage_cache))]
        return cached[1]

    async def _usage_samples(
        self, query: RuleQuery, result: QueryResult
    ) -> Gathered[tuple[str, Sequence[Sample]]]:
        # A pod without a usable value is left out.
        return await self._gather_clusters(query, result, _pair, strict=False, api=GROUP)

    async def _query(
        self,
        query: RuleQuery,
        convert: Callable[[str, Sequence[Sample]], T],
        *,
        strict: bool,
        api: str,
    ) -> Gathered[T]:
        """Queries the store and returns the converted samples of each selected cluster."""
        try:
            result = await self._store.query(query.query)
            if len(result.series) > MAX_VALUES:
                raise MetricsUnavailable(
                    f"its answer has more than {MAX_VALUES} series: let the rule's query aggregate"
                )
        except FedHPAError as error:
            return Gathered((), {STORE: str(error)})
        return await self._gather_clusters(query, result, convert, strict=strict, api=api)

    async def _gather_clusters(
        self,
        query: RuleQuery,
        result: QueryResult,
        convert: Callable[[str, Sequence[Sample]], T],
        *,
        strict: bool,
        api: str,
    ) -> Gathered[T]:
        """Returns the converted samples of each selected cluster in a result.

        With `strict`, a series without a usable value makes its whole cluster missing.
        """
        registered = frozenset(self.members())
        # Series are grouped for all clusters, so warnings do not depend on the selected clusters.
        grouped = await _in_thread_if_large(result, lambda: by_cluster(result, query, registered))
        for reason, count in grouped.dropped.items():
            self._telemetry.dropped.labels(reason).inc(count)
        answers: dict[str, T] = {}
        missing: dict[str, str] = {}
        notes = [f"{STORE} warns: {text}" for text in result.warnings]
        notes += grouped.notes(query.label)
        for cluster in filter(query.selects, sorted(registered)):
            unusable = grouped.unusable.get(cluster)
            try:
                if unusable is not None and strict:
                    raise MetricsUnavailable(unusable)
                if unusable is not None:
                    notes.append(f"some values of {cluster} are left out: {unusable}")
                samples = await self._samples(query, cluster, grouped)
                if samples:
                    answers[cluster] = convert(cluster, samples)
            except MetricsUnavailable as error:
                missing[cluster] = str(error)
            self.observer.outcome(api, cluster, cluster not in missing)
        return Gathered([answers[name] for name in sorted(answers)], missing, notes)

    async def _samples(self, query: RuleQuery, cluster: str, grouped: GroupedSeries) -> Sequence[Sample]:
        """Returns a cluster's samples. Raises MetricsUnavailable if it should have some and has none."""
        samples = grouped.samples.get(cluster)
        if samples is None and query.expects(cluster):
            raise MetricsUnavailable(NO_SERIES)
        if not query.is_one_pod and cluster not in grouped.unusable:
            await self._recent_series.check(cluster, query.query.text, {}, _ready(samples))
        return samples or ()


def object_values(
    samples: Sequence[Sample], rule: CustomRule, namespace_label: str | None, metric: Selector
) -> Sequence[CustomValue]:
    """Returns one cluster's values. Raises MetricsUnavailable if an object has two values."""
    kind, version, object_label = rule.described
    selector = _selector(metric)
    values: dict[tuple[str, ...], CustomValue] = {}
    for sample in samples:
        namespace = "" if namespace_label is None else sample.labels[namespace_label]
        described = ObjectReference(kind, namespace, sample.labels[object_label], version)
        group = version.rpartition("/")[0]
        key = (namespace, kind, group, described.name, rule.metric, str(metric))
        if key in values:
            raise MetricsUnavailable(
                f"{kind} {namespace}/{described.name} has more than one value: let the rule's query"
                " aggregate, as in sum by (<<.GroupBy>>)"
            )
        values[key] = CustomValue(
            key=key,
            described=described,
            metric=rule.metric,
            selector=selector,
            timestamp=sample.at,
            window=rule.window,
            amount=sample.amount,
        )
    return list(values.values())


def _selector(metric: Selector) -> MetricLabelSelector | None:
    if not metric.requirements:
        return None
    return MetricLabelSelector(
        matchExpressions=[
            MetricLabelRequirement(one.key, OPERATORS[one.operator], list(one.values) or None)
            for one in metric.requirements
        ]
    )


class PrometheusBackend:
    """The store, the rules file and the source over them, as the flags set them. Raises ConfigError."""

    def __init__(
        self, values: Values, members: MembersSource, registry: CollectorRegistry, clock: Clock
    ) -> None:
        telemetry = StoreTelemetry(registry)
        access = StoreAccess(
            values[flags.URL],
            values[flags.CA_FILE],
            values[flags.TOKEN_FILE],
            values[flags.USERNAME],
            values[flags.PASSWORD_FILE],
            values[flags.TENANT],
        )
        access.check()
        self.rules = RulesFile(Path(values[flags.RULES]), telemetry)
        deadline = values[flags.DEADLINE]
        self.store = MetricsStore(
            access,
            deadline=deadline,
            max_age=members.max_age,
            telemetry=telemetry,
            clock=clock.monotonic,
            wall=clock.wall,
        )
        self.source = PrometheusSource(members, self.store, self.rules, telemetry)


async def _in_thread_if_large(result: QueryResult, work: Callable[[], T]) -> T:
    # A large result takes longer in a thread, but does not block the event loop.
    return work() if len(result.series) < LARGE_RESULT else await asyncio.to_thread(work)


def _pair(cluster: str, samples: Sequence[Sample]) -> tuple[str, Sequence[Sample]]:
    return cluster, samples


def _size(usage: Gathered[MemberItems]) -> int:
    return sum(answer.size for answer in usage.answers)


def _same(one: _UsageInputs, other: _UsageInputs) -> bool:
    return one[1] == other[1] and all(a is b for a, b in zip(one[0], other[0], strict=True))


async def _ready(samples: Sequence[Sample] | None) -> Sequence[Sample] | None:
    return samples
