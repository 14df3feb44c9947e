"""The minimum and the maximum of each cluster in a pass, without help and hold.

The steps initial and distribute of mode Distributed. Source: docs/explanation/distributed.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from fedhpa.assignment.distribute import Distribution, distribute, eased_total
from fedhpa.assignment.due import is_due, recently_scaled
from fedhpa.assignment.fleet import Fleet
from fedhpa.assignment.initial import initial
from fedhpa.assignment.observed import Rules
from fedhpa.assignment.policies import DUPLICATED
from fedhpa.assignment.shares import Bounds, MemberState, lowest
from fedhpa.assignment.steps import PlanStep, Step, named, sentence

# A spare cluster leaves after it was not needed for this long.
LEAVE_SECONDS: Final = 10 * 60
# Each round may lower the maximum of another cluster that just scaled.
_MAX_ROUNDS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The clusters that are not lost, with the bounds that they are to have; no HPA has neither.

    `unassigned` replicas fit in no cluster. `exceeded` replicas are above the FederatedHPA's maximum.
    """

    members: Sequence[MemberState]
    unassigned: int
    exceeded: int
    step: PlanStep


def sizes(rules: Rules, fleet: Fleet, now: float, entering: str = "", helps: int = 0) -> Sizes:
    """Returns the bounds of this pass.

    `entering` is a cluster that gets an HPA, because clusters with one lack `helps` replicas of help.
    """
    reason = _divided_anew(rules, fleet)
    if reason:
        return _first(rules, fleet, reason)
    return _Later(rules, fleet, now, entering, helps).sizes()


def _divided_anew(rules: Rules, fleet: Fleet) -> str:
    if not fleet.division:
        return "the bounds are assigned for the first time"
    if fleet.division != rules.assigned_for:
        return "minReplicas, the policy, the preferences or the candidate clusters changed"
    for member in fleet.members:
        waiting = fleet.states[member.cluster].starting and member.minimum is None
        if waiting and member.reachable:
            return f"{member.cluster} can be written for the first time"
    return ""


def _first(rules: Rules, fleet: Fleet, reason: str) -> Sizes:
    bounds = _initial(rules, fleet.members)
    members = []
    for member in fleet.members:
        found = bounds[member.cluster]
        if not member.reachable:
            members.append(member)
        elif found is None:
            members.append(replace(member, minimum=None, maximum=None, spare=False))
        else:
            spare = member.overflow > 0
            members.append(replace(member, minimum=found.minimum, maximum=found.maximum, spare=spare))
    return _result(rules, fleet, members, "initial", [reason, *fleet.reasons])


def _initial(rules: Rules, members: Sequence[MemberState]) -> dict[str, Bounds | None]:
    return initial(rules.minimum, rules.maximum, members, rules.policy, exact=rules.exact, uid=rules.uid)


def _result(
    rules: Rules, fleet: Fleet, members: Sequence[MemberState], step: Step, reasons: Sequence[str]
) -> Sizes:
    total = sum(member.maximum or 0 for member in members)
    above = 0 if rules.policy == DUPLICATED else total - rules.maximum
    unassigned = f"{-above} replicas of maxReplicas fit in no cluster"
    return Sizes(
        members=members,
        unassigned=max(-above, 0),
        exceeded=max(above, 0),
        step=PlanStep(
            step=step,
            before=sum(member.maximum or 0 for member in fleet.members),
            after=total,
            reason=sentence([*reasons, unassigned] if above < 0 else reasons),
        ),
    )


