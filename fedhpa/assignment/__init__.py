"""Assignment arithmetic: how many replicas each cluster gets. Pure: no I/O and no clock."""

from fedhpa.assignment.clusters import (
    NO_COURSE,
    NO_STATE,
    Bounds,
    ClusterState,
    Count,
    Course,
    Member,
    Rules,
    release_step,
)
from fedhpa.assignment.direct import Place, as_if, fair_split, limits, size_of_each, split
from fedhpa.assignment.division import apportion
from fedhpa.assignment.member_hpa import HpaReport, report_of
from fedhpa.assignment.minima import NO_MOVE, Move, assigned_for
from fedhpa.assignment.mover import (
    needed_replicas,
    next_step,
    receivers_back,
    waiting,
    without_surge,
)
from fedhpa.assignment.passes import PERIOD_SECONDS, plan
from fedhpa.assignment.plan import Plan, Previous
from fedhpa.assignment.spread import Host, spread
from fedhpa.assignment.writes import (
    TEMPLATE,
    Outcome,
    RemoveHpa,
    Result,
    SetBounds,
    SetScale,
    Write,
    next_scales,
)
