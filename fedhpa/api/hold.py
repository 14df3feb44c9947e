"""The annotations that hold scaling during an incident: what they ask for, and which of them is in force.

They stand on an object, on its namespace, or on the namespace of the controller. Source:
docs/how-to/hold-scaling.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from fedhpa.api.texts import one_line
from fedhpa.api.times import MAX_TIME, format_time, known_time

HOLD_ANNOTATION: Final = "autoscaling.karmada.io/hold"
UNTIL_ANNOTATION: Final = "autoscaling.karmada.io/hold-until"

DOWN: Final = "down"
UP: Final = "up"
ALL: Final = "all"
DIRECTIONS: Final = (DOWN, UP, ALL)
# For a request of the object itself.
OBJECT: Final = "the object"

_STOPPED: Final = {
    DOWN: "nothing is scaled down",
    UP: "nothing is scaled up",
    ALL: "nothing is scaled or moved",
}


class HoldRequest(msgspec.Struct, frozen=True):
    """The annotations of one place as written; `until` may be "".

    The place is a `namespace`, or the object of this `name` for another one, or else the object itself.
    """

    hold: str
    until: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def place(self) -> str:
        """The place for people."""
        return f"namespace {self.namespace}" if self.namespace else self.name or OBJECT


class Hold(msgspec.Struct, frozen=True):
    """A hold in force: its direction, the place of its annotation, and its end in POSIX seconds.

    `until` is None without an end. `problem` says which value cannot be read; then the direction is `all`.
    """

    direction: str
    place: str
    until: float | None = None
    problem: str = ""

    @property
    def stops_down(self) -> bool:
        """True if nothing may shrink."""
        return self.direction != UP

    @property
    def stops_up(self) -> bool:
        """True if nothing may grow but by failover and up to minReplicas."""
        return self.direction != DOWN

    @property
    def stops_moves(self) -> bool:
        """True if no replica moves between clusters: a move first grows where the replicas go."""
        return self.stops_up

    @property
    def end(self) -> str:
        """The end for people."""
        return "until somebody ends the hold" if self.until is None else f"until {format_time(self.until)}"

    def __str__(self) -> str:
        """Returns what the hold stops, until when, and where it was asked for."""
        why = self.problem or f"hold {self.direction}"
        return f"{_STOPPED[self.direction]} {self.end}: {why} on {self.place}"


def hold_request(annotations: object, namespace: str = "", name: str = "") -> HoldRequest | None:
    """Returns what the annotations of one place ask for; None if they ask for no hold."""
    if not isinstance(annotations, Mapping):
        return None
    hold, until = annotations.get(HOLD_ANNOTATION), annotations.get(UNTIL_ANNOTATION)
    if not isinstance(hold, str):
        return None
    return HoldRequest(hold, until if isinstance(until, str) else "", namespace, name)


def hold_in_force(requests: Iterable[HoldRequest | None], now: float) -> Hold | None:
    """Returns the hold at `now` in POSIX seconds; None without one. The narrowest place comes first and wins.

    A hold that has ended counts as absent, so a wider one may be in force.
    """
    for request in requests:
        hold = None if request is None else _hold_of(request)
        if hold is not None and (hold.until is None or hold.until > now):
            return hold
    return None


def hold_problem(annotations: object) -> str:
    """Returns which annotation cannot be read and the remedy; "" if both can be read."""
    request = hold_request(annotations)
    return "" if request is None else _hold_of(request).problem


def _hold_of(request: HoldRequest) -> Hold:
    """Returns the hold that a place asks for. What cannot be read holds everything, without an end."""
    if request.hold not in DIRECTIONS:
        text = f"annotation {HOLD_ANNOTATION}={_shown(request.hold)} is none of {', '.join(DIRECTIONS)}"
        return Hold(ALL, request.place, problem=text)
    if not request.until:
        return Hold(request.hold, request.place)
    until = known_time(request.until)
    if until is None:
        text = f"annotation {UNTIL_ANNOTATION}={_shown(request.until)} is no RFC 3339 time"
        return Hold(ALL, request.place, problem=text)
    return Hold(request.hold, request.place, until)


def _shown(value: str) -> str:
    return repr(one_line(value, MAX_TIME))
