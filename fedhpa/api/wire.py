"""What we read of other people's objects: partial, typed msgspec structs for the hot path.

Decoding names only the fields that somebody here uses; everything else in the bytes is skipped without
being built (measured: 289 ms for 10,000 fat pods against 11.3 s for generated models). Quantities and
times stay as they came: who needs a number parses it once (`fedhpa.api.quantity`, `fedhpa.api.times`).
All structs are frozen; names are the API's.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

RawQuantity = str | int | float

# Karmada's: its printers and clients read here which cluster an item of a metrics API is of.
CLUSTER_ANNOTATION = "resource.karmada.io/query-from-cluster"


class ObjectMeta(msgspec.Struct, frozen=True, gc=False):
    """The part of metav1.ObjectMeta that is read on the hot path."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""
    generation: int = 0
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    deletionTimestamp: str | None = None


class ListMeta(msgspec.Struct, frozen=True, gc=False, rename={"continue_": "continue"}):
    """metav1.ListMeta."""

    resourceVersion: str = ""
    continue_: str = ""


class Resources(msgspec.Struct, frozen=True, gc=False):
    """core/v1 ResourceRequirements: requests only."""

    requests: dict[str, RawQuantity] | None = None


class Container(msgspec.Struct, frozen=True, gc=False):
    """core/v1 Container: what the replica arithmetic reads."""

    name: str = ""
    resources: Resources | None = None
    restartPolicy: str | None = None


class PodSpec(msgspec.Struct, frozen=True, gc=False):
    """core/v1 PodSpec: what the replica arithmetic reads."""

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


class PodStatus(msgspec.Struct, frozen=True, gc=False):
    """core/v1 PodStatus: what the replica arithmetic reads."""

    phase: str = ""
    startTime: str | None = None
    conditions: list[PodCondition] | None = None


class Pod(msgspec.Struct, frozen=True, gc=False):
    """core/v1 Pod."""

    metadata: ObjectMeta = ObjectMeta()
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
    """core/v1 ObjectReference as custom metrics use it."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    apiVersion: str = ""


class MetricIdentifier(msgspec.Struct, frozen=True, gc=False):
    """custom.metrics.k8s.io/v1beta2 MetricIdentifier; the selector is kept as decoded JSON."""

    name: str = ""
    selector: dict[str, object] | None = None


class MetricValue(msgspec.Struct, frozen=True, gc=False):
    """custom.metrics.k8s.io MetricValue: v1beta2 has metric, windowSeconds; v1beta1 metricName, window."""

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
    """autoscaling/v1 ScaleSpec; a template at 0 replicas is served without the field."""

    replicas: int = 0


class ScaleStatus(msgspec.Struct, frozen=True, gc=False):
    """autoscaling/v1 ScaleStatus; `selector` is the string form of a label selector."""

    replicas: int = 0
    selector: str = ""


class Scale(msgspec.Struct, frozen=True, gc=False):
    """autoscaling/v1 Scale."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ScaleSpec = ScaleSpec()
    status: ScaleStatus = ScaleStatus()


T = TypeVar("T")


class ObjectList(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """Any Kubernetes list; Go servers send `null` for an empty one."""

    metadata: ListMeta = ListMeta()
    items: list[T] | None = None
