"""`fedhpa drain --dry-run`: where the replicas of each object would go, as far as the hub knows. Pure.

Room for replicas is known from the last decision, in condition SurvivesClusterLoss. A policy that divides by
capacity or load reads both at the time of the move, so that its division is unknown before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from fedhpa.api.assignment_policies import EQUAL, AssignmentPolicy
from fedhpa.api.errors import InvalidObject
from fedhpa.api.free_json import at, condition, text_at
from fedhpa.api.known_cluster import KnownCluster
from fedhpa.api.taints import DRAIN_TAINT, PREFER_NO_SCHEDULE, PROBE_TAINTS, Toleration, tolerated_for
from fedhpa.api.texts import listed, one_line
from fedhpa.assignment import Place, split
from fedhpa.cli.drain.objects import MAX_REASON, Entry, clusters_of, entry_of, name_of, number_of, obstacle_of
from fedhpa.decision import ScalingSpec, decode_spec

SURVIVES_CLUSTER_LOSS: Final = "SurvivesClusterLoss"
UNKNOWN: Final = "unknown"
# Clusters that a line names.
MAX_CLUSTERS: Final = 8


class Forecast(msgspec.Struct, frozen=True, omit_defaults=True):
    """The replicas of one object in the cluster, and where they would go.

    `stays` is the reason why none would move, "" if they would. `among` are the clusters that would take
    them; `division` is how many each would take, None if that is unknown. `unplaced` replicas are above what
    autoscalingMaxThreshold lets these clusters take. `room` is what the last decision says about their nodes;
    `lacks_room` is True if they have too little.
    """

    name: str
    replicas: int | None
    stays: str = ""
    among: tuple[str, ...] = ()
    division: Mapping[str, int] | None = None
    policy: AssignmentPolicy = EQUAL
    unplaced: int = 0
    room: str = UNKNOWN
    lacks_room: bool = False

    @property
    def is_finding(self) -> bool:
        """True if some of the replicas would not move."""
        return bool(self.stays) or self.unplaced > 0 or self.lacks_room

    def to_json(self) -> dict[str, Any]:
        """Returns the forecast as data. An unknown division is null."""
        shown = ("name", "replicas", "stays", "among", "division", "unplaced", "room")
        return {key: msgspec.to_builtins(getattr(self, key)) for key in shown}

    def __str__(self) -> str:
        count = number_of(self.replicas)
        if self.stays:
            return f"{self.name}: {count} would stay: {self.stays}"
        if self.policy.copies:
            return f"{self.name}: {count} would go; each other cluster has its own (Duplicated)"
        if self.division is None:
            names = listed(self.among, MAX_CLUSTERS)
            where = f"among {names}; the division by {self.policy} is unknown until they move"
        else:
            taking = [f"{number} to {name}" for name, number in self.division.items() if number]
            where = listed(taking, MAX_CLUSTERS) or "nowhere"
        unplaced = f"; autoscalingMaxThreshold leaves no room for {self.unplaced}" if self.unplaced else ""
        return f"{self.name}: {count}: {where}{unplaced}; room there: {self.room}"


def forecasts(
    raws: Iterable[Mapping[str, Any]], cluster: str, clusters: Mapping[str, KnownCluster]
) -> Iterator[Forecast]:
    """Yields the forecast of each object with replicas in `cluster`. `clusters` are all registered ones."""
    for raw in raws:
        if not isinstance(raw, dict) or not isinstance(at(raw, "status"), dict | None):
            yield Forecast(name_of(raw), None, "it cannot be read")
            continue
        entry = entry_of(raw, cluster)
        if entry is not None and entry.replicas != 0:
            yield _forecast(raw, entry, clusters)


def _forecast(raw: Mapping[str, Any], entry: Entry, clusters: Mapping[str, KnownCluster]) -> Forecast:
    stays = Forecast(name_of(raw), entry.replicas)
    if obstacle := obstacle_of(raw):
        return msgspec.structs.replace(stays, stays=obstacle)
    try:
        spec = decode_spec(raw.get("spec"))
    except InvalidObject as error:
        return msgspec.structs.replace(stays, stays=one_line(str(error), MAX_REASON))
    policy = spec.assignment.policy
    if policy.copies:
        return msgspec.structs.replace(stays, policy=policy)
    takers = {
        one.name: one
        for one in clusters_of(raw)
        if one.name != entry.name and _takes(one, clusters.get(one.name), spec.tolerations)
    }
    if not takers:
        return msgspec.structs.replace(stays, stays="no other cluster of the object takes replicas")
    room, lacks_room = _room(raw, entry.name)
    division, unplaced = _division(spec, entry, takers, clusters)
    among = tuple(one_line(name) for name in takers)
    return Forecast(
        name_of(raw), entry.replicas, "", among, division, policy, unplaced, room, lacks_room=lacks_room
    )


def _takes(entry: Entry, known: KnownCluster | None, tolerations: Iterable[Toleration]) -> bool:
    """True if the cluster is a Member that answers and takes more replicas."""
    if known is None or entry.membership or entry.state in ("Missing", "Lost"):
        return False
    return all(
        taint.effect == PREFER_NO_SCHEDULE
        or taint.key in PROBE_TAINTS
        or (taint.key != DRAIN_TAINT and tolerated_for(taint, tolerations) != 0.0)
        for taint in known.taints
    )


def _division(
    spec: ScalingSpec, entry: Entry, takers: Mapping[str, Entry], clusters: Mapping[str, KnownCluster]
) -> tuple[dict[str, int] | None, int]:
    """Returns how many replicas each cluster would take, None if unknown, and how many none could take."""
    policy, leaving = spec.assignment.policy, entry.replicas
    if leaving is None or (len(takers) > 1 and (policy.by_capacity or policy.by_load)):
        return None, 0
    preferred = spec.assignment.preferred([clusters[name] for name in takers])
    places = {}
    for name, one in takers.items():
        preference = preferred.get(name)
        weight, low, high = (
            (None, None, None) if preference is None else (preference.weight, preference.low, preference.high)
        )
        places[name] = Place(
            present=one.replicas or 0,
            weight=1 if weight is None else weight,
            low=low or (0 if spec.assignment.exact else 1),
            high=high,
        )
    present = sum(place.present for place in places.values())
    after = split(present + leaving, places, policy)
    more = {one_line(name): after[name] - place.present for name, place in places.items()}
    return more, max(leaving - sum(more.values()), 0)


def _room(raw: Mapping[str, Any], cluster: str) -> tuple[str, bool]:
    """Returns what the last decision says about room in the other clusters, and True if it is too little."""
    said = condition(raw, SURVIVES_CLUSTER_LOSS)
    if not said:
        return UNKNOWN, False
    text = one_line(text_at(said, "message"), MAX_REASON)
    if said.get("status") == "True":
        return "enough, by the last decision", False
    # The condition is about the worst cluster to lose, which may be another one.
    lacks = said.get("status") == "False" and text.startswith(f"without {cluster},")
    return f"{'not enough' if lacks else UNKNOWN}, the last decision says: {text}", lacks
