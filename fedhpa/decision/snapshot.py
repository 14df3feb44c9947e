"""The input of a decision: the controller gathers it, or a recorded scenario holds it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fedhpa.api.errors import InvalidObject
from fedhpa.api.hold import Hold, HoldRequest, hold_in_force, hold_request
from fedhpa.api.json import InvalidJson, convert_json
from fedhpa.api.known_cluster import KnownCluster
from fedhpa.api.member_hpas import MemberHpa
from fedhpa.api.placement_decisions import Profile
from fedhpa.api.rebalance import REBALANCE_ANNOTATION
from fedhpa.api.selectors import Selector
from fedhpa.api.taints import STUCK
from fedhpa.api.wire import Scale
from fedhpa.decision.memory import NO_MEMORY, Absence, MemoryState
from fedhpa.decision.model import StatusCondition
from fedhpa.decision.spec import ScalingSpec, decode_spec
from fedhpa.scaling import CustomSample, ExternalSample, PodRecord, UsageRecord

JSON = object


class Failure(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """Data that could not be read, with the reason as one line."""

    error: str


# The answers to the queries of custom and external metrics (`ScalingMetric.query_key`): values, or why there
# are none.
Answers = Mapping[str, tuple[CustomSample, ...] | tuple[ExternalSample, ...] | Failure]


class ClusterScale(msgspec.Struct, frozen=True, gc=False):
    """The scale sub-resource of the workload in one cluster."""

    spec_replicas: int = 0
    status_replicas: int = 0
    selector: str = ""


class WorkloadReading(msgspec.Struct, frozen=True, gc=False, kw_only=True):
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


class Bridge(msgspec.Struct, frozen=True, gc=False):
    """A missed answer, with the reason. The last one, which stands for it, is `age` seconds old."""

    age: float
    reason: str = ""


class ClusterSnapshot(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One candidate cluster.

    `error` says why it does not answer although it is ready. `metrics` are the metrics that it serves.
    `selector_error` says why the scale's selector cannot be parsed. `pods` are those that the selector
    matches, `usage` is theirs, and `other_pods` are the names of the namespace's other listed pods
    (`fedhpa.scaling.records`).
    `absence` is the clock of the cluster's loss, None if no clock runs. `last_replicas` is its last known
    share of the workload. `available_replicas` is how many more replicas it could run, None if unknown.
    `most_replicas` is its limit by clusterHPAPreference, None for no limit. `cluster` has the fields that
    cluster affinities select by. `selected` is False once spec.clusterAffinity does not select the cluster
    any more. A `held` cluster answers, but its share cannot be changed now. `overflow` is the rank of an
    overflow cluster of Karmada's placement, 0 for others. Where it is lost and `replaced`, the placement has
    other clusters for that case.
    `hpa` is the cluster's HPA of the FederatedHPA's name, None if there is none (mode Distributed only).
    Only a scenario gives `pending_replicas` (mode Distributed only): they have waited for a node longer than
    the delay, so the cluster is Stuck.
    `drift` are the fields of the HPA's spec, besides its bounds, that are not as the FederatedHPA has them.
    `clock_ahead` is by how many seconds its clock is ahead of ours, so its pods are judged by its own time.
    `implausible_for` is for how many seconds its answers were implausible (`fedhpa.decision.context`);
    None reports an implausible answer at once. No decision reads `workload`. `uid` is a hash of that of the
    cluster, which the memory keeps; "" if it is not known now.
    `missing_since` is when an answer of the cluster was missed first, in POSIX seconds; None if none was, or
    only now. `bridge` says that the other fields are those of its last answer (`fedhpa.decision.bridge`).
    `gone` is None while some object on the hub registers the cluster. Otherwise it says why its replicas stay
    where they are, "" if others take them.
    Only a scenario gives `membership`, which is else derived, and `ready_replicas`, else counted from pods.
    """

    name: str
    ready: bool = True
    error: str | None = None
    scale: ClusterScale | Failure = Failure("scale was not read")
    selector_error: str | None = None
    pods: tuple[PodRecord, ...] = ()
    other_pods: frozenset[str] = frozenset()
    usage: tuple[UsageRecord, ...] | Failure = ()
    metrics: Answers = {}
    available_replicas: int | None = None
    most_replicas: int | None = None
    last_replicas: int | None = None
    absence: Absence | None = None
    hpa: MemberHpa | Failure | None = None
    pending_replicas: int | None = None
    drift: tuple[str, ...] = ()
    cluster: KnownCluster | None = None
    selected: bool = True
    held: bool = False
    overflow: int = 0
    replaced: bool = False
    implausible_for: float | None = None
    clock_ahead: float = 0.0
    workload: WorkloadReading = WorkloadReading()
    uid: str = ""
    missing_since: float | None = None
    bridge: Bridge | None = None
    gone: str | None = None
    membership: str | None = None
    ready_replicas: int | None = None

    @property
    def usable_scale(self) -> ClusterScale | None:
        """The scale if the cluster answered, with a selector that can be used; else None."""
        scale = self.scale
        if not self.ready or self.error is not None or self.selector_error is not None:
            return None
        return scale if type(scale) is ClusterScale and scale.selector else None

    @property
    def given_membership(self) -> str | None:
        """The membership that a scenario gives; None where it is derived."""
        waits = self.pending_replicas and isinstance(self.scale, ClusterScale) and self.scale.spec_replicas
        return STUCK if waits and self.membership is None else self.membership


