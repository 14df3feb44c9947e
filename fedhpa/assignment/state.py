"""The state of scale assist, hold, zero and remembered full clusters, one entry for each cluster.

The state travels in `status.clusters` of the FederatedHPA, so that a restarted controller goes on from there.
Another program may have written the status. A field that cannot be read is therefore absent, never a number,
and a time in the future counts as now. Source: docs/explanation/distributed.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final

from fedhpa.api.errors import InvalidObject
from fedhpa.api.times import format_time, parse_time
from fedhpa.assignment.shares import Bounds

JSON = object

_MAX_REPLICAS: Final = 2**31 - 1
# A full cluster is remembered for at most this long.
MAX_CAP_MINUTES: Final = 30
# A surplus, help and holds leave by this part of maxReplicas in each pass.
_STEP_PER_CENT: Final = 10


def release_step(maximum: int) -> int:
    """Returns how many replicas of a minimum are released in one pass: 10 % of maxReplicas, at least 1."""
    return max(maximum * _STEP_PER_CENT // 100, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cap:
    """The remembered size of a cluster whose nodes were full.

    `since` is when pods became pending there. `until` is the end of the memory, None while pods are pending.
    `minutes` is how long it lasts after that: 1, 2, 4, ... 30. `room_seen` counts the passes without a break
    in which the cluster reported room. `ended_early` is True once the memory has ended early because of that.
    All times are POSIX seconds.
    """

    replicas: int
    since: float
    until: float | None = None
    minutes: int = 1
    room_seen: int = 0
    ended_early: bool = False

    def holds(self, now: float) -> bool:
        """True while the size limits the cluster."""
        return self.until is None or now < self.until


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """The stored state of one cluster. None and 0 mean that there is none. Times are POSIX seconds.

    `minimum` and `maximum` are the assigned bounds; `minimum` is without help and hold.

    A cluster that helps: its minReplicas is `given` higher since `given_since`. `given_share` of it is for
    the present deficit. All of it has been ready since `ready_since`.
    A cluster that needs help: `deficit_before` are the replicas that it lacked when help was given, and
    `ineffective_since` is when that help turned out to change nothing.

    `held` is a raised minReplicas that lets lower priorities scale down first. `held_since` is
    since when it has kept replicas without a change there, and `lower_replicas` are the replicas of these
    priorities at their last change.

    `zero_since` is when its scale was set to 0. `at_min_since` is since when it could go to 0. `lost` is True
    if its share went to other clusters. `over_since` is when it came back.
    `away` is True if it is lost, but its share is held because it came back a short time before.

    `starting` is True until its first replicas are seen, or until it can be reached for its first bounds.
    `spare` is True if it has an HPA only because the others did not suffice. `idle_since` is since when such
    a cluster has not been needed.
    """

    minimum: int | None = None
    maximum: int | None = None
    given: int = 0
    given_since: float | None = None
    given_share: int = 0
    ready_since: float | None = None
    deficit_before: int | None = None
    ineffective_since: float | None = None
    held: int = 0
    held_since: float | None = None
    lower_replicas: int | None = None
    cap: Cap | None = None
    zero_since: float | None = None
    at_min_since: float | None = None
    lost: bool = False
    over_since: float | None = None
    away: bool = False
    starting: bool = False
    spare: bool = False
    idle_since: float | None = None

    def floor(self, minimum: int, maximum: int) -> int:
        """Returns the minReplicas to write for these bounds. Help and hold never pass the maximum."""
        return min(maximum, max(minimum + self.given, self.held))

    @property
    def bounds(self) -> Bounds | None:
        """The bounds that the HPA should have, help and hold included; None without an HPA."""
        if not self.maximum:
            return None
        least = self.floor(min(max(self.minimum or 1, 1), self.maximum), self.maximum)
        return Bounds(minimum=least, maximum=self.maximum)


States = Mapping[str, ClusterState]
NO_STATE: Final = ClusterState()

_NAMES: Final = {
    "minReplicas": "minimum",
    "maxReplicas": "maximum",
    "given": "given",
    "givenShare": "given_share",
    "deficitBefore": "deficit_before",
    "held": "held",
    "lowerReplicas": "lower_replicas",
}
_TIMES: Final = {
    "givenSince": "given_since",
    "readySince": "ready_since",
    "ineffectiveSince": "ineffective_since",
    "heldSince": "held_since",
    "atMinSince": "at_min_since",
    "overSince": "over_since",
    "idleSince": "idle_since",
}
_FLAGS: Final = ("lost", "away", "starting", "spare")


def read_state(entry: JSON, now: float) -> ClusterState:
    """Returns the state of one entry of status.clusters. Never raises.

    Times after `now` count as now. Numbers that no replica count can be are absent.
    """
    if not isinstance(entry, dict):
        return NO_STATE
    found: dict[str, object] = {
        attribute: number
        for name, attribute in _NAMES.items()
        if (number := _number(entry.get(name))) is not None
    }
    for name, attribute in _TIMES.items():
        since = _past(entry.get(name), now)
        if since is not None:
            found[attribute] = since
    zero = entry.get("zero")
    return ClusterState(
        **found,  # type: ignore[arg-type]
        cap=_cap(entry.get("cap"), now),
        zero_since=_past(zero.get("since"), now) if isinstance(zero, dict) else None,
        **{name: entry.get(name) is True for name in _FLAGS},
    )


def written_state(state: ClusterState) -> dict[str, JSON]:
    """Returns the fields of an entry of status.clusters; `read_state` reads them. Defaults are left out."""
    entry: dict[str, JSON] = {}
    for name, attribute in _NAMES.items():
        number = getattr(state, attribute)
        if number != _DEFAULTS[attribute]:
            entry[name] = number
    for name, attribute in _TIMES.items():
        since = getattr(state, attribute)
        if since is not None:
            entry[name] = format_time(since)
    if state.cap is not None:
        entry["cap"] = _written_cap(state.cap)
    if state.zero_since is not None:
        entry["zero"] = {"since": format_time(state.zero_since)}
    for name in _FLAGS:
        if getattr(state, name):
            entry[name] = True
    return entry


_DEFAULTS: Final = {one.name: one.default for one in fields(ClusterState)}


def _cap(raw: JSON, now: float) -> Cap | None:
    if not isinstance(raw, dict):
        return None
    replicas, since = _number(raw.get("replicas")), _past(raw.get("since"), now)
    if replicas is None or since is None:
        return None
    minutes = min(max(_number(raw.get("minutes")) or 1, 1), MAX_CAP_MINUTES)
    until = _time(raw.get("until"))
    if until is None and raw.get("until") is not None:
        return None  # an unreadable end would make the memory endless
    return Cap(
        replicas=replicas,
        since=since,
        until=None if until is None else min(until, now + minutes * 60),
        minutes=minutes,
        room_seen=min(_number(raw.get("roomSeen")) or 0, 1),
        ended_early=raw.get("endedEarly") is True,
    )


def _written_cap(cap: Cap) -> dict[str, JSON]:
    entry: dict[str, JSON] = {
        "replicas": cap.replicas,
        "since": format_time(cap.since),
        "minutes": cap.minutes,
    }
    if cap.until is not None:
        entry["until"] = format_time(cap.until)
    if cap.room_seen:
        entry["roomSeen"] = cap.room_seen
    if cap.ended_early:
        entry["endedEarly"] = True
    return entry


def _number(value: JSON) -> int | None:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_REPLICAS:
        return None
    return value


def _past(value: JSON, now: float) -> float | None:
    time = _time(value)
    return None if time is None else min(time, now)


def _time(value: JSON) -> float | None:
    if not isinstance(value, str):
        return None
    try:
        return parse_time(value)
    except InvalidObject:
        return None