class _Later:
    """The bounds of a pass that does not assign all bounds anew."""

    def __init__(self, rules: Rules, fleet: Fleet, now: float, entering: str, helps: int) -> None:
        self._rules, self._fleet, self._now = rules, fleet, now
        self._entering, self._helps = entering, helps
        self._divides = rules.policy != DUPLICATED
        self._leaving = frozenset(
            member.cluster
            for member in fleet.members
            if member.spare and member.reachable and self._idle(member.cluster) >= LEAVE_SECONDS
        )
        self._members = self._with_minima()
        # The maxima if nothing is due. A cluster without a minimum is to have no HPA.
        self._kept = {
            member.cluster: 0 if member.reachable and member.minimum is None else member.maximum or 0
            for member in self._members
        }
        self._sum = sum(self._kept.values())
        self._missing = [member.cluster for member in self._members if self._lacks_hpa(member)]

    def sizes(self) -> Sizes:
        """Returns the bounds: those that are assigned, unless others are due."""
        changes, pressed = list(self._changes()), list(self._pressed())
        room = self._divides and self._sum < self._rules.maximum
        maxima, unmoved = dict(self._kept), frozenset[str]()
        if changes or self._missing or (self._rules.assists and (pressed or room)):
            found, unmoved = self._distributed()
            if changes or self._due(found.maxima):
                maxima = dict(found.maxima)
            elif self._missing:
                maxima |= self._for_missing(found.maxima)
        reasons = [*changes, *pressed]
        if maxima != self._kept:
            reasons += [f"{cluster}: gets its missing HPA" for cluster in self._missing]
            if unmoved:
                reasons.append(f"{named(unmoved)} just scaled, so no maximum falls there for two minutes")
        elif not self._rules.assists:
            reasons.append("scaleAssist is false, so the bounds stay")
        elif reasons:
            reasons.append("another division would let none of these clusters do more, so the bounds stay")
        else:
            reasons.append("no cluster is at its maximum or has pending pods, so the bounds stay")
        members = [self._sized(member, maxima[member.cluster]) for member in self._members]
        return _result(self._rules, self._fleet, members, "distribute", [*reasons, *self._fleet.reasons])

    def _idle(self, cluster: str) -> float:
        """Returns for how many seconds nobody needed a spare cluster."""
        since = self._fleet.states[cluster].idle_since
        return 0.0 if since is None else self._now - since

    def _with_minima(self) -> list[MemberState]:
        """Returns the members with the minima of this pass. The others get the share of a lost cluster."""
        members = list(self._fleet.members)
        if self._fleet.moved:
            bounds = _initial(self._rules, members)
            members = [
                replace(
                    member,
                    minimum=None if bound is None else bound.minimum,
                    spare=bound is not None and member.overflow > 0,
                )
                if member.reachable
                else member
                for member in members
                for bound in (bounds[member.cluster],)
            ]
        if self._entering:
            members = [
                replace(member, minimum=1, spare=True, helps=self._helps)
                if member.cluster == self._entering
                else member
                for member in members
            ]
        if self._leaving:
            members = [
                replace(member, minimum=None, spare=False) if member.cluster in self._leaving else member
                for member in members
            ]
        return members

    def _lacks_hpa(self, member: MemberState) -> bool:
        """True if a cluster never got the HPA that it is to have, because a write was refused."""
        wanted = member.minimum is not None and member.cluster != self._entering
        return member.reachable and wanted and not member.maximum

    def _changes(self) -> Iterator[str]:
        """Yields the reasons for which every difference is written."""
        fleet, most = self._fleet, self._rules.maximum
        if fleet.total is None:
            yield "the maximum of the last division is unknown"
        elif fleet.total != most:
            change = "lowered" if most < fleet.total else "raised"
            yield f"maxReplicas was {change} from {fleet.total} to {most}"
        if fleet.newly_lost:
            yield f"{named(fleet.newly_lost)}: lost, so the share goes to the others"
        if fleet.returned:
            yield f"{named(fleet.returned)}: back"
        if self._divides and self._sum > most:
            yield f"all maxima add up to {self._sum}, which is above maxReplicas {most}"
        if self._entering:
            yield f"{self._entering}: gets an HPA, because the others cannot help enough"
        if self._leaving:
            yield f"{named(self._leaving)}: not needed for ten minutes, so its HPA goes"

    def _pressed(self) -> Iterator[str]:
        for member in self._members:
            if member.need is not None:
                yield f"{member.cluster}: at its maximum of {member.maximum or 0} and needs {member.need}"
            if member.pending and self._divides:
                yield f"{member.cluster}: {member.pending} replicas are pending"

    def _due(self, maxima: Mapping[str, int]) -> bool:
        if not self._rules.assists:
            return False
        return is_due(_as_bounds(self._kept), _as_bounds(maxima), self._members, changed=False)

    def _distributed(self) -> tuple[Distribution, frozenset[str]]:
        """Returns the division, and the clusters whose maximum stays because they scaled just now.

        Such a cluster keeps exactly its maximum. With a part of the rest on top, it would grow in each pass.
        """
        rules, members = self._rules, self._members
        observed = self._fleet.observed
        scaled = recently_scaled(
            [member for member in members if member.reachable],
            {member.cluster: observed[member.cluster].scaled_at for member in members},
            {member.cluster: observed[member.cluster].load for member in members},
            self._now,
            overruled=self._fleet.moved or self._fleet.lowered(rules.maximum),
        )
        total = self._total()
        found = distribute(total, members, rules.policy, uid=rules.uid)
        kept: frozenset[str] = frozenset()
        for _ in range(_MAX_ROUNDS):
            falling = {cluster for cluster in scaled - kept if found.maxima[cluster] < self._kept[cluster]}
            if not falling:
                break
            kept |= falling
            members = [
                replace(member, high=lowest(member.high, member.maximum))
                if member.cluster in falling
                else member
                for member in members
            ]
            found = distribute(total, members, rules.policy, uid=rules.uid, kept=kept)
        return found, kept

    def _total(self) -> int:
        """Returns the replicas to distribute: after a cluster came back, a surplus shrinks by 10 % of M."""
        fleet, most = self._fleet, self._rules.maximum
        eased = fleet.returned or any(state.over_since is not None for state in fleet.states.values())
        if not eased or fleet.lowered(most) or self._sum <= most:
            return most
        return min(eased_total(most, sum(member.running for member in self._members)), self._sum)

    def _for_missing(self, maxima: Mapping[str, int]) -> dict[str, int]:
        """Returns maxima for missing HPAs of the room that is left; without any, all bounds are divided."""
        room = self._rules.maximum - self._sum
        found = {}
        for cluster in self._missing:
            found[cluster] = min(maxima[cluster], room) if self._divides else maxima[cluster]
            room -= found[cluster]
        return found if all(found.values()) else dict(maxima)

    def _sized(self, member: MemberState, most: int) -> MemberState:
        if not member.reachable:
            return member
        if not most:
            return replace(member, minimum=None, maximum=None, spare=False)
        if member.minimum is None:
            return replace(member, minimum=1, maximum=most, spare=True)
        return replace(member, maximum=most)


def _as_bounds(maxima: Mapping[str, int]) -> dict[str, Bounds | None]:
    return {cluster: Bounds(minimum=1, maximum=most) if most else None for cluster, most in maxima.items()}
