"""Assignment arithmetic: how many replicas each cluster gets. Pure: no I/O and no clock."""

from fedhpa.assignment.direct import Place, fair_split, limits, size_of_each, split
from fedhpa.assignment.division import apportion
from fedhpa.assignment.initial import assigned_for
from fedhpa.assignment.member_hpa import pinned_need, usage_load
from fedhpa.assignment.plan import Observed, Plan, PlanStep, Previous, Rules, plan
from fedhpa.assignment.policies import BY_CAPACITY, DUPLICATED, LOAD_WEIGHTED
from fedhpa.assignment.rebalance import RebalanceStep, ended, rebalance_step
from fedhpa.assignment.shares import Bounds, MemberState
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
    "Bounds",
    "ClusterState",
    "Count",
    "MemberState",
    "Observed",
    "Outcome",
    "Place",
    "Plan",
    "PlanStep",
    "Previous",
    "RebalanceStep",
    "Result",
    "Rules",
    "Seconds",
    "States",
    "Write",
    "apportion",
    "assigned_for",
    "ended",
    "fair_split",
    "limits",
    "pinned_need",
    "plan",
    "rebalance_step",
    "release_step",
    "size_of_each",
    "split",
    "usage_load",
]
