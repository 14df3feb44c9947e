"""The queries to a metrics store for one workload.

Its demand comes by the rules of the adapter, the rest from kube-state-metrics. Pods are chosen by the names
that their controllers give them, so no label of a pod is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from fedhpa.api.errors import ConfigError
from fedhpa.api.selectors import selector_of
from fedhpa.backtest.comparison import scaling_object
from fedhpa.metric_types.metric import EXTERNAL_API, USAGE_API, ScalingMetric
from metrics_adapter.prometheus import Rules, UsageRule, equals, fill, quote, selector_matchers

# The rule of docs/how-to/metrics-store.md for pods, where a rules file has none. The window is short, so that
# a ramp is recorded when it came.
_CONTAINERS: Final = '{container!="",container!="POD",<<.LabelMatchers>>}'
DEFAULT_USAGE: Final = UsageRule(
    cpu=f"sum by (<<.GroupBy>>) (rate(container_cpu_usage_seconds_total{_CONTAINERS}[2m]))",
    memory=f"sum by (<<.GroupBy>>) (container_memory_working_set_bytes{_CONTAINERS})",
)
# The endings of names that the controllers of these kinds give to pods, and the series of kube-state-metrics
# with the replicas and the ready pods. The label of the workload is the kind.
_KINDS: Final = {
    "Deployment": ("-[0-9a-z]{1,10}-[0-9a-z]{5}", "spec_replicas", "status_replicas_ready"),
    "StatefulSet": ("-[0-9]{1,9}", "replicas", "status_replicas_ready"),
    "ReplicaSet": ("-[0-9a-z]{5}", "spec_replicas", "status_ready_replicas"),
}


class Query(NamedTuple):
    """A query with one series for each cluster, and the label that names the cluster."""

    text: str
    label: str


class WorkloadQueries:
    """The queries for the workload of a FederatedHPA. Raises ConfigError if no rule serves a metric."""

    def __init__(self, raw: Mapping[str, Any], rules: Rules) -> None:
        hpa = scaling_object(raw)
        self.spec, self.namespace = hpa.spec, hpa.namespace
        self._rules = rules
        self._usage = rules.resources.pods or DEFAULT_USAGE
        self._kind, self._name = hpa.spec.target_kind, hpa.spec.target_name
        # Names of workloads have no other character that a regular expression reads.
        self._pods = quote(self._name.replace(".", "\\.") + _KINDS.get(self._kind, ("-.+",))[0])

    def sizes(self) -> tuple[Query, Query]:
        """Returns the queries for the replicas and the ready pods, from kube-state-metrics."""
        if self._kind not in _KINDS:
            pods = self._chosen(f"pod=~{self._pods}")
            ready = self._chosen(f"pod=~{self._pods}", 'condition="true"')
            return self._by("count", f"kube_pod_info{pods}"), self._by("sum", f"kube_pod_status_ready{ready}")
        _, replicas, ready = _KINDS[self._kind]
        label = self._kind.lower()
        chosen = self._chosen(equals(label, self._name))
        return (
            self._by("max", f"kube_{label}_{replicas}{chosen}"),
            self._by("max", f"kube_{label}_{ready}{chosen}"),
        )

    def counted_pods(self) -> Query | None:
        """Returns the query for the number of pods with a usage; None if no metric is about usage."""
        metric = next((one for one in self.spec.metrics if one.metric_type.api == USAGE_API), None)
        if metric is None:
            return None
        label = self._rules.cluster_of(self._usage)
        by_pod = f"{label}, {self._usage.object_label or 'pod'}"
        return Query(f"count by ({label}) (sum by ({by_pod}) ({self._of_usage(metric)}))", label)

    def demand(self, metric: ScalingMetric) -> Query:
        """Returns the query for the total of a metric."""
        if metric.metric_type.api == USAGE_API:
            label = self._rules.cluster_of(self._usage)
            return Query(f"sum by ({label}) ({self._of_usage(metric)})", label)
        if metric.metric_type.api == EXTERNAL_API:
            return self._of_external(metric)
        return self._of_custom(metric)

    def of_pod(self, metric: ScalingMetric, series: str) -> Query | None:
        """Returns the query for the `requests` or `limits` of a pod; None for a metric that has none."""
        if metric.metric_type.api != USAGE_API:
            return None
        container = (equals("container", metric.container),) if metric.container else ()
        chosen = self._chosen(equals("resource", metric.name), f"pod=~{self._pods}", *container)
        name = f"kube_pod_container_resource_{series}{chosen}"
        return self._by("avg", f"sum by ({self._rules.cluster_label}, pod) ({name})")

    def _chosen(self, *matchers: str) -> str:
        return f"{{{','.join((equals(self._rules.namespace_label, self.namespace), *matchers))}}}"

    def _by(self, function: str, expression: str) -> Query:
        label = self._rules.cluster_label
        return Query(f"{function} by ({label}) ({expression})", label)

    def _of_usage(self, metric: ScalingMetric) -> str:
        rule, rules = self._usage, self._rules
        if metric.name not in ("cpu", "memory"):
            raise ConfigError(f"metric {metric.name}: of resources a recording has cpu and memory only")
        pod = rule.object_label or "pod"
        matchers = [equals(rules.namespace_of(rule), self.namespace), f"{pod}=~{self._pods}"]
        if metric.container:
            matchers.append(equals(rule.container_label, metric.container))
        groups = [rules.cluster_of(rule), rules.namespace_of(rule), pod, rule.container_label]
        return fill(rule.cpu if metric.name == "cpu" else rule.memory, matchers, groups)

    def _of_external(self, metric: ScalingMetric) -> Query:
        rules, rule = self._rules, self._rules.external_rule(metric.name)
        if rule is None:
            raise ConfigError(f"--metrics-rules: external: no rule for metric {metric.name}: add one")
        label = rules.cluster_of(rule)
        matchers = [equals(rules.namespace_of(rule), self.namespace)] if rule.namespaced else []
        groups = [label, *([rules.namespace_of(rule)] if rule.namespaced else [])]
        return _summed(rule, metric, label, matchers, groups)

    def _of_custom(self, metric: ScalingMetric) -> Query:
        rules, described = self._rules, metric.described_object or {}
        kind = "Pod" if metric.metric_type.per_pod else str(described.get("kind", ""))
        rule = next(
            (one for one in rules.custom if one.metric == metric.name and one.described[0] == kind), None
        )
        if rule is None:
            raise ConfigError(f"--metrics-rules: custom: no rule for metric {metric.name} of {kind}: add one")
        label, named = rules.cluster_of(rule), rule.described[2]
        matchers = [f"{named}=~{self._pods}"]
        if not metric.metric_type.per_pod:
            matchers = [equals(named, str(described.get("name", "")))]
        groups = [label, named]
        if rule.is_namespaced:
            matchers.append(equals(rules.namespace_of(rule), self.namespace))
            groups.append(rules.namespace_of(rule))
        return _summed(rule, metric, label, matchers, groups)


def _summed(rule: Any, metric: ScalingMetric, label: str, matchers: list[str], groups: list[str]) -> Query:
    if metric.selector is not None:
        chosen = selector_of(metric.selector)
        matchers = [*matchers, *selector_matchers(chosen, rule.selector_labels, "metric.selector")]
    return Query(f"sum by ({label}) ({fill(rule.query, matchers, groups)})", label)
