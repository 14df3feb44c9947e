"""Moves between clusters in one decision: clusters that leave, rebalances, returns, and holds of all these.

Source: docs/explanation/membership.md; docs/how-to/hold-scaling.md, "What a hold stops".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from fedhpa.api.hold import Hold
from fedhpa.api.quantity import parse_milli
from fedhpa.api.taints import CORDONED, LEAVING, MEMBER
from fedhpa.api.texts import listed
from fedhpa.assignment import (
    needed_replicas,
    next_step,
    receivers_back,
    release_step,
    waiting,
    without_surge,
)
from fedhpa.decision.context import Context
from fedhpa.decision.membership import Membership
from fedhpa.decision.memory import Rebalance
from fedhpa.decision.messages import MEMBERS_AVAILABLE
from fedhpa.decision.metrics import follows_pods, tolerances
from fedhpa.decision.model import ClusterMembership, MetricResult, shortened
from fedhpa.decision.placement import PlacementPlan, loads
from fedhpa.decision.rebalance import (
    absent_clusters,
    ended_early,
    goal_of,
    rebalances,
    report_progress,
    title,
)
from fedhpa.metric_types.table import metric_type

# Under Duplicated a leaving cluster shrinks by one step in this time.
SHRINK_SECONDS: Final = 60.0
# A cluster is no new host once its pods have served for so long without a break.
SERVES_SECONDS: Final = 600.0
# A leave that takes longer is reported with a Warning.
LONG_SECONDS: Final = 3600.0
LOST_TEXT: Final = "it is lost, and may run replicas until it answers"
_MAX_WAITS: Final = 512


def fewest_replicas(context: Context, current: int) -> int:
    """Returns the fewest replicas at which usage is not above a target by more than the tolerance.

    A size within the tolerance stays, but while replicas move it is that of more pods than the size. Memory
    does not fall when pods are added, so it would let the size grow by the surge of each step.
    """
    busy = [
        metric.usage_ratio * (current if metric.pods is None else metric.pods.ready)
        for metric in context.metrics
        if metric.usage_ratio is not None and math.isfinite(metric.usage_ratio) and follows_pods(metric)
    ]
    # A hair below, because a ratio of exactly the tolerance asks for no replica more.
    return math.ceil(max(busy, default=0.0) / (1 + tolerances(context).scale_up) - 1e-9)


class Moves(NamedTuple):
    """The shares to write now, and why replicas move although the size stays; "" if none do."""

    shares: Mapping[str, int]
    reason: str


def shares_now(context: Context, plan: PlacementPlan, current: int, desired: int) -> Moves:
    """Returns the shares of the size `desired`, or the next step towards them while replicas move.

    `current` is the present size. Sets what each cluster waits for.
    """
    fleet, policy = context.fleet, context.spec.assignment.policy
    rebalanced = context.knows_rebalance and rebalances(context, plan, current, desired)
    _note_stuck(context, plan)
    if not fleet.leaving and not rebalanced:
        verb = "is" if len(fleet.stuck) == 1 else "are"
        reason = f"{listed(list(fleet.stuck))} {verb} stuck" if fleet.stuck else ""
        goal = plan.goal(desired)
        known = context.memory.rebalance
        if known is not None and not known.ended:
            goal = _settled(plan, goal)
            reason = reason or f"{title(known)} ended"
        return Moves(plan.with_evidence(goal), reason)
    if policy.copies:
        return Moves(_shrunk(context, plan, desired), _leaving(context))
    if rebalanced and (absent := absent_clusters(context, plan)):
        return _waited(context, plan, absent, current, desired)
    goal = goal_of(context, plan, desired) if rebalanced else plan.goal(desired)
    if any(goal[name] < plan.places[name].present for name in goal if name not in fleet.stuck):
        plan.spare_surge(desired)
        goal = goal_of(context, plan, desired) if rebalanced else plan.goal(desired)
    target = {name: goal[name] for name in goal if plan.places[name].reachable}
    present = {name: plan.places[name].present for name in target}
    # Replicas of a stuck cluster serve nothing, so those that go wait for nobody.
    present |= {name: min(present[name], goal[name]) for name in fleet.stuck if name in target}
    step = release_step(context.spec.max_replicas)
    state = context.rebalance if rebalanced else None
    kept = _needed(context, plan, state) if state is not None and state.is_return else {}
    # Else one cluster that is stuck at maxReplicas would hold each move. A step fewer pods may be ready.
    ready = plan.ready | {name: goal[name] for name in sorted(fleet.stuck)[:step] if name in target}
    moved = next_step(present, target, ready, step, plan.rolling, kept)
    unready = waiting(present, target, ready)
    _note_waits(context, plan, goal, unready)
    if state is not None:
        gives = any(moved[name] < present[name] for name in moved)
        blocked = present != target and moved == present and not (unready or plan.rolling)
        if not ended_early(context, gives=gives, blocked=blocked):
            report_progress(context, goal, done=present == target, waits_for=sum(unready.values()))
        elif state.is_return:
            surge = sum(present.values()) - sum(target.values())
            moved = receivers_back(present, state.before, plan.ready, surge)
        else:
            moved = without_surge(present, target, plan.ready)
    shares = plan.with_evidence(goal | moved)
    return Moves(shares, _leaving(context) if state is None else title(state))


def _settled(plan: PlacementPlan, goal: dict[str, int]) -> dict[str, int]:
    """Returns the shares after a move that has just ended: its surge goes, unready replicas first."""
    present = {name: place.present for name, place in plan.places.items() if place.reachable}
    target = {name: goal[name] for name in present}
    if sum(present.values()) <= sum(target.values()):
        return goal
    return goal | without_surge(present, target, plan.ready)


def _waited(
    context: Context, plan: PlacementPlan, absent: Sequence[str], current: int, desired: int
) -> Moves:
    """Returns the shares while a move waits for `absent` clusters: what runs stays, its surge included."""
    state = context.rebalance
    reason = "" if state is None else title(state)
    if ended_early(context, gives=False, blocked=False):
        return Moves(plan.with_evidence(_settled(plan, plan.goal(desired))), reason)
    report_progress(context, {} if state is None else state.goal, done=False, waits_for=0, absent=absent)
    running = sum(place.present for place in plan.places.values())
    size = desired if desired < current else max(desired, running)
    return Moves(plan.with_evidence(plan.goal(size)), reason)


def _shrunk(context: Context, plan: PlacementPlan, desired: int) -> dict[str, int]:
    """Returns the shares under Duplicated: a leaving cluster shrinks, and nothing grows for it."""
    shares = plan.goal(desired)
    step = release_step(context.spec.max_replicas)
    for cluster in context.fleet.leaving:
        place = plan.places[cluster.name]
        known = context.memory.clusters.get(cluster.name)
        scaled = None if known is None else known.scaled
        rests = scaled is not None and 0 <= context.now - scaled < SHRINK_SECONDS
        if place.reachable:
            shares[cluster.name] = place.present if rests else max(place.present - step, 0)
        context.waits[cluster.name] = f"{step} a minute {'goes' if step == 1 else 'go'}"
    return shares


def _leaving(context: Context) -> str:
    names = [cluster.name for cluster in context.fleet.leaving]
    verb = "leaves" if len(names) == 1 else "leave"
    return f"{listed(names)} {verb}"


def _note_stuck(context: Context, plan: PlacementPlan) -> None:
    for name in context.fleet.stuck:
        ready = plan.ready.get(name, 0)
        pods = "1 ready pod" if ready == 1 else f"{ready} ready pods"
        context.waits[name] = f"it keeps {pods}, and one replica that shows when more get ready"


def _note_waits(
    context: Context, plan: PlacementPlan, goal: Mapping[str, int], unready: Mapping[str, int]
) -> None:
    """Set what each leaving cluster waits for."""
    takers = any(context.fleet.membership(name) == MEMBER for name in plan.places)
    for cluster in context.fleet.leaving:
        name = cluster.name
        place = plan.places[name]
        if not place.reachable:
            text = "it does not answer, or refused a write"
        elif context.spec.dry_run:
            text = "spec.dryRun: nothing moves"
        elif not place.present:
            text = "its last pods end"
        elif goal[name] and not takers:
            text = "no other cluster takes replicas"
        elif goal[name]:
            text = f"no cluster has room for {goal[name]} of its replicas"
        elif name in plan.rolling:
            text = "its pods have two versions, and a rollout ends first"
        elif unready:
            count = sum(unready.values())
            pods = "pod is" if count == 1 else "pods are"
            text = f"{count} {pods} not ready in {listed(list(unready))}"
        else:
            text = "its replicas move"
        context.waits[name] = text


def reported_memberships(context: Context) -> dict[str, ClusterMembership]:
    """Returns the clusters that are no Members, with what they wait for; adds events of what changed."""
    fleet, found = context.fleet, {}
    elsewhere = ""
    if not fleet.direct:
        elsewhere = "Karmada's scheduler places the replicas"
    for name, one in list(fleet.memberships.items()):
        if not context.spec.dry_run and not elsewhere:
            _report(context, name, one)
        if one.standing.new:
            _note_new_host(context, name, one)
        if one.state != MEMBER:
            undecided = ""
            if one.state == LEAVING:
                undecided = LOST_TEXT if name in fleet.lost else "nothing is decided now: see the conditions"
            waits = elsewhere or context.waits.get(name, undecided)
            if name in context.snapshot.evictions:
                waits = ""  # Karmada itself waits for the replacement
            text = ": ".join(part for part in (one.why, waits) if part)
            found[name] = ClusterMembership(one.state, shortened(text, _MAX_WAITS))
    if context.cordoned_grow:
        text = (
            "no Member can take more replicas, so cordoned clusters get them: add a cluster, uncordon one, "
        )
        text += "or raise autoscalingMaxThreshold"
        context.builder.condition(MEMBERS_AVAILABLE, False, "NoMemberCluster", text)
    elif context.builder.found(MEMBERS_AVAILABLE) is not None:
        context.builder.condition(MEMBERS_AVAILABLE, True, "MembersHaveRoom", "Members take all replicas")
    return found


def _note_new_host(context: Context, name: str, one: Membership) -> None:
    """Remember since when a new host serves; after long enough it is none."""
    if context.memory.standing(name) is None:
        text = f"{name} began to run the workload; until its pods serve, a scale-down takes from it first"
        context.builder.event("ClusterBeganHosting", text)
    since = one.standing.serves_since
    if not _serves(context, name):
        since = None
    elif since is None or since > context.now:
        since = context.now // 1
    proven = since is not None and context.now - since >= SERVES_SECONDS
    standing = msgspec.structs.replace(one.standing, new=not proven, serves_since=None if proven else since)
    context.fleet.memberships[name] = one._replace(standing=standing)
    if proven:
        context.builder.event("ClusterMember", f"{name} takes part like the others, because its pods serve")


def _serves(context: Context, name: str) -> bool:
    """True if pods of the cluster are ready, and use at least half of what those of the others do."""
    view = next((one for one in context.fleet.answered if one.name == name), None)
    if view is None or not view.ready_pods:
        return False
    used = loads(context.metrics)
    ready = {one.name: one.ready_pods for one in context.fleet.answered if one.name in used}
    others = sum(used[other] for other in ready if other != name)
    pods = sum(count for other, count in ready.items() if other != name)
    return not used or used.get(name, 0) * pods * 2 >= others * view.ready_pods > 0


def _report(context: Context, name: str, one: Membership) -> None:
    """Add an event if the membership changed, or if a leave takes too long."""
    known = context.memory.standing(name)
    was_stuck, is_stuck = known is not None and known.stuck_since is not None, name in context.fleet.stuck
    if was_stuck is not is_stuck:
        if is_stuck:
            context.builder.warn("ClusterStuck", f"{name}: {one.why}")
        else:
            context.builder.event("ClusterMember", f"{name} is no longer stuck")
    before, now = MEMBER if known is None else known.membership, one.standing.membership
    if now != before:
        if now == LEAVING:
            moves = "its replicas move to others" if one.state == LEAVING else "its replicas stay"
            context.builder.event("ClusterLeaves", f"{name} leaves: {moves} ({one.why})")
        elif now == CORDONED:
            context.builder.event("ClusterCordoned", f"{name} gets no more replicas ({one.why})")
        else:
            context.builder.event("ClusterMember", f"{name} takes part again; it was {before}")
    elif now == LEAVING and name in context.waits and not one.standing.warned:
        since = one.standing.since
        if since is not None and context.now - since >= LONG_SECONDS:
            text = f"{name} has been leaving for an hour: {context.waits[name]}"
            context.builder.warn("LeaveWaits", text)
            standing = msgspec.structs.replace(one.standing, warned=True)
            context.fleet.memberships[name] = one._replace(standing=standing)


def _needed(context: Context, plan: PlacementPlan, state: Rebalance) -> dict[str, int]:
    """Returns the fewest replicas that each cluster needs for its own part of the load.

    Only metrics of pods say that. A cluster whose part is unknown needs what runs there.
    """
    grown = [name for name, share in state.before.items() if plan.places[name].present > share]
    found = dict.fromkeys(plan.places, 0)
    present = {name: place.present for name, place in plan.places.items()}
    above = 1 + tolerances(context).scale_up
    for metric in context.metrics:
        if metric_type(metric.type).per_pod and follows_pods(metric):
            parts = _parts(metric, plan.ready)
            known = needed_replicas(parts, plan.ready, grown, above, spare=above)
            found = {name: max(least, known.get(name, present[name])) for name, least in found.items()}
    return found


def _truncated(metric: MetricResult) -> float:
    """Returns how much more than its ratio a metric may use: Kubernetes truncates the mean of all pods.

    Idle pods of a cluster that only claims room make the mean smaller, and so this part larger.
    """
    per_cent, amount = metric.target.get("averageUtilization"), metric.target.get("averageValue")
    target = per_cent if isinstance(per_cent, int) else parse_milli(amount) if isinstance(amount, str) else 0
    return 1 / target if target > 0 else 0.0


def _parts(metric: MetricResult, ready: Mapping[str, int]) -> dict[str, float]:
    """Returns each cluster's part of the load, in replicas at exactly the target; {} if it is unknown."""
    if metric.usage_ratio is None or metric.pods is None or not math.isfinite(metric.usage_ratio):
        return {}
    values = {name: max(parse_milli(share.value), 0) for name, share in metric.clusters.items() if share.pods}
    whole, counted = sum(values.values()), sum(share.pods for share in metric.clusters.values())
    load = (metric.usage_ratio + _truncated(metric)) * counted / whole if whole else 0.0
    # A cluster without a ready pod has no load, and needs no metrics.
    return dict.fromkeys((name for name, pods in ready.items() if not pods), 0.0) | {
        name: value * load for name, value in values.items()
    }


