"""The input of a decision: the controller gathers it, or a recorded scenario holds it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fedhpa.api.known_cluster import KnownCluster
from fedhpa.api.member_hpas import MemberHpa
from fedhpa.api.selectors import Selector
from fedhpa.api.wire import Scale
from fedhpa.decision.memory import NO_MEMORY, Absence, MemoryState
from fedhpa.decision.model import Step
from fedhpa.decision.spec import ScalingObject
from fedhpa.scaling import CustomSample, ExternalSample, PodRecord, UsageRecord


class Failure(msgspec.Struct, frozen=True):
    """Data that could not be read, with the reason as one line."""

    error: str


# The metric values of one cluster: all values, the reason why there are none, or one answer for each query
# (`ScalingMetric.query_key`). Then the server has selected the values, and one query may fail alone.
CustomMetrics = tuple[CustomSample, ...] | Mapping[str, tuple[CustomSample, ...] | Failure] | Failure
ExternalMetrics = tuple[ExternalSample, ...] | Mapping[str, tuple[ExternalSample, ...] | Failure] | Failure


class ClusterScale(msgspec.Struct, frozen=True):
    """The scale sub-resource of the workload in one cluster."""

    spec_replicas: int = 0
    status_replicas: int = 0
    selector: str = ""


class WorkloadReading(msgspec.Struct, frozen=True, kw_only=True):
    """The workload as one cluster has it, for whoever writes to it or compares selectors.

    `path` is its URL path in that cluster, and `scale` what a write must be based on. `selector` is None if
    the scale has none. `is_absent` says that the cluster answered that it has no such workload. `label_sets`
    are the label sets of its pods.
    """

    path: str = ""
    scale: Scale | None = None
    selector: Selector | None = None
    is_absent: bool = False
    label_sets: tuple[Mapping[str, str], ...] = ()


class ClusterSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One candidate cluster.

    `error` says why it does not answer although it is ready. `selector_error` says why the scale's selector
    cannot be parsed. `pods` are those that the selector matches, `usage` is theirs, and `other_pods` are the
    names of the namespace's other listed pods (`fedhpa.scaling.selection`).
    `absence` is the clock of the cluster's loss, None if no clock runs. `last_replicas` is its last known
    share of the workload. `available_replicas` is how many more replicas it could run, None if unknown.
    `most_replicas` is its limit by clusterHPAPreference, None for no limit. `cluster` has the fields that
    cluster affinities select by. A `held` cluster answers, but its share cannot be changed now.
    `hpa` is the cluster's HPA of the FederatedHPA's name, None if there is none (mode Distributed only).
    `pending_replicas` have waited for a node longer than the delay, None to count them from the pods.
    `drift` are the fields of the HPA's spec, besides its bounds, that are not as the FederatedHPA has them.
    `implausible_for` is for how many seconds its answers were implausible (`fedhpa.decision.context`);
    None reports an implausible answer at once. No decision reads `workload`.
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
    hpa: MemberHpa | Failure | None = None
    pending_replicas: int | None = None
    drift: tuple[str, ...] = ()
    cluster: KnownCluster | None = None
    held: bool = False
    implausible_for: float | None = None
    workload: WorkloadReading = WorkloadReading()


class TemplateScale(msgspec.Struct, frozen=True):
    """The scale of the workload's template on the hub (propagation karmada).

    `scheduling` is Duplicated if each cluster runs the template's number, Divided if they share it, and "" if
    that is unknown.
    """

    replicas: int = 0
    generation: int | None = None
    scheduling: str = ""


class Blocked(msgspec.Struct, frozen=True):
    """The obstacle to any decision: the reason and message of a condition that is then False.

    `event` is the reason of the event if it differs (Karmada: FailedGetBindings).
    """

    reason: str
    message: str
    event: str = ""
    condition: str = "AbleToScale"


class Finding(msgspec.Struct, frozen=True):
    """A problem of the hub that affects all objects: reason and message of a condition that is then False."""

    reason: str
    message: str


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The input of one decision on one autoscaler.

    `target` is None with direct propagation: then the clusters' scales add up to the workload's size.
    `ambiguous_with` names the autoscalers (namespace/name, this one included) whose selectors match the same
    pods, if there is more than one. `competitors` describes competing autoscalers of the same workload.
    `blocked` is set if nothing could be gathered or if another controller acts on the object.
    `propagation` is the controller's flag, "" if it is to be inferred from `target`.
    `hub_findings` are problems of the hub. `decided_size` is the size of the last decision, None on a fresh
    start; only policy Duplicated reads it. `memory` is what the last decision left, without its history.
    `record_problem` says why the memory cannot be stored; "" if it can.

    Mode Distributed: `last_pass` is when the bounds were last computed, in POSIX seconds, None for a fresh
    start. `last_triggers` are what asked for a pass then. `last_steps` are its steps, and `last_reason` is
    the reason that they gave.
    """

    hpa: ScalingObject
    clusters: tuple[ClusterSnapshot, ...] = ()
    target: TemplateScale | Failure | None = None
    hub_custom_metrics: tuple[CustomSample, ...] = ()
    hub_external_metrics: tuple[ExternalSample, ...] = ()
    ambiguous_with: tuple[str, ...] = ()
    competitors: tuple[str, ...] = ()
    blocked: Blocked | None = None
    hub_findings: tuple[Finding, ...] = ()
    decided_size: int | None = None
    propagation: str = ""
    memory: MemoryState = NO_MEMORY
    record_problem: str = ""
    last_pass: float | None = None
    last_triggers: frozenset[str] = frozenset()
    last_steps: tuple[Step, ...] = ()
    last_reason: str = ""
