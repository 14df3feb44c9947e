"""A plan and what it is made from: the rules, their stored state, the open windows and the target.

Instants are POSIX seconds. Values are replicas by field: `minReplicas` and `maxReplicas` of a FederatedHPA,
or `replicas` of a scale. A value of None means that the target does not have the field.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final, NamedTuple

import msgspec

from fedhpa.api.hold import HoldRequest
from fedhpa.api.texts import one_line
from fedhpa.api.times import Seconds, format_time
from fedhpa.cron.timetables import END, LONGEST_INTERVAL, Timetable, latest_time, next_time

MINIMUM: Final = "minReplicas"
MAXIMUM: Final = "maxReplicas"
REPLICAS: Final = "replicas"

Replicas = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Values = dict[str, Replicas | None]
# The object and the name of a rule.
Key = tuple[str, str]
# The maximum length of a name in the CRD.
_LONG_NAME: Final = 32


class Rule(msgspec.Struct, frozen=True):
    """A rule of a CronFederatedHPA.

    `place` is its index in spec.rules. `timetable` is None for a rule that is suspended or cannot be read.
    `values` are the fields that an execution sets, and with `at_least` never lowers. `problem` says why a
    rule cannot be read or sets nothing. `max_delay` is in seconds. `hash` changes with every edit that
    changes when the rule fires.
    """

    name: str
    place: int
    timetable: Timetable | None
    values: dict[str, Replicas]
    hash: str
    suspended: bool = False
    max_delay: int | None = None
    successes_kept: int = 3
    failures_kept: int = 3
    problem: str = ""
    at_least: bool = False

    def __str__(self) -> str:
        """Names the rule in warnings."""
        return f"spec.rules[{self.place}] ({one_line(self.name, _LONG_NAME)})"

    @property
    def table(self) -> Timetable:
        """The timetable of a rule that can run."""
        assert self.timetable is not None
        return self.timetable

    @property
    def duration(self) -> float | None:
        """The length of its windows in seconds; None for a plain rule."""
        return None if self.timetable is None else self.timetable.duration

    def next_time(self, after: float, until: float = END) -> float | None:
        """Returns its first time in (after, until]; None also for a suspended or unreadable rule."""
        return None if self.timetable is None else next_time(self.timetable, after, until)

    def latest_time(self, at: float, since: float | None = None) -> float | None:
        """Returns its latest time in (since, at]; None also for a suspended or unreadable rule."""
        return None if self.timetable is None else latest_time(self.timetable, at, since)

    def fires_at(self, at: float) -> bool:
        """True if an instant is a time of a rule that can run."""
        return at.is_integer() and self.latest_time(at, at - 1) is not None


class Succeeded(msgspec.Struct, frozen=True, omit_defaults=True):
    """An execution that was applied: when it was due, when it was applied, and the values that it set."""

    scheduled: Seconds
    executed: Seconds
    values: dict[str, Replicas]


class Failed(msgspec.Struct, frozen=True, omit_defaults=True):
    """An execution that could not be applied yet: the time of the first attempt, and the newest message."""

    scheduled: Seconds
    executed: Seconds
    message: str


class Missed(msgspec.Struct, frozen=True, omit_defaults=True):
    """Executions of one rule that will never be applied: the first and the last of them, and their number."""

    first: Seconds
    last: Seconds
    count: int
    message: str


class RuleState(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The state of one rule in the record of its object. The lists are in order, newest first.

    All executions up to `handled_until` were applied, missed or superseded. It is None in a state that was
    read from a status, because there is no record: Karmada ran the rules, or the record is lost. `hash` is
    that of the rule when the state was written, and empty if unknown. `failing` has the execution and the end
    of a window that are tried again, also if the rule keeps no failures. The end of a window is named by its
    opening.
    """

    handled_until: Seconds | None = None
    hash: str = ""
    next_execution: Seconds | None = None
    successes: tuple[Succeeded, ...] = ()
    failures: tuple[Failed, ...] = ()
    missed: tuple[Missed, ...] = ()
    failing: tuple[Failed, ...] = ()

    @property
    def tried(self) -> list[float]:
        """The executions in the histories that were applied or failed."""
        return [one.scheduled for one in self.successes] + [one.scheduled for one in self.failures]


class ObjectRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The content of an object's record: the state of each rule by name, as of a `generation` of its spec.

    `shares` are the replicas that each cluster had after the last execution on `target`, a workload in the
    members.
    """

    rules: dict[str, RuleState]
    generation: int = 0
    shares: dict[str, Replicas] = {}
    target: str = ""

    @property
    def newest_success(self) -> float:
        """The newest execution that was applied; 0 without one."""
        return max((done.scheduled for state in self.rules.values() for done in state.successes), default=0.0)


# A clock that was ahead by more than this wrote watermarks and windows of a future that is gone.
MOST_AHEAD_SECONDS: Final = 3600.0
# Of the hub's own clock, which may differ, more is believed.
_MOST_AHEAD_OF_HUB: Final = 86400.0


class ScheduledObject(msgspec.Struct, frozen=True):
    """A CronFederatedHPA as a plan needs it.

    `edited` is when the spec was last written, or None if unknown, and `edits` is the number of writes since
    its record. `deleted` is when the deletion began. `states` are by the names of rules; `known` is True once
    a status was written. `present` is False if the object has another target now, and only its open windows
    still matter. `hold` is what its annotations ask for. `waits` is True if it has the finalizer of an open
    window, and no record of one is known.
    """

    name: str
    created: float
    rules: tuple[Rule, ...]
    states: dict[str, RuleState] = msgspec.field(default_factory=dict)
    known: bool = False
    edited: float | None = None
    edits: int = 0
    deleted: float | None = None
    present: bool = True
    hold: HoldRequest | None = None
    waits: bool = False

    @property
    def runs(self) -> bool:
        """True if its rules act on the target."""
        return self.present and self.deleted is None

    def watermark(self, rule: Rule, now: float, newest: float | None) -> tuple[float, bool]:
        """Returns the watermark of a rule, at most an hour ahead of `now` and at most nine years before it.

        The executions after it are due. The second value is True if the stored one was so far ahead of the
        clock that it would block the rule. `newest` is the newest execution of any rule of the target.
        """
        at = self._stored_watermark(rule, now, newest)
        most = _MOST_AHEAD_OF_HUB if at in (self.created, self.edited) else MOST_AHEAD_SECONDS
        if at > now + most:
            return now, True
        return max(at, now - LONGEST_INTERVAL), False

    def _stored_watermark(self, rule: Rule, now: float, newest: float | None) -> float:
        state = self.states.get(rule.name)
        # The time of the last edit is the hub's, so it may be later than `now`. An earlier time would make
        # executions due that precede the edit.
        edit = now if self.edited is None else self.edited
        if state is None:
            # The schedule of a new object may be as new as its last edit.
            return edit if self.known else max(self.created, self.edited or 0.0)
        if state.handled_until is None:
            # Without a record, the newest execution of any rule of the target counts. Otherwise `up@09:00`
            # would be applied at noon although `down@11:00` holds.
            coming = state.next_execution
            if newest is not None and (state.tried or coming is None or coming <= newest):
                return min(newest, now)
            return now if coming is None else min(coming - 1, now)
        # Two edits since the record may have suspended and resumed the rule.
        edited = bool(state.hash) and state.hash != rule.hash
        if edited or (self.edits > 1 and self.edited is not None):
            # A later handled execution still counts: an execution is never applied twice.
            return max(edit, min(state.handled_until, now))
        return state.handled_until


def newest_execution(owners: Iterable[ScheduledObject]) -> float | None:
    """Returns the newest execution that was applied or failed, of all rules of a target; None without one."""
    return max(
        (at for owner in owners for state in owner.states.values() for at in state.tried), default=None
    )


EXECUTION: Final = "execution"
WINDOW: Final = "window"


class WriteCause(NamedTuple):
    """An event that gives a written field its value: an execution, or the end or the edit of an open window.

    `at` is when the execution was due, or when the window opened.
    """

    kind: str
    object: str
    rule: str
    at: float


class OpenWindow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A window that is open: whose rule opened it, the execution that opened it, its end, and its values.

    With `at_least` its values never lower those below it. `left` has fields of the rule that somebody else
    has changed since; the window does not set them any more. `ending` is since when its end is tried in vain.
    """

    object: str
    rule: str
    opened: Seconds
    closes: Seconds
    values: dict[str, Replicas]
    at_least: bool = False
    left: tuple[str, ...] = ()
    ending: Seconds | None = None

    @classmethod
    def of(cls, name: str, rule: Rule, opened: float) -> OpenWindow:
        """Returns the window that an execution of a rule opens; `name` is that of the object."""
        assert rule.duration is not None
        return cls(name, rule.name, opened, opened + rule.duration, rule.values, rule.at_least)

    @property
    def key(self) -> Key:
        """The object and the name of the rule."""
        return self.object, self.rule

    @property
    def label(self) -> str:
        """The rule's name for people: `object/rule`."""
        return f"{self.object}/{self.rule}"

    @property
    def opening(self) -> WriteCause:
        """The execution that opened the window, as the cause of a write."""
        return WriteCause(EXECUTION, self.object, self.rule, self.opened)

    @property
    def cause(self) -> WriteCause:
        """The end or the edit of the window as the cause of a write."""
        return WriteCause(WINDOW, self.object, self.rule, self.opened)


class WindowRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The windows that are open on a target, in the order in which they opened.

    `baseline` has the values that return when the last window of a field closes. `pending` has values whose
    write began and may have failed. `applied` has the values that were written last for each field, and
    `shares` the replicas of each cluster after that write, for a workload in the members. `uids` has the
    target's uid in each of these clusters, or its own under "".
    """

    baseline: Values = msgspec.field(default_factory=dict)
    pending: Values | None = None
    applied: Values = msgspec.field(default_factory=dict)
    open: tuple[OpenWindow, ...] = ()
    shares: dict[str, Replicas] = msgspec.field(default_factory=dict)
    uids: dict[str, str] = msgspec.field(default_factory=dict)

    @property
    def holders(self) -> frozenset[str]:
        """The objects with an open window."""
        return frozenset(window.object for window in self.open)


class ObservedTarget(msgspec.Struct, frozen=True):
    """The target as it was read just now.

    `values` has its fields. `error` says why the target cannot be read or scaled, and `values` is then empty;
    `unread` is True if it may have values that nobody knows now, and `gone` if it does not exist. `done` has
    the markers of the events whose write the target names. `managers` has the name of the client that wrote a
    field last, if it is known and not this controller. `baseline` has the values from before the open
    windows, as the target itself names them; None if it names none. `hold` is what its annotations ask for.
    `shares` has the replicas of each cluster that answered, for a workload in the members, and `uids` the
    target's uid there, or its own under "".
    """

    values: Values
    error: str = ""
    gone: bool = False
    unread: bool = False
    done: frozenset[str] = frozenset()
    managers: dict[str, str] = msgspec.field(default_factory=dict)
    baseline: Values | None = None
    hold: HoldRequest | None = None
    shares: dict[str, int] = msgspec.field(default_factory=dict)
    uids: dict[str, str] = msgspec.field(default_factory=dict)


class Note(msgspec.Struct, frozen=True):
    """Something that people should hear of, as an event on the object: a reason and a message.

    `change` names a change that a client made of a value: the second one of a client is no accident.
    """

    object: str
    reason: str
    message: str
    warning: bool = True
    change: str = ""


States = dict[str, dict[str, RuleState]]


class Execution(NamedTuple):
    """A rule at a time at which it is due. Executions sort by time, object and the place of the rule."""

    at: float
    object: str
    rule: Rule

    @property
    def key(self) -> Key:
        """The object and the name of the rule."""
        return self.object, self.rule.name

    @property
    def cause(self) -> WriteCause:
        """The execution as the cause of a write."""
        return WriteCause(EXECUTION, *self.key, self.at)

    def too_late(self, now: float) -> str:
        """Returns why it is later than maxDelaySeconds, or that its window is over; "" if neither is so."""
        late, length = now - self.at, self.rule.duration
        if self.rule.max_delay is not None and late > self.rule.max_delay:
            return f"{int(late)} s late, and maxDelaySeconds is {self.rule.max_delay}"
        if length is not None and late >= length:
            return f"its window was over at {format_time(self.at + length)}"
        return ""

    @property
    def order(self) -> tuple[float, str, int]:
        """The place among all executions of a target."""
        return self.at, self.object, self.rule.place


class Applied(NamedTuple):
    """An execution that the write applies: the values that it sets, and the window that it opens or None."""

    execution: Execution
    values: dict[str, int]
    window: OpenWindow | None = None
