"""Assignment arithmetic: how many replicas each cluster gets. Pure: no I/O and no clock."""

from fedhpa.assignment.direct import Place, as_if, fair_split, limits, size_of_each, split
from fedhpa.assignment.division import apportion
from fedhpa.assignment.initial import assigned_for
from fedhpa.assignment.member_hpa import pinned_need, usage_load
from fedhpa.assignment.mover import (
    needed_replicas,
    next_step,
    receivers_back,
    waiting,
    without_surge,
)
from fedhpa.assignment.observed import HoldRules
from fedhpa.assignment.plan import Observed, Plan, PlanStep, Previous, Rules, plan
from fedhpa.assignment.policies import BY_CAPACITY, DUPLICATED, LOAD_WEIGHTED, PRIORITIZED
from fedhpa.assignment.shares import Bounds, MemberState
from fedhpa.assignment.spread import Host, spread
from fedhpa.assignment.state import (
    NO_STATE,
    ClusterState,
    Count,
    Seconds,
    States,
    release_step,
)
from fedhpa.assignment.writes import Outcome, Result, Write

__all__ = [
    "BY_CAPACITY",
    "DUPLICATED",
    "LOAD_WEIGHTED",
    "NO_STATE",
    "PRIORITIZED",
    "Bounds",
    "ClusterState",
    "Count",
    "HoldRules",
    "Host",
    "MemberState",
    "Observed",
    "Outcome",
    "Place",
    "Plan",
    "PlanStep",
    "Previous",
    "Result",
    "Rules",
    "Seconds",
    "States",
    "Write",
    "apportion",
    "as_if",
    "assigned_for",
    "fair_split",
    "limits",
    "needed_replicas",
    "next_step",
    "pinned_need",
    "plan",
    "receivers_back",
    "release_step",
    "size_of_each",
    "split",
    "spread",
    "usage_load",
    "waiting",
    "without_surge",
]
