"""The rules: which metrics a metrics store has, by which query, and whose its series are.

A person writes it (YAML), so it is read with pydantic: an error names the field and the remedy.
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
            raise ValueError(f"{found} is no placeholder: expected {MATCHERS} or {GROUP_BY}")
    if MATCHERS not in text:
        raise ValueError(
            f"expected {MATCHERS} between the braces of each series, or the query answers for all namespaces"
        )
    if len(text) > MAX_QUERY:
        raise ValueError(f"expected at most {MAX_QUERY} characters")
    return text.strip()


def _cluster(text: str) -> str:
    if dns_subdomain(text):
        raise ValueError(f"{text!r} is no name of a cluster: expected one as `kubectl get clusters` shows it")
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
# "*" stands for every registered cluster.
Expected = list[Annotated[str, AfterValidator(lambda text: text if text == ALL_CLUSTERS else _cluster(text))]]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, alias_generator=to_camel)


class RuleBase(_Model):
    """What all kinds of rules have. `clusters` are those that must have series, or are missing."""

    cluster_label: Label | None = None
    namespace_label: Label | None = None
    selector_labels: dict[str, Label] = Field(default_factory=dict)
    clusters: Expected | None = None
    window: Seconds | None = None
    lookback: Seconds | None = None


class ExternalRule(RuleBase):
    """A metric of external.metrics.k8s.io; with an `aggregation` its clusters' values become one."""

    metric: Metric
    query: Query
    namespaced: bool = True
    aggregation: Aggregation | None = None


# Kind, apiVersion and label of the objects that people scale by; others say theirs.
KNOWN = {
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
OF_ROOT = frozenset({"nodes", "namespaces"})


class CustomRule(RuleBase):
    """A metric of objects, custom.metrics.k8s.io; `resource` as in the path: "pods", "deployments.apps"."""

    metric: Metric
    query: Query
    resource: Metric
    kind: str = ""
    api_version: str = ""
    object_label: Label | None = None
    namespaced: bool | None = None
    aggregation: Aggregation = "Sum"

    @model_validator(mode="after")
    def _describes(self) -> CustomRule:
        if self.resource not in KNOWN and not (self.kind and self.api_version and self.object_label):
            raise ValueError(
                f"resource {self.resource!r} is not one of {', '.join(sorted(KNOWN))}: expected kind,"
                " apiVersion and objectLabel with it"
            )
        return self

    @property
    def described(self) -> tuple[str, str, str]:
        """Kind, apiVersion, and the label that holds the object's name."""
        kind, version, label = KNOWN.get(self.resource, ("", "", ""))
        return self.kind or kind, self.api_version or version, self.object_label or label

    @property
    def is_namespaced(self) -> bool:
        """Whether the objects have a namespace."""
        return self.resource not in OF_ROOT if self.namespaced is None else self.namespaced


class UsageRule(RuleBase):
    """CPU and memory of pods or nodes, metrics.k8s.io; the container's label is of pods alone."""

    cpu: Query
    memory: Query
    object_label: Label | None = None
    container_label: Label = "container"
    window: Seconds | None = 60


class Resources(_Model):
    """metrics.k8s.io: what is not given is asked of members."""

    pods: UsageRule | None = None
    nodes: UsageRule | None = None


class Rules(_Model):
    """A whole rules file. The names of labels hold for rules that give none of their own."""

    cluster_label: Label = "cluster"
    namespace_label: Label = "namespace"
    default_cluster: Cluster | None = None
    external: list[ExternalRule] = Field(default_factory=list, max_length=MAX_RULES)
    custom: list[CustomRule] = Field(default_factory=list, max_length=MAX_RULES)
    resources: Resources = Resources()

    @model_validator(mode="after")
    def _names_once(self) -> Rules:
        _once([rule.metric for rule in self.external], "external")
        _once([f"{rule.resource}/{rule.metric}" for rule in self.custom], "custom")
        return self

    @model_validator(mode="after")
    def _labels_apart(self) -> Rules:
        # One label cannot tell both cluster and object: no series would be anybody's.
        for index, external in enumerate(self.external):
            self._apart(f"external[{index}]", external, namespaced=external.namespaced)
        for index, custom in enumerate(self.custom):
            label = custom.described[2]
            self._apart(f"custom[{index}]", custom, namespaced=custom.is_namespaced, object=label)
        pods, nodes = self.resources.pods, self.resources.nodes
        if pods is not None:
            labels = {"object": pods.object_label or "pod", "container": pods.container_label}
            self._apart("resources.pods", pods, namespaced=True, **labels)
        if nodes is not None:
            self._apart("resources.nodes", nodes, namespaced=False, object=nodes.object_label or "node")
        return self

    def _apart(self, field: str, rule: RuleBase, *, namespaced: bool, **labels: str) -> None:
        told = {"cluster": self.cluster_of(rule), **labels}
        if namespaced:
            told["namespace"] = self.namespace_of(rule)
        names: dict[str, str] = {}
        for name, label in told.items():
            if label in names:
                raise ValueError(
                    f"{field}: {label!r} is {names[label]}Label and {name}Label: expected a label for each"
                )
            names[label] = name

    def external_rule(self, metric: str) -> ExternalRule | None:
        """The rule of an external metric."""
        return next((rule for rule in self.external if rule.metric == metric), None)

    def custom_rule(self, resource: str, metric: str) -> CustomRule | None:
        """The rule of a metric of objects."""
        wanted = (resource, metric)
        return next((rule for rule in self.custom if (rule.resource, rule.metric) == wanted), None)

    def cluster_of(self, rule: RuleBase) -> str:
        """The label that names the cluster of a rule's series."""
        return rule.cluster_label or self.cluster_label

    def namespace_of(self, rule: RuleBase) -> str:
        """The label that names the namespace of a rule's series."""
        return rule.namespace_label or self.namespace_label


def _once(names: Sequence[str], field: str) -> None:
    seen = set()
    for name in names:
        if name in seen:
            raise ValueError(f"{field}: {name!r} has two rules: keep one")
        seen.add(name)
