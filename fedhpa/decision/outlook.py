"""The condition SurvivesClusterLoss: the loss of one cluster, judged before it happens.

It is set only where the capacity of a cluster is known. It never makes an object unready.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fedhpa.api.errors import InvalidObject
from fedhpa.api.times import parse_time
from fedhpa.assignment import ClusterHeadroom, worst_loss
from fedhpa.decision.context import Context
from fedhpa.decision.failover import MAX_LOST_PER_CENT
from fedhpa.decision.messages import SURVIVES_CLUSTER_LOSS

# Free capacity changes all the time. A better outlook waits so long after the last change.
QUIET_SECONDS: Final = 600
ROOM_ELSEWHERE: Final = "if any one cluster is lost, the others have room for its replicas"
COPIES: Final = "if any one cluster is lost, each of the others still runs the whole size"
NOTHING_KNOWN: Final = "the capacity of no cluster is known any more"
# People read conditions, so they name only so many clusters.
_MAX_NAMED: Final = 8


def report_outlook(
    context: Context, clusters: Sequence[ClusterHeadroom], *, copies: bool = False, held_above: bool = False
) -> None:
    """Sets the condition from the headroom of all `clusters`.

    With `copies` each cluster runs the whole size. With `held_above` the controller fails a cluster with a
    large part of the replicas over only as usage asks for it.
    """
    # While a cluster is missing, its replicas and its room are those of some time ago.
    if context.coverage.missing or not clusters:
        return
    unknown = [one.cluster for one in clusters if not one.known]
    if len(unknown) == len(clusters):
        if context.builder.message(SURVIVES_CLUSTER_LOSS) is not None:
            _set(context, None, "CapacityUnknown", NOTHING_KNOWN)
        return
    worst = worst_loss(clusters, context.spec.max_replicas)
    if worst is None:
        return
    if len(clusters) == 1:
        text = f"without {worst.cluster}, no replica has room, because no other cluster takes part"
        _set(context, False, "OnlyCluster", text)
    elif copies:
        _set(context, True, "RunsEverywhere", COPIES)
    elif worst.survives:
        _set(context, True, "RoomElsewhere", ROOM_ELSEWHERE + _failover(clusters, held_above=held_above))
    elif worst.survives is None:
        text = f"without {worst.cluster}, up to {worst.at_most} of {worst.total} replicas have no room"
        others = [name for name in unknown if name != worst.cluster]
        more = f" and {len(others) - _MAX_NAMED} more" if len(others) > _MAX_NAMED else ""
        names = ", ".join(others[:_MAX_NAMED]) + more
        _set(context, None, "CapacityUnknown", f"{text}; the capacity of {names} is unknown")
    else:
        verb = "has" if worst.lacking == 1 else "have"
        text = f"without {worst.cluster}, {worst.lacking} of {worst.total} replicas {verb} no room"
        _set(context, False, "NoRoom", text + _failover(clusters, held_above=held_above))


def _failover(clusters: Sequence[ClusterHeadroom], *, held_above: bool) -> str:
    """Returns what happens to the replicas of a cluster that has most of them; "" without such a cluster."""
    total = sum(one.replicas for one in clusters)
    for one in clusters:
        if held_above and one.replicas * 100 > MAX_LOST_PER_CENT * total:
            part = f"more than {MAX_LOST_PER_CENT} % of the replicas"
            return f"; {one.cluster} runs {part}, so after its loss the others grow only as usage asks"
    return ""


def _set(context: Context, status: bool | None, reason: str, message: str) -> None:
    """Sets the condition. A worse status is set at once, a better one only after a quiet time."""
    before = context.builder.found(SURVIVES_CLUSTER_LOSS)
    if before is not None and status is not False and before.status != str(status or "Unknown"):
        try:
            since = parse_time(before.last_transition_time) if before.last_transition_time else None
        except InvalidObject:
            since = None
        if since is not None and 0 <= context.now - since < QUIET_SECONDS:
            return
    context.builder.condition(SURVIVES_CLUSTER_LOSS, status, reason, message)
