"""The typed writes of a plan, and the order in which they are sent.

Source: docs/explanation/distributed.md, "Order of writes". Maxima are lowered first, and raised only by what
was confirmed lowered, so a failed write never lets their sum pass the FederatedHPA's maximum. Minima are
lowered last, and only by what was confirmed raised.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias

from fedhpa.assignment.clusters import Bounds
from fedhpa.assignment.division import by_weight

_NONE = Bounds(minimum=0, maximum=0)


# The place of the template's scale among those of the clusters.
TEMPLATE: Final = ""


class Result(enum.Enum):
    """The result of a write. UNKNOWN: the member may have made the change, for example after a time-out.

    SUPERSEDED: somebody else changed the same value first, so nothing was written.
    """

    CONFIRMED = "confirmed"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    SUPERSEDED = "superseded"


@dataclass(frozen=True, slots=True)
class SetScale:
    """Sets the replicas of the workload in one cluster, or those of the TEMPLATE."""

    cluster: str
    replicas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SetBounds:
    """One write of a member HPA. Without `before` it is created, without `after` it is deleted.

    The same bounds in both write its whole spec again.
    """

    cluster: str
    before: Bounds | None
    after: Bounds | None


@dataclass(frozen=True, slots=True)
class RemoveHpa:
    """Deletes a member HPA, whatever its bounds are."""

    cluster: str


Write: TypeAlias = SetScale | SetBounds | RemoveHpa


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A write and its result. `reason` says why it was not confirmed."""

    write: Write
    result: Result
    reason: str = ""


def next_scales(
    wanted: Mapping[str, int],
    present: Mapping[str, int],
    outcomes: Iterable[Outcome] = (),
    *,
    grows_first: bool = False,
    moves: bool = False,
) -> tuple[SetScale, ...]:
    """Returns the scales that may be written now, all at once; none when all were tried.

    Smaller shares are written first and then the larger ones, or with `grows_first` the other way round. With
    `moves` the size stays, so nothing grows for replicas that were not removed. `present` are the replicas
    that can be written. A cluster that is not in it does not answer, so its replicas stay. `outcomes` are
    those of all earlier writes.
    """
    results = {one.write.cluster: one.result for one in outcomes if isinstance(one.write, SetScale)}
    lower = [name for name, size in wanted.items() if name in present and size < present[name]]
    higher = [name for name, size in wanted.items() if name in present and size > present[name]]
    if moves and any(results.get(name, Result.CONFIRMED) is not Result.CONFIRMED for name in lower):
        higher = []
    for names in (higher, lower) if grows_first else (lower, higher):
        if batch := tuple(SetScale(name, wanted[name]) for name in names if name not in results):
            return batch
    return ()


