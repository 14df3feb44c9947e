"""The hub's objects as a drain sees them: their replicas in one cluster, and what they wait for. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from fedhpa.api.assignment_policies import EQUAL, AssignmentPolicy
from fedhpa.api.autoscalers import from_json
from fedhpa.api.cronfederatedhpa import KIND as CRON_KIND
from fedhpa.api.errors import InvalidObject
from fedhpa.api.federatedhpa import KIND
from fedhpa.api.free_json import at, condition, entries, text_at
from fedhpa.api.known_cluster import KnownCluster
from fedhpa.api.taints import (
    DRAIN_TAINT,
    LEAVING,
    NO_SCHEDULE,
    PREFER_NO_SCHEDULE,
    PROBE_TAINTS,
    Toleration,
    tolerated_for,
)
from fedhpa.api.texts import counted, listed, one_line
from fedhpa.assignment import Place, split
from fedhpa.cli.explain import age, period_of, silent_seconds
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


DISTRIBUTED: Final = "Distributed"
KARMADA: Final = "karmada"
# The taint acts at once, so a controller answers it within a few of its periods.
REACTION_SECONDS: Final = 60
NO_CONTROLLER: Final = "check that a controller runs without --pause: kubectl get leases -A"
MAX_REASON: Final = 300
# Everybody who watches a drain knows of its taint.
_OWN: Final = f"taint {DRAIN_TAINT}:{NO_SCHEDULE}: "


class Entry(NamedTuple):
    """A cluster of an object. `replicas` is None if nobody knows, because the cluster does not answer.

    A lost cluster counts with 0 once the others have its replicas, and may run them still.
    """

    name: str
    state: str
    membership: str
    waits_for: str
    replicas: int | None


def clusters_of(raw: object) -> list[Entry]:
    """Returns the entries of status.clusters of a FederatedHPA."""
    found = []
    for one in entries(raw, "status", "clusters"):
        counts = [
            each for key in ("currentReplicas", "readyReplicas") if isinstance(each := one.get(key), int)
        ]
        name, state, membership, waits_for = (
            text_at(one, key) for key in ("name", "state", "membership", "waitsFor")
        )
        known = max(counts, default=0)
        is_unknown = not known and (state == "Lost" or (bool(state) and not counts))
        found.append(Entry(name, state, membership, waits_for, None if is_unknown else known))
    return found


def entry_of(raw: object, cluster: str) -> Entry | None:
    """Returns the entry of a cluster, if there is one."""
    return next((one for one in clusters_of(raw) if one.name == cluster), None)


def obstacle_of(raw: object) -> str:
    """Returns the setting of an object by which nothing is moved, "" without one."""
    return "spec.dryRun is true, so nothing is moved" if at(raw, "spec", "dryRun") is True else ""


def number_of(replicas: int | None) -> str:
    """Returns a number of replicas for people."""
    return "an unknown number of replicas" if replicas is None else counted(replicas, "replica")


class Waiting(msgspec.Struct, frozen=True):
    """An object with replicas in the cluster, None if their number is unknown, and what it waits for."""

    name: str
    replicas: int | None
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {number_of(self.replicas)} still there: {self.reason}"


class Alone(msgspec.Struct, frozen=True):
    """A workload that only a CronFederatedHPA scales. Nothing moves it, and its replicas are not counted."""

    name: str
    target: str

    def __str__(self) -> str:
        return f"{self.name}: a CronFederatedHPA alone scales {self.target}, so its replicas stay"


def waiting(raws: Iterable[object], cluster: str, since: float, now: float) -> Iterator[Waiting]:
    """Yields the objects with replicas in a cluster that has been tainted `since`; both are POSIX seconds."""
    for raw in raws:
        status = at(raw, "status")
        if not isinstance(raw, dict) or not isinstance(status, dict | None):
            yield Waiting(name_of(raw), None, "its status cannot be read")
        elif status is None:
            yield Waiting(name_of(raw), None, f"it has no decision yet: {NO_CONTROLLER}")
        else:
            entry = entry_of(raw, cluster)
            # A leaving cluster has an entry until its last pod has ended.
            if entry is not None and (entry.replicas != 0 or entry.membership == LEAVING):
                yield Waiting(name_of(raw), entry.replicas, _reason(raw, entry, since, now))


def _reason(raw: dict[str, Any], entry: Entry, since: float, now: float) -> str:
    """Returns what the replicas of an object wait for."""
    if obstacle := obstacle_of(raw):
        return obstacle
    old = silent_seconds(raw, now)
    silence = "" if old is None else f" (the status is {age(old)} old: {NO_CONTROLLER})"
    if entry.membership and entry.waits_for:
        # Where every cluster drains, nothing moves, and the controller counts each as Cordoned.
        other = "" if entry.membership == LEAVING else f"{entry.membership}: "
        return one_line(f"{other}{entry.waits_for.removeprefix(_OWN)}", MAX_REASON) + silence
    if entry.membership != LEAVING:
        if now - since > max(REACTION_SECONDS, 4 * period_of(raw)):
            return f"no controller has answered the taint in {age(now - since)}: {NO_CONTROLLER}"
        return "waits for the controller's next decision"
    if entry.state in ("Missing", "Lost"):
        return f"the cluster does not answer (state {entry.state})"
    return f"moving{silence}"


def placed_by_karmada(raws: Iterable[object], cluster: str) -> list[str]:
    """Returns the objects that hold replicas in the cluster and whose replicas Karmada's scheduler places."""
    return [
        name_of(raw)
        for raw in raws
        if (entry := entry_of(raw, cluster)) is not None
        and entry.replicas != 0
        and text_at(raw, "status", "summary", "propagation") == KARMADA
        and at(raw, "spec", "mode") != DISTRIBUTED
    ]


def scaled_by_rules_alone(crons: Iterable[object], raws: Iterable[object]) -> Iterator[Alone]:
    """Yields the workloads of CronFederatedHPAs that no FederatedHPA scales."""
    taken = {one.target for raw in raws if (one := from_json(KIND, raw)) is not None}
    for raw in crons:
        one = from_json(CRON_KIND, raw)
        if one is None or not one.active or one.target.is_federatedhpa or one.target in taken:
            continue
        name = one_line(f"{one.namespace}/{one.name}")
        yield Alone(name, one_line(f"{one.target.kind} {one.target.name}"))


def name_of(raw: object) -> str:
    """Returns an object as NAMESPACE/NAME."""
    if not isinstance(at(raw, "metadata"), dict):
        return "an object without a name"
    return one_line(f"{text_at(raw, 'metadata', 'namespace')}/{text_at(raw, 'metadata', 'name')}")