def held_size(context: Context, hold: Hold, current: int, size: int) -> int:
    """Returns the size that the hold allows, and adds its step.

    `current` is what runs. Failover and minReplicas may grow the size under every hold.
    """
    after = size
    if hold.stops_down:
        after = max(after, current)
    if hold.stops_up and after > current:
        floor = 0 if context.failover is None else context.failover.floor
        after = min(after, max(current, floor, context.spec.min_replicas))
    return context.builder.step("hold", size, after, str(hold))


def held_shares(
    context: Context,
    hold: Hold,
    plan: PlacementPlan,
    current: int,
    desired: int,
    shares: Mapping[str, int],
) -> Mapping[str, int]:
    """Returns the shares that the hold allows: a size that stays moves nothing but what leaves or is stuck.

    A size that changes is divided as ever, and no cluster changes against the hold's direction.
    """
    fleet = context.fleet
    going = {one.name for one in fleet.leaving} | set(fleet.stuck)
    copies = context.spec.assignment.policy.copies
    if desired == current and not copies and (hold.stops_moves or not going):
        return {name: plan.places[name].present for name in shares}
    found = {}
    for name, share in shares.items():
        present = plan.places[name].present
        # Replicas of such a cluster go only as far as others are ready, or serve nothing.
        if hold.stops_down and (copies or name not in going):
            share = max(share, present)
        if hold.stops_up and desired <= current:
            share = min(share, present)
        found[name] = share
    return found
