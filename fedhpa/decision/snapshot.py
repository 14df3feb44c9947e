"""Everything a decision looks at: gathered by the controller, or read from a recorded scenario."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fedhpa.api.known_cluster import KnownCluster
from fedhpa.decision.absence import Absence
from fedhpa.decision.spec.federatedhpa import ScalingObject
from fedhpa.scaling.records import CustomSample, ExternalSample, PodRecord, UsageRecord


class Failure(msgspec.Struct, frozen=True):
    """Data that could not be had, with the reason as one line."""

    error: str


# Of one cluster: all there is to select from, why there is nothing, or the answer to each question that was
# asked by itself (`fedhpa.decision.asked`): then the server has selected, and one may fail alone.
CustomMetrics = tuple[CustomSample, ...] | Mapping[str, tuple[CustomSample, ...] | Failure] | Failure
ExternalMetrics = tuple[ExternalSample, ...] | Mapping[str, tuple[ExternalSample, ...] | Failure] | Failure


class ClusterScale(msgspec.Struct, frozen=True):
    """The scale sub-resource of the workload in one cluster."""

    spec_replicas: int = 0
    status_replicas: int = 0
    selector: str = ""


class MemberHPA(msgspec.Struct, frozen=True):
    """The HPA that mode Distributed keeps in one cluster."""

    min_replicas: int = 1
    max_replicas: int = 0
    current_replicas: int = 0
    desired_replicas: int = 0


class ClusterSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One candidate cluster.

    `error` says why it does not answer although it is ready. `absence` is the
    clock of its loss (None: it has none); past `lostAfterSeconds` it is no longer expected. `last_replicas`
    is its last known share of the workload. `pods` are those that the scale's selector matches,
    `other_pods` the names of the namespace's other listed pods, and `usage` is that of the workload alone
    (`fedhpa.scaling.selection`). `selector_error` says why the selector cannot be parsed.
    `available_replicas` is how many more replicas it could run, None if unknown; `most_replicas` how many it
    may have by clusterHPAPreference, None for no limit; `cluster` has what cluster
    affinities look at beside the name. A `held` one answers, but its share cannot be changed now.
    """

    name: str
    ready: bool = True
    error: str | None = None
    scale: ClusterScale | Failure = Failure("scale was not read")
    selector_error: str | None = None
    pods: tuple[PodRecord, ...] = ()
    other_pods: frozenset[str] = frozenset()
    usage: tuple[UsageRecord, ...] | Failure = ()
    custom_metrics: CustomMetrics = ()
    external_metrics: ExternalMetrics = ()
    available_replicas: int | None = None
    most_replicas: int | None = None
    last_replicas: int | None = None
    absence: Absence | None = None
    hpa: MemberHPA | None = None
    cluster: KnownCluster | None = None
    held: bool = False


class Target(msgspec.Struct, frozen=True):
    """The scale of the workload's template on the hub (propagation karmada)."""

    replicas: int = 0
    generation: int | None = None


class Blocked(msgspec.Struct, frozen=True):
    """Why the world of an object was not even looked at: the reason and message of a condition that is False.

    `event` is the reason of the event where it is another one (Karmada: FailedGetBindings).
    """

    reason: str
    message: str
    event: str = ""
    condition: str = "AbleToScale"


class Finding(msgspec.Struct, frozen=True):
    """What is wrong with the hub for all objects: the reason and the message of a condition that is False."""

    reason: str
    message: str


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One autoscaler's world at one moment.

    `target` is None with direct propagation: then the members' scales are the workload's size.
    `ambiguous_with` names the autoscalers (namespace/name, this one included) whose selectors match the same
    pods, if there is more than one. `contested_by` are other autoscalers of the same
    workload, in words. `blocked` is None unless nothing could be gathered or
    somebody else acts. `hub_findings` are about the hub and not about this object.
    """

    hpa: ScalingObject
    clusters: tuple[ClusterSnapshot, ...] = ()
    target: Target | Failure | None = None
    hub_custom_metrics: tuple[CustomSample, ...] = ()
    hub_external_metrics: tuple[ExternalSample, ...] = ()
    ambiguous_with: tuple[str, ...] = ()
    contested_by: tuple[str, ...] = ()
    blocked: Blocked | None = None
    hub_findings: tuple[Finding, ...] = ()