class Sent:
    """The bounds as far as they are known after the writes of a pass so far, and which may be sent next.

    `total` is the FederatedHPA's maximum, None under Duplicated. `present` are all bounds when the pass
    began; clusters that are not in `wanted` keep theirs. `outcomes` are those of all earlier writes of the
    pass, in order. A cluster with a failed write is left to the next pass. Where room is scarce, the maxima
    of the `first` clusters rise first.

    `again` are clusters that are written also where the wanted bounds are the present ones, because a Work on
    the hub may have others, or the HPA has drifted. Its value is the highest maximum that a failed write of
    an earlier pass may still bring.
    """

    def __init__(
        self,
        total: int | None,
        present: Mapping[str, Bounds | None],
        wanted: Mapping[str, Bounds | None],
        outcomes: Iterable[Outcome] = (),
        first: Collection[str] = (),
        again: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self._total, self._first = total, first
        # A missing HPA has the bounds 0 and 0.
        self._now = {cluster: present.get(cluster) or _NONE for cluster in sorted({*present, *wanted})}
        # Of an unknown outcome the worse is assumed: the higher maximum, and either minimum.
        self._most, self._least = dict(self._now), dict(self._now)
        for cluster, most in again.items():
            if cluster in self._most:
                self._most[cluster] = _both(max, self._now[cluster], Bounds(minimum=0, maximum=most))
        self.clusters, self.failed = set[str](), set[str]()
        for outcome in outcomes:
            if not isinstance(outcome.write, SetBounds):
                continue
            cluster, after = outcome.write.cluster, outcome.write.after or _NONE
            self.clusters.add(cluster)
            if outcome.result is Result.CONFIRMED:
                self._now[cluster] = self._most[cluster] = self._least[cluster] = after
                continue
            self.failed.add(cluster)
            if outcome.result is Result.UNKNOWN:
                self._most[cluster] = _both(max, self._most[cluster], after)
                self._least[cluster] = _both(min, self._now[cluster], after)
        self._again = [name for name in again if name in self._now and name not in self.clusters]
        self._goals = {
            cluster: bounds or _NONE
            for cluster, bounds in sorted(wanted.items())
            if cluster not in self.failed
        }
        self._wanted = wanted

    @property
    def maxima(self) -> dict[str, int]:
        """The highest maximum that each cluster may have now."""
        return {cluster: bounds.maximum for cluster, bounds in self._most.items()}

    def next(self) -> tuple[SetBounds, ...]:
        """Returns the writes that may be sent now, all at once; none when the pass has ended."""
        return self.lowered_maxima() or self.written_again() or self.raised() or self.lowered_minima()

    def lowered_maxima(self) -> tuple[SetBounds, ...]:
        """Returns the writes that lower a maximum, and the minimum with it if no other has to rise before."""
        lower = self._allowed_minima()
        if any(least > self._goals[cluster].minimum for cluster, least in lower.items()):
            lower = {}
        after = {}
        for cluster, goal in self._goals.items():
            now = self._now[cluster]
            if now.maximum > goal.maximum:
                least = min(lower.get(cluster, now.minimum), goal.maximum)
                after[cluster] = Bounds(minimum=least, maximum=goal.maximum)
        return self._writes(after)

    def written_again(self) -> tuple[SetBounds, ...]:
        """Returns the writes of present bounds, where another write may still be on its way."""
        found = ((cluster, self._now[cluster]) for cluster in self._again)
        return tuple(
            SetBounds(cluster=cluster, before=bounds, after=bounds)
            for cluster, bounds in found
            if bounds.maximum
        )

    def raised(self) -> tuple[SetBounds, ...]:
        """Returns the writes that raise bounds, within the total less all maxima that members may have."""
        maxima = self._granted(
            {cluster: goal.maximum - self._now[cluster].maximum for cluster, goal in self._goals.items()},
            [bounds.maximum for bounds in self._most.values()],
        )
        tops = {cluster: self._now[cluster].maximum + maxima.get(cluster, 0) for cluster in self._goals}
        minima = self._granted(
            {
                cluster: min(goal.minimum, tops[cluster]) - self._now[cluster].minimum
                for cluster, goal in self._goals.items()
            },
            [bounds.minimum for bounds in self._most.values()],
        )
        after = {}
        for cluster, top in tops.items():
            if top:
                least = max(self._now[cluster].minimum + minima.get(cluster, 0), 1)
                after[cluster] = Bounds(minimum=least, maximum=top)
        return self._writes(after)

    def lowered_minima(self) -> tuple[SetBounds, ...]:
        """Returns the writes that lower minima, by what other clusters have raised."""
        return self._writes(
            {
                cluster: Bounds(minimum=least, maximum=self._now[cluster].maximum)
                for cluster, least in self._allowed_minima().items()
            }
        )

    def _allowed_minima(self) -> dict[str, int]:
        """Returns the lower minima that keep the sum of all minima at the wanted sum or above."""
        drops = {
            cluster: self._now[cluster].minimum - goal.minimum
            for cluster, goal in self._goals.items()
            if self._now[cluster].minimum > goal.minimum
        }
        wanted = {cluster: bounds or _NONE for cluster, bounds in self._wanted.items()}
        spare = sum(self._least[cluster].minimum - bounds.minimum for cluster, bounds in wanted.items())
        granted = _part(max(spare, 0), drops)
        return {cluster: self._now[cluster].minimum - drop for cluster, drop in granted.items()}

    def _granted(self, rises: Mapping[str, int], taken: Sequence[int]) -> dict[str, int]:
        rises = {cluster: rise for cluster, rise in rises.items() if rise > 0}
        room = sum(rises.values()) if self._total is None else max(self._total - sum(taken), 0)
        first = {cluster: rise for cluster, rise in rises.items() if cluster in self._first}
        granted = _part(room, first)
        others = {cluster: rise for cluster, rise in rises.items() if cluster not in first}
        return granted | _part(room - sum(granted.values()), others)

    def _writes(self, after: Mapping[str, Bounds]) -> tuple[SetBounds, ...]:
        return tuple(
            SetBounds(
                cluster=cluster,
                before=self._now[cluster] if self._now[cluster].maximum else None,
                after=bounds if bounds.maximum else None,
            )
            for cluster, bounds in after.items()
            if bounds != self._now[cluster]
        )


def _part(room: int, rises: Mapping[str, int]) -> dict[str, int]:
    """Returns as much of each change as the room allows, in proportion."""
    if room >= sum(rises.values()):
        return dict(rises)
    return by_weight(room, rises, dict.fromkeys(rises, 0), rises)


def _both(choose: Callable[[int, int], int], one: Bounds, other: Bounds) -> Bounds:
    return Bounds(minimum=choose(one.minimum, other.minimum), maximum=choose(one.maximum, other.maximum))
