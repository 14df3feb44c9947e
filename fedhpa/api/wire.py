"""Partial msgspec structs of Kubernetes objects, for the hot path.

The structs have only the fields that the product reads. Decoding skips all others without building them
(measured: 289 ms for 10,000 large pods, against 11.3 s with generated models). Quantities and times keep
their JSON form; callers parse them with `fedhpa.api.quantity` and `fedhpa.api.times`. All structs are frozen,
and names are the API's.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

RawQuantity = str | int | float

# Karmada's annotation on items of a metrics API. Its printers and clients read the cluster from it.
CLUSTER_ANNOTATION = "resource.karmada.io/query-from-cluster"


class ObjectMeta(msgspec.Struct, frozen=True, gc=False):
    """metav1.ObjectMeta: the fields that the hot path reads."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""
    generation: int = 0
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    deletionTimestamp: str | None = None


class WithMetadata(msgspec.Struct, frozen=True, gc=False):
    """The metadata of an object of any kind."""

    metadata: ObjectMeta = ObjectMeta()


class ListMeta(msgspec.Struct, frozen=True, gc=False, rename={"continue_": "continue"}):
    """metav1.ListMeta."""

    resourceVersion: str = ""
    continue_: str = ""


class Resources(msgspec.Struct, frozen=True, gc=False):
    """core/v1 ResourceRequirements: requests only."""

    requests: dict[str, RawQuantity] | None = None


class Container(msgspec.Struct, frozen=True, gc=False):
    """core/v1 Container: the fields that the replica arithmetic reads."""

    name: str = ""
    resources: Resources | None = None
    restartPolicy: str | None = None


class PodSpec(msgspec.Struct, frozen=True, gc=False):
    """core/v1 PodSpec: the fields that the replica arithmetic reads."""

    containers: list[Container] | None = None
    initContainers: list[Container] | None = None
    resources: Resources | None = None
    overhead: dict[str, RawQuantity] | None = None
    nodeName: str = ""


class PodCondition(msgspec.Struct, frozen=True, gc=False):
    """core/v1 PodCondition."""

    type: str = ""
    status: str = ""
    reason: str = ""
    lastTransitionTime: str | None = None


class ContainerStatus(msgspec.Struct, frozen=True, gc=False):
    """core/v1 ContainerStatus: the field that says how often it was started again."""

    restartCount: int = 0


class PodStatus(msgspec.Struct, frozen=True, gc=False):
    """core/v1 PodStatus: the fields that the replica arithmetic reads."""

    phase: str = ""
    startTime: str | None = None
    conditions: list[PodCondition] | None = None
    containerStatuses: list[ContainerStatus] | None = None


class PodMeta(ObjectMeta, frozen=True, gc=False):
    """metav1.ObjectMeta of a pod."""

    creationTimestamp: str | None = None


class Pod(msgspec.Struct, frozen=True, gc=False):
    """core/v1 Pod."""

    metadata: PodMeta = PodMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class ContainerMetrics(msgspec.Struct, frozen=True, gc=False):
    """metrics.k8s.io ContainerMetrics."""

    name: str = ""
    usage: dict[str, RawQuantity] | None = None


class PodMetrics(msgspec.Struct, frozen=True, gc=False):
    """metrics.k8s.io/v1beta1 PodMetrics; `window` is a Go duration ("30s")."""

    metadata: ObjectMeta = ObjectMeta()
    timestamp: str | None = None
    window: str | None = None
    containers: list[ContainerMetrics] | None = None


class ObjectReference(msgspec.Struct, frozen=True, gc=False):
    """core/v1 ObjectReference, as in custom metrics."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    apiVersion: str = ""


class MetricIdentifier(msgspec.Struct, frozen=True, gc=False):
    """custom.metrics.k8s.io/v1beta2 MetricIdentifier. The selector stays decoded JSON."""

    name: str = ""
    selector: dict[str, object] | None = None


class MetricValue(msgspec.Struct, frozen=True, gc=False):
    """custom.metrics.k8s.io MetricValue: v1beta2 with metric, windowSeconds; v1beta1 metricName, window."""

    describedObject: ObjectReference = ObjectReference()
    metric: MetricIdentifier | None = None
    metricName: str = ""
    timestamp: str | None = None
    windowSeconds: int | None = None
    window: int | None = None
    value: RawQuantity = "0"
    selector: dict[str, object] | None = None


class ExternalMetricValue(msgspec.Struct, frozen=True, gc=False):
    """external.metrics.k8s.io/v1beta1 ExternalMetricValue; `window` in seconds."""

    metricName: str = ""
    metricLabels: dict[str, str] | None = None
    timestamp: str | None = None
    window: int | None = None
    value: RawQuantity = "0"


class ScaleSpec(msgspec.Struct, frozen=True, gc=False):
    """autoscaling/v1 ScaleSpec. API servers omit `replicas` at 0."""

    replicas: int = 0


class ScaleStatus(msgspec.Struct, frozen=True, gc=False):
    """autoscaling/v1 ScaleStatus. `selector` is a label selector in string form."""

    replicas: int = 0
    selector: str = ""


class Scale(msgspec.Struct, frozen=True, gc=False):
    """autoscaling/v1 Scale."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ScaleSpec = ScaleSpec()
    status: ScaleStatus = ScaleStatus()


T = TypeVar("T")


class ObjectList(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """A Kubernetes list. Go servers may send `null` for an empty one, and always send `items`.

    `fedhpa.api.json` checks kind and apiVersion.
    """

    items: list[T] | None
    metadata: ListMeta = ListMeta()
    kind: str = ""
    apiVersion: str = ""

    def __len__(self) -> int:
        return len(self.items or ())
