"""The controller's flags. Where Karmada v1.19 has a flag, its name is used (docs/reference/flags.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from certs.authority import CA_VALIDITY, LEAF_VALIDITY, is_ip
from controller.shards import BY_NAMESPACE, BY_TARGET
from fedhpa.api import default_values
from fedhpa.api.member_sources import ONLY_CLUSTERS, MemberSources
from fedhpa.api.names import dns_subdomain
from fedhpa.decision import ControllerSettings
from fedhpa.serving.flags import (
    Flag,
    FlagType,
    Values,
    boolean,
    choice,
    common,
    duration,
    integer,
    members,
    number,
    path,
    split_list,
    string,
    strings,
)

FEDERATED_HPA: Final = "federatedhpa"
CRON_FEDERATED_HPA: Final = "cronfederatedhpa"
KARMADA: Final = "karmada"
DIRECT: Final = "direct"
MEMBERS: Final = "members"
HUB: Final = "hub"


def _controllers(text: str) -> tuple[str, ...]:
    names = split_list(text)
    if not names or set(names) - {FEDERATED_HPA, CRON_FEDERATED_HPA}:
        raise ValueError(text)
    return names


CONTROLLERS: Flag[tuple[str, ...]] = Flag(
    "controllers",
    (FEDERATED_HPA, CRON_FEDERATED_HPA),
    "Controllers to run. Each has Leases of its own.",
    FlagType("strings", f"{FEDERATED_HPA}, {CRON_FEDERATED_HPA}, or both", _controllers, ",".join),
)
PROPAGATION = choice(
    "propagation",
    DIRECT,
    "How replicas reach the member clusters: direct writes the scale of the workload in each member; karmada "
    "writes the scale of the workload's template on the hub.",
    choices=(KARMADA, DIRECT),
)
METRICS_VIA = choice(
    "metrics-via",
    MEMBERS,
    "Where metrics are read: from each member cluster, or from the metrics APIs of the hub.",
    choices=(MEMBERS, HUB),
)
SHARDS = integer(
    "shards",
    1,
    "Number of shards. Each object belongs to one shard, and each shard has a Lease; a process can hold "
    "several. Processes with different numbers of shards never work at the same time.",
    minimum=1,
)
SHARD_BY = choice(
    "shard-by",
    BY_TARGET,
    "What decides the shard of an object. `target`: its scaleTargetRef, so that a namespace with very many "
    "objects is divided; each process then reads the pods of all namespaces. `namespace`: its namespace, "
    "whose pods one process reads. Processes with different values never work at the same time.",
    choices=(BY_TARGET, BY_NAMESPACE),
)
CONCURRENT_SYNCS = integer(
    "concurrent-syncs",
    5,
    "Number of FederatedHPAs that are read concurrently. Up to 128 more may wait for writes.",
    minimum=1,
)
WATCH_NAMESPACES = strings(
    "watch-namespaces",
    (),
    "Namespaces whose objects are handled; if not set, all. The webhook's registration has a selector of its "
    "own.",
)
CLUSTER_LOST_TIMEOUT = duration(
    "cluster-lost-timeout",
    default_values.CLUSTER_LOST_TIMEOUT_SECONDS,
    "Time without an answer after which a cluster is no longer expected; an object can override it.",
)


NEW_HOSTS = choice(
    "new-hosts",
    default_values.NEW_HOSTS,
    "A cluster that begins to run a workload whose object has no clusterAffinity. `grow`: it takes part in "
    "growth only, until its pods serve. `cordon`: it gets nothing more until clusterAffinity selects it.",
    choices=(default_values.GROW, default_values.CORDON),
)


def _hub_id(text: str) -> str:
    if text and dns_subdomain(text):
        raise ValueError(text)
    return text


HUB_ID = string(
    "hub-id",
    "",
    "Identity of the hub in the owner annotation of member HPAs; if not set, the UID of its namespace "
    "kube-system. A rebuilt hub takes the identity of the one before.",
    parse=_hub_id,
    expected="lower-case letters, digits, - and ., such as a UID",
)
PAUSE = boolean(
    "pause",
    False,
    "Compute and report decisions, but write nothing except the event Paused. Where no controller holds a "
    "Lease, Clusters lose the finalizers by which a deletion waits for their replicas.",
)


ARGOCD: Final = "argocd"


def _publishes_to(text: str) -> tuple[str, ...]:
    names = split_list(text)
    if set(names) - {ARGOCD}:
        raise ValueError(text)
    return names


PUBLISH_TO: Flag[tuple[str, ...]] = Flag(
    "publish-to",
    (),
    "What follows the placements of objects with spec.placement.publish, besides PlacementDecisions. "
    "`argocd`: a Placement in the namespace of Argo CD for each object.",
    FlagType("strings", f"{ARGOCD} or nothing", _publishes_to, ",".join),
    repeatable=True,
)

SYNC_PERIOD = duration(
    "horizontal-pod-autoscaler-sync-period",
    default_values.SYNC_PERIOD_SECONDS,
    "Time between two reconciles of a FederatedHPA; an object can override it.",
    minimum=1.0,
)
TOLERANCE = number(
    "horizontal-pod-autoscaler-tolerance",
    default_values.TOLERANCE,
    "Deviation of the usage-to-target ratio from 1.0 that is tolerated; an object can override it.",
    minimum=0,
)
DOWNSCALE_STABILIZATION = duration(
    "horizontal-pod-autoscaler-downscale-stabilization",
    default_values.DOWNSCALE_STABILIZATION_SECONDS,
    "Time that the highest recommendation delays a scale-down; an object can override it.",
)
CPU_INITIALIZATION_PERIOD = duration(
    "horizontal-pod-autoscaler-cpu-initialization-period",
    default_values.CPU_INITIALIZATION_PERIOD_SECONDS,
    "Time after a pod's start in which its CPU usage may be skipped.",
)
INITIAL_READINESS_DELAY = duration(
    "horizontal-pod-autoscaler-initial-readiness-delay",
    default_values.INITIAL_READINESS_DELAY_SECONDS,
    "A pod that became not ready within this time after its start counts as never ready.",
)
# Karmada parses these two flags and never uses them. Its manifests may set them.
UPSCALE_DELAY = duration(
    "horizontal-pod-autoscaler-upscale-delay", 180.0, "Without effect; accepted because Karmada has it."
)
DOWNSCALE_DELAY = duration(
    "horizontal-pod-autoscaler-downscale-delay", 300.0, "Without effect; accepted because Karmada has it."
)

MAX_HOSTS: Final = 64


def _hosts(text: str) -> tuple[str, ...]:
    hosts = split_list(text)
    wrong = [host for host in hosts if not is_ip(host) and dns_subdomain(host.removeprefix("*."))]
    if wrong or len(hosts) > MAX_HOSTS:
        raise ValueError(text)
    return hosts


MANAGE_CERTIFICATES = boolean(
    "manage-certificates",
    False,
    "Keep a CA in Secret fedhpa-ca, issue and renew the serving certificates of the webhook and the metrics "
    "adapter, and publish the CA in their registrations on the hub.",
)
CERTIFICATES_NAMESPACE = string(
    "certificates-namespace",
    "",
    "Namespace of the Secrets with the certificates; if not set, the pod's own namespace, or fedhpa-system "
    "outside a pod.",
)
CERTIFICATES_KUBECONFIG = path(
    "certificates-kubeconfig",
    "",
    "Kubeconfig of the API server that has these Secrets; if not set, that of the pod's service account, or "
    "--kubeconfig outside a pod.",
)
CERTIFICATES_HOSTS: Flag[tuple[str, ...]] = Flag(
    "certificates-hosts",
    (),
    "Further DNS names and IP addresses for both serving certificates, for a hub that calls them by other "
    "names than those of their Services.",
    FlagType("strings", f"at most {MAX_HOSTS} DNS names or IP addresses", _hosts, ",".join),
    repeatable=True,
)
CERTIFICATES_LIFETIME = duration(
    "certificates-lifetime",
    LEAF_VALIDITY.total_seconds(),
    "Lifetime of serving certificates, at most five years. They are renewed after two thirds of it.",
    minimum=60.0,
    maximum=CA_VALIDITY.total_seconds() / 2,
)
CERTIFICATES: tuple[Flag[Any], ...] = (
    MANAGE_CERTIFICATES,
    CERTIFICATES_NAMESPACE,
    CERTIFICATES_KUBECONFIG,
    CERTIFICATES_HOSTS,
    CERTIFICATES_LIFETIME,
)

SECTIONS: dict[str, tuple[Flag[Any], ...]] = {
    "Autoscaling": (
        CONTROLLERS,
        PROPAGATION,
        METRICS_VIA,
        SHARDS,
        SHARD_BY,
        WATCH_NAMESPACES,
        CONCURRENT_SYNCS,
        CLUSTER_LOST_TIMEOUT,
        NEW_HOSTS,
        HUB_ID,
        PAUSE,
        SYNC_PERIOD,
        TOLERANCE,
        DOWNSCALE_STABILIZATION,
        CPU_INITIALIZATION_PERIOD,
        INITIAL_READINESS_DELAY,
        UPSCALE_DELAY,
        DOWNSCALE_DELAY,
    ),
    "Placement": (PUBLISH_TO,),
    "Hub": common.HUB,
    "Members": (*common.MEMBERS, *members.SOURCES_OF_MEMBERS),
    "Leader election": common.LEADER_ELECTION,
    "Certificates": CERTIFICATES,
    "Observing": (
        common.METRICS_BIND_ADDRESS,
        # The default of Karmada's controller manager.
        common.HEALTH_PROBE_BIND_ADDRESS.with_default(":10357"),
    ),
    "Logging": common.LOGGING,
    "Accepted for Karmada's manifests": common.UNBUILT,
}


@dataclass(frozen=True)
class Settings:
    """The settings of the controller; durations in seconds."""

    propagation: str
    concurrent_syncs: int
    sync_period: float
    member_deadline: float
    paused: bool
    decision: ControllerSettings
    metrics_via: str = MEMBERS
    cluster_qps: float = 0.0
    cluster_burst: int = 0
    watch_namespaces: frozenset[str] = frozenset()
    hub_id: str = ""
    publishes_to: tuple[str, ...] = ()
    sources: MemberSources = ONLY_CLUSTERS

    @classmethod
    def of(cls, values: Values) -> Settings:
        """Returns the settings that the flags describe."""
        return cls(
            propagation=values[PROPAGATION],
            concurrent_syncs=values[CONCURRENT_SYNCS],
            sync_period=values[SYNC_PERIOD],
            member_deadline=values[common.MEMBER_DEADLINE],
            paused=values[PAUSE],
            metrics_via=values[METRICS_VIA],
            cluster_qps=values[common.CLUSTER_API_QPS],
            cluster_burst=values[common.CLUSTER_API_BURST],
            watch_namespaces=frozenset([*values[WATCH_NAMESPACES]]),
            hub_id=values[HUB_ID],
            publishes_to=values[PUBLISH_TO],
            sources=members.member_sources(values),
            decision=ControllerSettings(
                tolerance=values[TOLERANCE],
                downscale_stabilization=values[DOWNSCALE_STABILIZATION],
                cpu_initialization_period=values[CPU_INITIALIZATION_PERIOD],
                initial_readiness_delay=values[INITIAL_READINESS_DELAY],
                cluster_lost_timeout=values[CLUSTER_LOST_TIMEOUT],
                new_hosts="cordon" if values[NEW_HOSTS] == default_values.CORDON else "grow",
            ),
        )
