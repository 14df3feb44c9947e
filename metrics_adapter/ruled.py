"""Metrics of a metrics store for what rules name, and of the members for all else.

A registered cluster of which the store has no series is missing where its rule says that it is expected, or
where it had some minutes ago; else there is nothing of it. One whose exporter went away is so never zero.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from fedhpa.api.errors import FedHPAError, MetricsUnavailable
from fedhpa.api.selectors import Selector
from fedhpa.members.metrics import CUSTOM, EXTERNAL
from metrics_adapter.gather import Gathered, MembersSource
from metrics_adapter.items import MemberItems
from metrics_adapter.kinds import GROUP, PODS, MetricsKind
from metrics_adapter.promql import equals, filled, selector_matchers
from metrics_adapter.remembered import Remembered
from metrics_adapter.rules import EVERY, Common, ExternalRule, Rules, UsageRule
from metrics_adapter.series import Series, Told
from metrics_adapter.store import Query, Store
from metrics_adapter.store_series import Measured, Sorted, by_cluster
from metrics_adapter.store_telemetry import StoreTelemetry
from metrics_adapter.store_usage import member_items
from metrics_adapter.store_values import object_values
from metrics_adapter.values import Value
from metrics_adapter.wanted import ALL, Selectors, Wanted

T = TypeVar("T")

# What reasons and warnings call it, where members have their name.
STORE = "the metrics store"
# A store behind which hundreds fail names each; one answer's headers hold only so much.
MOST_WARNINGS = 10
NOTHING = "the metrics store has no series of it"


class RulesInUse(Protocol):
    """Who knows the rules of the moment."""

    current: Rules


class RuledSource(MembersSource):
    """What rules name is asked of the store, and only there; the rest of the members."""

    def __init__(
        self, members: MembersSource, store: Store, rules: RulesInUse, telemetry: StoreTelemetry
    ) -> None:
        """`members` answers what no rule names."""
        super().__init__(members.members, members.lists, max_age=members.max_age, observer=members.observer)
        self._store = store
        self._rules = rules
        self._telemetry = telemetry
        self._had = Remembered()

    async def external(
        self, namespace: str, metric: str, selector: Selector, wanted: Callable[[str], bool]
    ) -> Gathered[Told]:
        """As its rule says: one value a series, its cluster told apart."""
        rules = self._rules.current
        rule = rules.external_rule(metric)
        if rule is None:
            return await super().external(namespace, metric, selector, wanted)
        label = rules.namespace_of(rule)
        place = [equals(label, namespace)] if rule.namespaced else []
        matchers = [*place, *selector_matchers(selector, rule.selector_labels, "labelSelector")]
        group = [rules.cluster_of(rule), *([label] if rule.namespaced else [])]
        question = _Question(rules, rule, _query(rule, rule.query, matchers, group), wanted)

        def asked(labels: Mapping[str, str]) -> bool:
            return not rule.namespaced or labels.get(label, namespace) == namespace

        def told(cluster: str, found: Sequence[Measured]) -> Told:
            if len({frozenset(one.labels.items()) for one in found}) < len(found):
                raise MetricsUnavailable("the metrics store has two values of it with the same labels")
            return Told(cluster, [_series(one, metric, rule) for one in found])

        gathered = await self._ask(question, asked, told, spoils=True, api=EXTERNAL)
        return replace(gathered, aggregation=rule.aggregation or "")

    async def custom(
        self, wanted: Wanted, selectors: Selectors, cluster: str | None
    ) -> Gathered[Sequence[Value]]:
        """As its rule says: one value an object and cluster."""
        rules = self._rules.current
        rule = rules.custom_rule(wanted.resource, wanted.metric)
        if rule is None:
            return await super().custom(wanted, selectors, cluster)
        _, _, object_label = rule.described
        label = rules.namespace_of(rule) if rule.is_namespaced else None
        place = {} if label is None or wanted.namespace in ("", ALL) else {label: wanted.namespace}
        if wanted.name != ALL:
            place[object_label] = wanted.name
        matchers = [
            *(equals(name, text) for name, text in place.items()),
            *selector_matchers(selectors.objects, rule.selector_labels, "labelSelector"),
            *selector_matchers(selectors.metric, rule.selector_labels, "metricLabelSelector"),
        ]
        group = [rules.cluster_of(rule), *([label] if label else []), object_label]
        question = _Question(
            rules, rule, _query(rule, rule.query, matchers, group), lambda name: cluster in (None, name)
        )

        def asked(labels: Mapping[str, str]) -> bool:
            named = all(labels.get(name) == text for name, text in place.items())
            return named and bool(labels.get(object_label)) and (label is None or bool(labels.get(label)))

        def told(_: str, found: Sequence[Measured]) -> Sequence[Value]:
            return object_values(found, rule, label, selectors.metric)

        # One pod without a number leaves that pod out; a sum without a part of it would be wrong.
        spoils = wanted.resource != PODS.plural
        gathered = await self._ask(question, asked, told, spoils=spoils, api=CUSTOM, fleeting=wanted.fleeting)
        return replace(gathered, aggregation=rule.aggregation)

    async def list(
        self, kind: MetricsKind, namespace: str, selector: Selector, cluster: str | None
    ) -> Gathered[MemberItems]:
        """The usage of a namespace ("" for all)."""
        rule = self._usage(kind)
        if rule is None:
            return await super().list(kind, namespace, selector, cluster)
        return await self._usages(rule, kind, {"namespace": namespace, "name": ""}, selector, cluster)

    async def get(
        self, kind: MetricsKind, namespace: str, name: str, cluster: str | None
    ) -> Gathered[MemberItems]:
        """The usage of what has that name."""
        rule = self._usage(kind)
        if rule is None:
            return await super().get(kind, namespace, name, cluster)
        return await self._usages(rule, kind, {"namespace": namespace, "name": name}, Selector(), cluster)

    def names(self, group: str) -> Sequence[tuple[str, bool]]:
        """The metrics that rules name, without asking anybody."""
        rules = self._rules.current
        if group == EXTERNAL:
            return [(rule.metric, True) for rule in rules.external]
        return [(f"{rule.resource}/{rule.metric}", rule.is_namespaced) for rule in rules.custom]

    def _usage(self, kind: MetricsKind) -> UsageRule | None:
        resources = self._rules.current.resources
        return resources.pods if kind == PODS else resources.nodes

    async def _usages(
        self,
        rule: UsageRule,
        kind: MetricsKind,
        wanted: Mapping[str, str],
        selector: Selector,
        cluster: str | None,
    ) -> Gathered[MemberItems]:
        rules = self._rules.current
        object_label = rule.object_label or kind.plural.removesuffix("s")
        names = {"name": object_label}
        if kind.namespaced:
            names["namespace"] = rules.namespace_of(rule)
        place = {label: wanted[key] for key, label in names.items() if wanted[key]}
        matchers = [
            *(equals(name, text) for name, text in place.items()),
            *selector_matchers(selector, rule.selector_labels, "labelSelector"),
        ]
        container = [rule.container_label] if kind.namespaced else []
        group = [rules.cluster_of(rule), *reversed(names.values()), *container]

        def asked(labels: Mapping[str, str]) -> bool:
            named = all(labels.get(name) == text for name, text in place.items())
            return named and all(labels.get(label) for label in (*names.values(), *container))

        async def usage(text: str) -> Gathered[tuple[str, Sequence[Measured]]]:
            question = _Question(
                rules, rule, _query(rule, text, matchers, group), lambda name: cluster in (None, name)
            )
            return await self._ask(
                question,
                asked,
                lambda name, found: (name, found),
                spoils=False,
                api=GROUP,
                fleeting=bool(wanted["name"]),
            )

        cpu, memory = await asyncio.gather(usage(rule.cpu), usage(rule.memory))
        return member_items(cpu, memory, kind, rule, names)

    async def _ask(
        self,
        question: _Question,
        asked: Callable[[Mapping[str, str]], bool],
        told: Callable[[str, Sequence[Measured]], T],
        *,
        spoils: bool,
        api: str,
        fleeting: bool = False,
    ) -> Gathered[T]:
        """What the store has of each wanted cluster, as `told` makes it.

        With `spoils` a series without a usable value makes its whole cluster missing. What is `fleeting`
        is not missed when it goes.
        """
        rules, rule = question.rules, question.rule
        try:
            answer = await self._store.ask(question.query)
        except FedHPAError as error:
            return Gathered((), {STORE: str(error)})
        label, registered = rules.cluster_of(rule), self.members()
        # Series are told apart once for all clusters: what is wrong is said whoever asks for one of them.
        found = by_cluster(
            answer, label=label, default=rules.default_cluster, registered=registered, asked=asked
        )
        for reason, count in found.dropped.items():
            self._telemetry.dropped(reason, count)
        answers: dict[str, T] = {}
        missing: dict[str, str] = {}
        notes = [f"{STORE} warns: {text}" for text in answer.warnings[:MOST_WARNINGS]]
        notes += found.notes(label)
        for cluster in filter(question.wanted, sorted(registered)):
            spoiled = found.spoiled.get(cluster)
            try:
                if spoiled is not None and spoils:
                    raise MetricsUnavailable(spoiled)
                if spoiled is not None:
                    notes.append(f"some values of {cluster} are left out: {spoiled}")
                values = await self._told(question, cluster, found, fleeting=fleeting or spoiled is not None)
                if values:
                    answers[cluster] = told(cluster, values)
            except MetricsUnavailable as error:
                missing[cluster] = str(error)
            self.observer.outcome(api, cluster, cluster not in missing)
        return Gathered([answers[name] for name in sorted(answers)], missing, notes)

    async def _told(
        self, question: _Question, cluster: str, found: Sorted, *, fleeting: bool
    ) -> Sequence[Measured]:
        values = found.found.get(cluster)
        if values is None and question.expects(cluster):
            raise MetricsUnavailable(NOTHING)
        if not fleeting:
            await self._had.told(cluster, question.query.text, {}, _ready(values))
        return values or ()


class _Question:
    """A query by a rule, and the clusters that are wanted."""

    def __init__(self, rules: Rules, rule: Common, query: Query, wanted: Callable[[str], bool]) -> None:
        self.rules = rules
        self.rule = rule
        self.query = query
        self.wanted = wanted

    def expects(self, cluster: str) -> bool:
        """Whether a cluster must have series."""
        expected: Collection[str] = self.rule.clusters or ()
        return EVERY in expected or cluster in expected


async def _ready(values: Sequence[Measured] | None) -> Sequence[Measured] | None:
    return values


def _query(rule: Common, text: str, matchers: Iterable[str], group_by: Iterable[str]) -> Query:
    return Query(filled(text, matchers, group_by), rule.lookback or 0)


def _series(measured: Measured, metric: str, rule: ExternalRule) -> Series:
    return Series(metric, measured.labels, measured.at, rule.window, measured.amount)