# The last complete answer of a cluster, and when it came, in POSIX seconds.
Answer = tuple[ClusterSnapshot, float]


class TemplateScale(msgspec.Struct, frozen=True):
    """The scale of the workload's template on the hub (propagation karmada).

    `scheduling` is Duplicated if each cluster runs the template's number, Divided if they share it, and "" if
    that is unknown.
    """

    replicas: int = 0
    generation: int | None = None
    scheduling: str = ""


class Blocked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The obstacle to any decision: the reason and message of a condition that is then False.

    `event` is the reason of the event if it differs (Karmada: FailedGetBindings).
    """

    reason: str
    message: str
    event: str = ""
    condition: str = "AbleToScale"


class Finding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A problem of the hub that affects all objects: reason and message of a condition that is then False."""

    reason: str
    message: str


class AwaitedCluster(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A selected cluster without the workload, and why. `cluster` is None if nobody registers it."""

    name: str
    why: str
    cluster: KnownCluster | None = None


class PublicationOutcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The result of the last write of a placement: the problems of it. `removed` if there is nothing left."""

    problems: tuple[Finding, ...] = ()
    removed: bool = False


class PlacementInput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The state of the publication of an object's clusters.

    `awaited` are the selected clusters without the workload. `profiles` maps clusters to their
    ClusterProfiles. `outcome` is None before the first write.
    """

    awaited: tuple[AwaitedCluster, ...] = ()
    profiles: Mapping[str, Profile] = {}
    outcome: PublicationOutcome | None = None

    @property
    def names(self) -> frozenset[str]:
        """The clusters that are awaited."""
        return frozenset(one.name for one in self.awaited)


class StoredStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The stored status of a FederatedHPA, as far as a decision reads it: what people see of the last one.

    Another program may have written it. The fields of type JSON may hold anything, because no decision
    depends on them. Only old scenarios have `assigned_for` and `decision`, because they hold the memory here.
    """

    current_replicas: int | None = None
    desired_replicas: int | None = None
    last_scale_time: str | None = None
    current_metrics: tuple[dict[str, JSON], ...] | None = None
    conditions: tuple[StatusCondition, ...] = ()
    observed_generation: JSON = None
    clusters: JSON = None
    assigned_for: JSON = None
    decision: JSON = None

    @property
    def entries(self) -> dict[str, Mapping[str, JSON]]:
        """The readable entries of status.clusters by name."""
        entries = self.clusters if isinstance(self.clusters, list) else []
        # Decoded JSON has no other mapping. Its exact type is compared quickly.
        return {
            name: entry for entry in entries if type(entry) is dict and type(name := entry.get("name")) is str
        }

    @property
    def shares(self) -> dict[str, int]:
        """The clusters' replicas, as far as known."""
        shown = {name: entry.get("currentReplicas") for name, entry in self.entries.items()}
        return {name: replicas for name, replicas in shown.items() if type(replicas) is int}


class ScalingObject(msgspec.Struct, frozen=True, kw_only=True):
    """A FederatedHPA: its spec with defaults and its stored status."""

    name: str
    namespace: str
    generation: int | None
    spec: ScalingSpec
    status: StoredStatus
    uid: str = ""
    rebalance: str = ""
    hold: HoldRequest | None = None


class _StoredMeta(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    generation: int | None = None
    annotations: JSON = None


class _StoredObject(msgspec.Struct):
    """The parts of an object beside its spec. A status of 200 clusters is too large for the model."""

    metadata: _StoredMeta = msgspec.field(default_factory=_StoredMeta)
    status: StoredStatus | None = None


def decode_object(raw: Mapping[str, JSON], spec: ScalingSpec | None = None) -> ScalingObject:
    """Returns a stored FederatedHPA; `spec` is its spec if that is known already.

    Raises InvalidObject naming the field. An object that the gate refuses is returned: see `judgement`.
    """
    try:
        stored = convert_json(raw, _StoredObject)
    except InvalidJson as error:
        raise InvalidObject(f"the FederatedHPA cannot be read: {error}") from error
    meta = stored.metadata
    found = meta.annotations.get(REBALANCE_ANNOTATION) if isinstance(meta.annotations, Mapping) else None
    return ScalingObject(
        name=meta.name,
        namespace=meta.namespace,
        generation=meta.generation,
        spec=decode_spec(raw.get("spec")) if spec is None else spec,
        status=stored.status or StoredStatus(),
        uid=meta.uid,
        rebalance=found if isinstance(found, str) else "",
        hold=hold_request(meta.annotations) if meta.annotations else None,
    )


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The input of one decision on one autoscaler.

    `target` is None with direct propagation: then the clusters' scales add up to the workload's size.
    `ambiguous_with` names the autoscalers (namespace/name, this one included) whose selectors match the same
    pods, if there is more than one. `competitors` describes competing autoscalers of the same workload.
    `blocked` is set if nothing could be gathered or if another controller acts on the object.
    `propagation` is the controller's flag, "" if it is to be inferred from `target`.
    `selection` says why not all clusters of Karmada's placement take part; "" if they do. `leftovers` are
    clusters that have our HPA and are not selected any more. `evictions` are those of Karmada, by cluster: it
    need be no candidate any more.
    `hub_metrics` are the metrics that the hub serves, `hub_findings` its problems. `decided_size` is the size
    of the last decision, None on a fresh start; only policy Duplicated reads it. `memory` is what the
    last decision left, without its history.
    `record_problem` says why the memory cannot be stored; "" if it can. `answers` are the last complete
    answers of the clusters, as far as this process has them. `holds` are what the object's namespace and that
    of the controller ask for, in this order. `placement` is None where no clusters are or were published.
    `unfollowed` says why the PlacementDecision of another scheduler cannot be followed: "" if it
    can, and None while nobody knows.
    """

    hpa: ScalingObject
    clusters: tuple[ClusterSnapshot, ...] = ()
    target: TemplateScale | Failure | None = None
    hub_metrics: Answers = {}
    ambiguous_with: tuple[str, ...] = ()
    competitors: tuple[str, ...] = ()
    blocked: Blocked | None = None
    selection: str = ""
    evictions: Mapping[str, str] = {}
    leftovers: tuple[str, ...] = ()
    hub_findings: tuple[Finding, ...] = ()
    decided_size: int | None = None
    propagation: str = ""
    memory: MemoryState = NO_MEMORY
    record_problem: str = ""
    answers: Mapping[str, Answer] = {}
    holds: tuple[HoldRequest, ...] = ()
    placement: PlacementInput | None = None
    unfollowed: str | None = None

    @property
    def replicas(self) -> dict[str, int]:
        """The replicas of the clusters whose scale was read."""
        return {one.name: one.scale.spec_replicas for one in self.clusters if type(one.scale) is ClusterScale}

    def hold_at(self, now: float) -> Hold | None:
        """Returns the hold in force at `now` in POSIX seconds; None without one."""
        if self.hpa.hold is None and not self.holds:
            return None
        return hold_in_force((self.hpa.hold, *self.holds), now)
