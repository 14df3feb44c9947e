"""The rules: which metrics come from a metrics store, by which query, and which labels identify objects.

A person writes the YAML, so pydantic validates it, and each error names the field and the remedy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)
from pydantic.alias_generators import to_camel

from fedhpa.api.errors import InvalidObject
from fedhpa.api.names import dns_subdomain
from fedhpa.api.times import parse_duration
from metrics_adapter.prometheus.promql import GROUP_BY, MATCHERS, PLACEHOLDER, is_label_name

MAX_RULES = 1000
MAX_QUERY = 8192
MAX_METRIC = 512
ALL_CLUSTERS = "*"


def _label(text: str) -> str:
    if not is_label_name(text):
        raise ValueError(
            f"{text!r} is not a label name: expected letters, digits and _, not beginning with __"
        )
    return text


def _metric(text: str) -> str:
    if not text or "/" in text or text in (".", "..") or len(text) > MAX_METRIC or not text.isprintable():
        raise ValueError(f"expected the name of a metric, without '/', of 1 to {MAX_METRIC} characters")
    return text


def _query(text: str) -> str:
    for found in PLACEHOLDER.findall(text):
        if found not in (MATCHERS, GROUP_BY):
            raise ValueError(f"{found} is not a placeholder: expected {MATCHERS} or {GROUP_BY}")
    if MATCHERS not in text:
        raise ValueError(
            f"expected {MATCHERS} between the braces of each series, or the query answers for all namespaces"
        )
    if len(text) > MAX_QUERY:
        raise ValueError(f"expected at most {MAX_QUERY} characters")
    return text.strip()


def _cluster(text: str) -> str:
    if dns_subdomain(text):
        raise ValueError(
            f"{text!r} is not the name of a cluster: expected one that `kubectl get clusters` lists"
        )
    return text


def _seconds(value: object) -> object:
    if not isinstance(value, str):
        raise ValueError('expected a duration such as "2m"')  # noqa: TRY004 - pydantic wants a ValueError
    try:
        seconds = parse_duration(value)
    except (ValueError, InvalidObject):
        raise ValueError('expected a duration such as "2m"') from None
    if seconds < 1 or seconds != int(seconds):
        raise ValueError("expected whole seconds, at least 1s")
    return int(seconds)


Label = Annotated[str, AfterValidator(_label)]
Metric = Annotated[str, AfterValidator(_metric)]
Query = Annotated[str, AfterValidator(_query)]
Cluster = Annotated[str, AfterValidator(_cluster)]
Seconds = Annotated[int, BeforeValidator(_seconds)]
Aggregation = Literal["Sum", "Average", "Max", "Min"]
# "*" means every registered cluster.
Expected = list[Annotated[str, AfterValidator(lambda text: text if text == ALL_CLUSTERS else _cluster(text))]]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, alias_generator=to_camel)


class RuleBase(_Model):
    """The fields of all rules. A cluster in `clusters` is missing if it has no series."""

    cluster_label: Label | None = None
    namespace_label: Label | None = None
    selector_labels: dict[str, Label] = Field(default_factory=dict)
    clusters: Expected | None = None
    window: Seconds | None = None
    lookback: Seconds | None = None


class ExternalRule(RuleBase):
    """A metric of external.metrics.k8s.io. An `aggregation` combines the values of all clusters."""

    metric: Metric
    query: Query
    namespaced: bool = True
    aggregation: Aggregation | None = None


# Kind, apiVersion and label of common resources. A rule for another resource sets them itself.
KNOWN_RESOURCES = {
    "pods": ("Pod", "v1", "pod"),
    "services": ("Service", "v1", "service"),
    "nodes": ("Node", "v1", "node"),
    "namespaces": ("Namespace", "v1", "namespace"),
    "persistentvolumeclaims": ("PersistentVolumeClaim", "v1", "persistentvolumeclaim"),
    "deployments.apps": ("Deployment", "apps/v1", "deployment"),
    "statefulsets.apps": ("StatefulSet", "apps/v1", "statefulset"),
    "replicasets.apps": ("ReplicaSet", "apps/v1", "replicaset"),
    "jobs.batch": ("Job", "batch/v1", "job_name"),
    "ingresses.networking.k8s.io": ("Ingress", "networking.k8s.io/v1", "ingress"),
}
CLUSTER_SCOPED = frozenset({"nodes", "namespaces"})


class CustomRule(RuleBase):
    """A metric of custom.metrics.k8s.io. `resource` is as in the path: "pods", "deployments.apps"."""

    metric: Metric
    query: Query
    resource: Metric
    kind: str = ""
    api_version: str = ""
    object_label: Label | None = None
    namespaced: bool | None = None
    aggregation: Aggregation = "Sum"

    @model_validator(mode="after")
    def _check_resource(self) -> CustomRule:
        if self.resource not in KNOWN_RESOURCES and not (
            self.kind and self.api_version and self.object_label
        ):
            raise ValueError(
                f"resource {self.resource!r} is not one of {', '.join(sorted(KNOWN_RESOURCES))}:"
                " expected kind, apiVersion and objectLabel with it"
            )
        return self

    @property
    def described(self) -> tuple[str, str, str]:
        """Kind, apiVersion, and the label with the name of the object."""
        kind, version, label = KNOWN_RESOURCES.get(self.resource, ("", "", ""))
        return self.kind or kind, self.api_version or version, self.object_label or label

    @property
    def is_namespaced(self) -> bool:
        """True if the objects have a namespace."""
        return self.resource not in CLUSTER_SCOPED if self.namespaced is None else self.namespaced


class UsageRule(RuleBase):
    """CPU and memory of pods or nodes, metrics.k8s.io. Only pods have a container label."""

    cpu: Query
    memory: Query
    object_label: Label | None = None
    container_label: Label = "container"
    window: Seconds | None = 60


class Resources(_Model):
    """The rules of metrics.k8s.io. A resource without a rule comes from the members."""

    pods: UsageRule | None = None
    nodes: UsageRule | None = None


class Rules(_Model):
    """A whole rules file. Its label names are the defaults of its rules."""

    cluster_label: Label = "cluster"
    namespace_label: Label = "namespace"
    default_cluster: Cluster | None = None
    external: list[ExternalRule] = Field(default_factory=list, max_length=MAX_RULES)
    custom: list[CustomRule] = Field(default_factory=list, max_length=MAX_RULES)
    resources: Resources = Resources()

    @model_validator(mode="after")
    def _check_names(self) -> Rules:
        _check_unique([rule.metric for rule in self.external], "external")
        _check_unique([f"{rule.resource}/{rule.metric}" for rule in self.custom], "custom")
        return self

    @model_validator(mode="after")
    def _check_all_labels(self) -> Rules:
        # If one label named both cluster and object, no series could be assigned.
        for index, external in enumerate(self.external):
            self._check_labels(f"external[{index}]", external, namespaced=external.namespaced)
        for index, custom in enumerate(self.custom):
            label = custom.described[2]
            self._check_labels(f"custom[{index}]", custom, namespaced=custom.is_namespaced, object=label)
        pods, nodes = self.resources.pods, self.resources.nodes
        if pods is not None:
            labels = {"object": pods.object_label or "pod", "container": pods.container_label}
            self._check_labels("resources.pods", pods, namespaced=True, **labels)
        if nodes is not None:
            self._check_labels(
                "resources.nodes", nodes, namespaced=False, object=nodes.object_label or "node"
            )
        return self

    def _check_labels(self, field: str, rule: RuleBase, *, namespaced: bool, **labels: str) -> None:
        labels_by_field = {"cluster": self.cluster_of(rule), **labels}
        if namespaced:
            labels_by_field["namespace"] = self.namespace_of(rule)
        names: dict[str, str] = {}
        for name, label in labels_by_field.items():
            if label in names:
                raise ValueError(
                    f"{field}: {label!r} is {names[label]}Label and {name}Label: expected a label for each"
                )
            names[label] = name

    def external_rule(self, metric: str) -> ExternalRule | None:
        """Returns the rule of an external metric, or None."""
        return next((rule for rule in self.external if rule.metric == metric), None)

    def custom_rule(self, resource: str, metric: str) -> CustomRule | None:
        """Returns the rule of a custom metric, or None."""
        wanted = (resource, metric)
        return next((rule for rule in self.custom if (rule.resource, rule.metric) == wanted), None)

    def cluster_of(self, rule: RuleBase) -> str:
        """Returns the label that names the cluster of a rule's series."""
        return rule.cluster_label or self.cluster_label

    def namespace_of(self, rule: RuleBase) -> str:
        """Returns the label that names the namespace of a rule's series."""
        return rule.namespace_label or self.namespace_label


def _check_unique(names: Sequence[str], field: str) -> None:
    seen = set()
    for name in names:
        if name in seen:
            raise ValueError(f"{field}: {name!r} has two rules: keep one")
        seen.add(name)
