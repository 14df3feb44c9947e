"""Metrics of a metrics store for what rules name, and of the members for all else.

A registered cluster of which the store has no series is missing where its rule says that it is expected, or
where it had some minutes ago; else there is nothing of it. One whose exporter went away is so never zero.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from fedhpa.api.errors import FedHPAError, MetricsUnavailable
from fedhpa.api.selectors import Selector
from fedhpa.members.metrics import CUSTOM, EXTERNAL
from metrics_adapter.kinds import GROUP, PODS, MetricsKind
from metrics_adapter.members.gather import Gathered, MembersSource
from metrics_adapter.members.items import MemberItems
from metrics_adapter.members.remembered import Remembered
from metrics_adapter.members.series import Series, Told
from metrics_adapter.members.values import Value
from metrics_adapter.members.wanted import Selectors, Wanted
from metrics_adapter.prometheus.answer import Answer
from metrics_adapter.prometheus.questions import (
    Question,
    custom_question,
    external_question,
    usage_labels,
    usage_question,
)
from metrics_adapter.prometheus.rules import Rules, UsageRule
from metrics_adapter.prometheus.series import Measured, Sorted, by_cluster
from metrics_adapter.prometheus.store import Store
from metrics_adapter.prometheus.telemetry import StoreTelemetry
from metrics_adapter.prometheus.usage import member_items
from metrics_adapter.prometheus.values import object_values

T = TypeVar("T")

# What reasons and warnings call it, where members have their name.
STORE = "the metrics store"
NOTHING = "the metrics store has no series of it"
# Series of an answer above which it is worked on in a thread: some 20 ms.
LARGE = 1000
# Who owns what is measured may give it labels without end, and each request works on all of them: for so many
# a fifth of a second. Usage is made once for all who ask.
MOST_VALUES = 10_000
# Lists of usage that are kept ready; each may be megabytes.
MOST_MADE = 4
# Rules and answers, which are the same if they are the same objects, and the registered clusters.
_MadeOf = tuple[tuple[Rules, Answer, Answer], list[str]]


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
        self._made: dict[str, tuple[_MadeOf, Gathered[MemberItems]]] = {}
        self._making = asyncio.Lock()

    async def external(
        self, namespace: str, metric: str, selector: Selector, wanted: Callable[[str], bool]
    ) -> Gathered[Told]:
        """As its rule says: one value a series, its cluster told apart."""
        rules = self._rules.current
        rule = rules.external_rule(metric)
        if rule is None:
            return await super().external(namespace, metric, selector, wanted)
        window = rule.window

        def told(cluster: str, found: Sequence[Measured]) -> Told:
            if len({frozenset(one.labels.items()) for one in found}) < len(found):
                raise MetricsUnavailable("the metrics store has two values of it with the same labels")
            return Told(cluster, [Series(metric, one.labels, one.at, window, one.amount) for one in found])

        question = external_question(rules, rule, namespace, selector, wanted)
        gathered = await self._ask(question, told, spoils=True, api=EXTERNAL)
        return replace(gathered, aggregation=rule.aggregation or "")

    async def custom(
        self, wanted: Wanted, selectors: Selectors, cluster: str | None
    ) -> Gathered[Sequence[Value]]:
        """As its rule says: one value an object and cluster."""
        rules = self._rules.current
        rule = rules.custom_rule(wanted.resource, wanted.metric)
        if rule is None:
            return await super().custom(wanted, selectors, cluster)
        namespace = rules.namespace_of(rule) if rule.is_namespaced else None

        def told(_: str, found: Sequence[Measured]) -> Sequence[Value]:
            return object_values(found, rule, namespace, selectors.metric)

        question = custom_question(rules, rule, wanted, selectors, _only(cluster))
        # One pod without a number leaves that pod out; a sum without a part of it would be wrong.
        spoils = wanted.resource != PODS.plural
        gathered = await self._ask(question, told, spoils=spoils, api=CUSTOM)
        return replace(gathered, aggregation=rule.aggregation)

    async def list(
        self, kind: MetricsKind, namespace: str, selector: Selector, cluster: str | None
    ) -> Gathered[MemberItems]:
        """The usage of a namespace ("" for all)."""
        rule = self._usage(kind)
        if rule is None:
            return await super().list(kind, namespace, selector, cluster)
        return await self._usages(rule, kind, (namespace, ""), selector, cluster)

    async def get(
        self, kind: MetricsKind, namespace: str, name: str, cluster: str | None
    ) -> Gathered[MemberItems]:
        """The usage of what has that name."""
        rule = self._usage(kind)
        if rule is None:
            return await super().get(kind, namespace, name, cluster)
        return await self._usages(rule, kind, (namespace, name), Selector(), cluster)

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
        name: tuple[str, str],
        selector: Selector,
        cluster: str | None,
    ) -> Gathered[MemberItems]:
        rules = self._rules.current
        cpu, memory = (
            usage_question(rules, rule, query, kind, name, selector, _only(cluster))
            for query in (rule.cpu, rule.memory)
        )
        try:
            answers = await asyncio.gather(self._store.ask(cpu.query), self._store.ask(memory.query))
        except FedHPAError as error:
            return Gathered((), {STORE: str(error)})
        made_of = (rules, *answers), sorted(self.members())
        place = f"{kind.plural} {name} {selector} {cluster}"
        async with self._making:
            kept = self._made.pop(place, None)
            if kept is None or not _same(kept[0], made_of):
                labels = usage_labels(rules, rule, kind)
                found = await self._usage_of(cpu, answers[0]), await self._usage_of(memory, answers[1])
                whole = await _aside(answers[0], lambda: member_items(*found, kind, rule, labels))
                kept = made_of, whole
            # The last one used goes to the end, the first one goes.
            self._made[place] = kept
            if len(self._made) > MOST_MADE:
                del self._made[next(iter(self._made))]
        return kept[1]

    async def _usage_of(self, question: Question, answer: Answer) -> Gathered[tuple[str, Sequence[Measured]]]:
        # One pod without a number leaves that pod out.
        return await self._gathered(question, answer, _pair, spoils=False, api=GROUP)

    async def _ask(
        self,
        question: Question,
        told: Callable[[str, Sequence[Measured]], T],
        *,
        spoils: bool,
        api: str,
    ) -> Gathered[T]:
        """What the store has of each wanted cluster, as `told` makes it."""
        try:
            answer = await self._store.ask(question.query)
            if len(answer.series) > MOST_VALUES:
                raise MetricsUnavailable(
                    f"its answer has more than {MOST_VALUES} series: let the rule's query aggregate"
                )
        except FedHPAError as error:
            return Gathered((), {STORE: str(error)})
        return await self._gathered(question, answer, told, spoils=spoils, api=api)

    async def _gathered(
        self,
        question: Question,
        answer: Answer,
        told: Callable[[str, Sequence[Measured]], T],
        *,
        spoils: bool,
        api: str,
    ) -> Gathered[T]:
        """The same of an answer.

        With `spoils` a series without a usable value makes its whole cluster missing.
        """
        registered = frozenset(self.members())
        # Series are told apart once for all clusters: what is wrong is said whoever asks for one of them.
        found = await _aside(
            answer,
            lambda: by_cluster(
                answer,
                label=question.label,
                default=question.default,
                registered=registered,
                asked=question.asked,
            ),
        )
        for reason, count in found.dropped.items():
            self._telemetry.dropped(reason, count)
        answers: dict[str, T] = {}
        missing: dict[str, str] = {}
        notes = [f"{STORE} warns: {text}" for text in answer.warnings]
        notes += found.notes(question.label)
        for cluster in filter(question.wanted, sorted(registered)):
            spoiled = found.spoiled.get(cluster)
            try:
                if spoiled is not None and spoils:
                    raise MetricsUnavailable(spoiled)
                if spoiled is not None:
                    notes.append(f"some values of {cluster} are left out: {spoiled}")
                values = await self._told(question, cluster, found)
                if values:
                    answers[cluster] = told(cluster, values)
            except MetricsUnavailable as error:
                missing[cluster] = str(error)
            self.observer.outcome(api, cluster, cluster not in missing)
        return Gathered([answers[name] for name in sorted(answers)], missing, notes)

    async def _told(self, question: Question, cluster: str, found: Sorted) -> Sequence[Measured]:
        values = found.found.get(cluster)
        if values is None and question.expects(cluster):
            raise MetricsUnavailable(NOTHING)
        if not question.fleeting and cluster not in found.spoiled:
            await self._had.told(cluster, question.query.text, {}, _ready(values))
        return values or ()


async def _aside(answer: Answer, work: Callable[[], T]) -> T:
    # What takes long may take longer, but not the event loop from others.
    return work() if len(answer.series) < LARGE else await asyncio.to_thread(work)


def _pair(cluster: str, found: Sequence[Measured]) -> tuple[str, Sequence[Measured]]:
    return cluster, found


def _same(one: _MadeOf, other: _MadeOf) -> bool:
    return one[1] == other[1] and all(a is b for a, b in zip(one[0], other[0], strict=True))


async def _ready(values: Sequence[Measured] | None) -> Sequence[Measured] | None:
    return values


def _only(cluster: str | None) -> Callable[[str], bool]:
    return lambda name: cluster in (None, name)
