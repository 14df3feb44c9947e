"""The moments at which newly computed bounds are written (mode Distributed). A quiet fleet gets no writes.

Source: docs/explanation/distributed.md, "When it is written".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Final

from fedhpa.assignment.shares import Bounds, MemberState

# Federation v1's rule: the maximum of a cluster that just scaled is left alone for two minutes.
SCALED_SECONDS: Final = 120
# A member's clock may be ahead of the hub's by so much.
_CLOCK_SKEW: Final = 60


def is_due(
    present: Mapping[str, Bounds | None],
    wanted: Mapping[str, Bounds | None],
    members: Iterable[MemberState],
    *,
    changed: bool,
) -> bool:
    """Returns True if the wanted bounds are to be written.

    `changed` is True if the spec or the candidates changed, or a cluster was lost or returned: then every
    difference is written. Otherwise the result must change what a cluster can do at once. A pinned cluster
    may grow, a cluster with pending pods passes on its share, or an HPA comes or goes beside either.
    """
    different = {cluster for cluster in wanted if wanted[cluster] != present.get(cluster)}
    if changed or not different:
        return bool(different)
    members = [member for member in members if member.need is not None or member.pending]
    if members and any(wanted[cluster] is None or present.get(cluster) is None for cluster in different):
        return True
    for member in members:
        if member.cluster in different:
            rise = _most(wanted[member.cluster]) - _most(present.get(member.cluster))
            if (rise > 0 and member.need is not None) or (rise < 0 and member.pending):
                return True
    return False


def recently_scaled(
    members: Iterable[MemberState],
    scaled_at: Mapping[str, float | None],
    loads: Mapping[str, Fraction | None],
    now: float,
    *,
    overruled: bool,
) -> frozenset[str]:
    """Returns the clusters whose maximum is not lowered now, for `distribute(kept=...)`.

    Each scaled less than two minutes ago, and its usage is at or above target. `scaled_at` are the times of
    the last scaling, in seconds. `loads` are the replicas that would keep the usage exactly at target; an
    unknown load counts as at target. `overruled` is True if the FederatedHPA's maximum was lowered, or a
    cluster was lost or returned; then no maximum is kept. A cluster with pending pods keeps none either.
    """
    if overruled:
        return frozenset()
    kept = set()
    for member in members:
        at, load = scaled_at.get(member.cluster), loads.get(member.cluster)
        recent = at is not None and -_CLOCK_SKEW <= now - at < SCALED_SECONDS
        if recent and not member.pending and (load is None or load >= member.present):
            kept.add(member.cluster)
    return frozenset(kept)


def _most(bounds: Bounds | None) -> int:
    return 0 if bounds is None else bounds.maximum
