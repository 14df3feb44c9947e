"""What is asked of a metrics store, by which rule, and which series of its answer were asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from fedhpa.api.selectors import Selector
from metrics_adapter.kinds import MetricsKind
from metrics_adapter.members.wanted import ALL, Selectors, Wanted
from metrics_adapter.prometheus.promql import equals, filled, selector_matchers
from metrics_adapter.prometheus.rules import EVERY, Common, CustomRule, ExternalRule, Rules, UsageRule
from metrics_adapter.prometheus.store import Query

Clusters = Callable[[str], bool]


@dataclass(frozen=True)
class Question:
    """A query by a rule, the clusters that are wanted, and whether a series with such labels was asked for.

    `label` names the cluster of a series, `default` is that of series without it. What is `fleeting` is one
    pod's: pods come and go, and nobody misses one that went.
    """

    rule: Common
    label: str
    default: str | None
    query: Query
    wanted: Clusters
    asked: Callable[[Mapping[str, str]], bool]
    fleeting: bool = False

    def expects(self, cluster: str) -> bool:
        """Whether a cluster must have series."""
        expected = self.rule.clusters or ()
        return EVERY in expected or cluster in expected


def external_question(
    rules: Rules, rule: ExternalRule, namespace: str, selector: Selector, wanted: Clusters
) -> Question:
    """All values of a metric in a namespace."""
    label = rules.namespace_of(rule)
    place = {label: namespace} if rule.namespaced else {}
    matchers = [*_equal(place), *selector_matchers(selector, rule.selector_labels, "labelSelector")]

    def asked(labels: Mapping[str, str]) -> bool:
        # A query that sums over namespaces has the matcher's word for it.
        return not rule.namespaced or labels.get(label, namespace) == namespace

    return _question(rules, rule, rule.query, matchers, list(place), wanted, asked)


def custom_question(
    rules: Rules, rule: CustomRule, wanted: Wanted, selectors: Selectors, clusters: Clusters
) -> Question:
    """The values of one object or of all that are selected."""
    _, _, object_label = rule.described
    places = [rules.namespace_of(rule)] if rule.is_namespaced else []
    place = {} if wanted.namespace in ("", ALL) else dict.fromkeys(places, wanted.namespace)
    if wanted.name != ALL:
        place[object_label] = wanted.name
    matchers = [
        *_equal(place),
        *selector_matchers(selectors.objects, rule.selector_labels, "labelSelector"),
        *selector_matchers(selectors.metric, rule.selector_labels, "metricLabelSelector"),
    ]
    names = [*places, object_label]
    question = _question(rules, rule, rule.query, matchers, names, clusters, _of(place, names))
    return replace(question, fleeting=wanted.fleeting)


def usage_question(
    rules: Rules,
    rule: UsageRule,
    query: str,
    kind: MetricsKind,
    name: tuple[str, str],
    selector: Selector,
    clusters: Clusters,
) -> Question:
    """One resource's usage by what has the namespace and name of `name`, "" for all."""
    names = usage_labels(rules, rule, kind)
    place = {label: text for label, text in zip(names, name, strict=True) if label and text}
    matchers = [*_equal(place), *selector_matchers(selector, rule.selector_labels, "labelSelector")]
    needed = [label for label in names if label] + ([rule.container_label] if kind.namespaced else [])
    question = _question(rules, rule, query, matchers, needed, clusters, _of(place, needed))
    return replace(question, fleeting=bool(name[1]))


def usage_labels(rules: Rules, rule: UsageRule, kind: MetricsKind) -> tuple[str, str]:
    """The labels of namespace ("" for what has none) and name."""
    name = rule.object_label or kind.plural.removesuffix("s")
    return rules.namespace_of(rule) if kind.namespaced else "", name


def _question(
    rules: Rules,
    rule: Common,
    query: str,
    matchers: Iterable[str],
    names: Iterable[str],
    wanted: Clusters,
    asked: Callable[[Mapping[str, str]], bool],
) -> Question:
    label = rules.cluster_of(rule)
    text = filled(query, matchers, dict.fromkeys([label, *names]))
    return Question(rule, label, rules.default_cluster, Query(text, rule.lookback or 0), wanted, asked)


def _equal(place: Mapping[str, str]) -> list[str]:
    return [equals(label, text) for label, text in place.items()]


def _of(place: Mapping[str, str], needed: Iterable[str]) -> Callable[[Mapping[str, str]], bool]:
    exact, known = tuple(place.items()), tuple(needed)

    def asked(labels: Mapping[str, str]) -> bool:
        for label, text in exact:  # not any(): this is asked of tens of thousands of series
            if labels.get(label) != text:
                return False
        for label in known:  # noqa: SIM110 - as above
            if not labels.get(label):
                return False
        return True

    return asked
