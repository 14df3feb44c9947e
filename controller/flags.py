"""The controller's flags. Names are Karmada v1.19's where it has the flag (docs/reference/flags.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from fedhpa.api import default_values
from fedhpa.decision.snapshot import ControllerSettings
from fedhpa.serving.flags import Flag, NotBuilt, Values, boolean, choice, common, duration, integer, number

FEDERATED_HPA: Final = "federatedhpa"
CRON_FEDERATED_HPA: Final = "cronfederatedhpa"
KARMADA: Final = "karmada"
DIRECT: Final = "direct"
MEMBERS: Final = "members"
HUB: Final = "hub"


def _controllers(text: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    if not names or set(names) - {FEDERATED_HPA, CRON_FEDERATED_HPA}:
        raise ValueError(text)
    if CRON_FEDERATED_HPA in names:
        raise NotBuilt(f"{CRON_FEDERATED_HPA} is not built in this version")
    return names


CONTROLLERS: Flag[tuple[str, ...]] = Flag(
    "controllers",
    (FEDERATED_HPA,),
    "Controllers to run.",
    _controllers,
    f"{FEDERATED_HPA} ({CRON_FEDERATED_HPA} is planned)",
    "strings",
    ",".join,
)
PROPAGATION = choice(
    "propagation",
    KARMADA,
    "How replicas reach the members: karmada writes the scale of the workload's template on the hub, direct "
    "writes the workload's scale in each member.",
    choices=(KARMADA, DIRECT),
)
METRICS_VIA = choice(
    "metrics-via",
    MEMBERS,
    "Source of usage: the members themselves, or the hub's metrics APIs.",
    choices=(MEMBERS, HUB),
)
SHARDS = integer(
    "shards",
    1,
    "Number of shards, each with a Lease. A namespace belongs to one shard, and a process may hold several "
    "shards. Processes with different numbers never work at the same time.",
    minimum=1,
)
CONCURRENT_SYNCS = integer(
    "concurrent-syncs", 5, "FederatedHPAs that are reconciled at the same time.", minimum=1
)
CLUSTER_LOST_TIMEOUT = duration(
    "cluster-lost-timeout",
    default_values.CLUSTER_LOST_TIMEOUT_SECONDS,
    "How long a cluster may be unavailable before it counts as lost, where the object does not set it.",
)
PAUSE = boolean("pause", False, "Compute and show decisions, but write neither scales nor statuses.")

SYNC_PERIOD = duration(
    "horizontal-pod-autoscaler-sync-period",
    default_values.SYNC_PERIOD_SECONDS,
    "Time between two reconciles of a FederatedHPA, where the object does not set it.",
    minimum=1.0,
)
TOLERANCE = number(
    "horizontal-pod-autoscaler-tolerance",
    default_values.TOLERANCE,
    "How far the ratio of usage to target may differ from 1.0 before the controller scales.",
    minimum=0,
)
DOWNSCALE_STABILIZATION = duration(
    "horizontal-pod-autoscaler-downscale-stabilization",
    default_values.DOWNSCALE_STABILIZATION_SECONDS,
    "How long the highest recommendation delays a scale-down, where the object does not set it.",
)
CPU_INITIALIZATION_PERIOD = duration(
    "horizontal-pod-autoscaler-cpu-initialization-period",
    default_values.CPU_INITIALIZATION_PERIOD_SECONDS,
    "How long after a pod's start its CPU usage may be ignored.",
)
INITIAL_READINESS_DELAY = duration(
    "horizontal-pod-autoscaler-initial-readiness-delay",
    default_values.INITIAL_READINESS_DELAY_SECONDS,
    "A pod that became not ready within this time after its start counts as never ready.",
)
# Karmada parses these flags and ignores them. Its manifests may contain them.
UPSCALE_DELAY = duration("horizontal-pod-autoscaler-upscale-delay", 180.0, "Accepted without effect.")
DOWNSCALE_DELAY = duration("horizontal-pod-autoscaler-downscale-delay", 300.0, "Accepted without effect.")

SECTIONS: dict[str, tuple[Flag[Any], ...]] = {
    "Autoscaling": (
        CONTROLLERS,
        PROPAGATION,
        METRICS_VIA,
        SHARDS,
        CONCURRENT_SYNCS,
        CLUSTER_LOST_TIMEOUT,
        PAUSE,
        SYNC_PERIOD,
        TOLERANCE,
        DOWNSCALE_STABILIZATION,
        CPU_INITIALIZATION_PERIOD,
        INITIAL_READINESS_DELAY,
        UPSCALE_DELAY,
        DOWNSCALE_DELAY,
    ),
    "Hub": common.HUB,
    "Members": common.MEMBERS,
    "Leader election": common.LEADER_ELECTION,
    "Observing": (
        common.METRICS_BIND_ADDRESS,
        # The health port of Karmada's controller manager.
        common.HEALTH_PROBE_BIND_ADDRESS.with_default(":10357"),
    ),
    "Logging": common.LOGGING,
    "Accepted for Karmada's manifests": common.UNBUILT,
}


@dataclass(frozen=True)
class Settings:
    """The values of the flags; durations in seconds."""

    propagation: str
    concurrent_syncs: int
    sync_period: float
    member_deadline: float
    paused: bool
    decision: ControllerSettings
    metrics_via: str = MEMBERS

    @classmethod
    def of(cls, values: Values) -> Settings:
        """The settings of parsed flags."""
        return cls(
            propagation=values[PROPAGATION],
            concurrent_syncs=values[CONCURRENT_SYNCS],
            sync_period=values[SYNC_PERIOD],
            member_deadline=values[common.MEMBER_DEADLINE],
            paused=values[PAUSE],
            metrics_via=values[METRICS_VIA],
            decision=ControllerSettings(
                tolerance=values[TOLERANCE],
                downscale_stabilization=values[DOWNSCALE_STABILIZATION],
                cpu_initialization_period=values[CPU_INITIALIZATION_PERIOD],
                initial_readiness_delay=values[INITIAL_READINESS_DELAY],
                cluster_lost_timeout=values[CLUSTER_LOST_TIMEOUT],
            ),
        )
