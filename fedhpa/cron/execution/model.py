"""A plan and what it is made from: the rules, their stored state, the open windows and the target.

Instants are POSIX seconds. Values are replicas by field: `minReplicas` and `maxReplicas` of a FederatedHPA,
or `replicas` of a scale. A value of None means that the target does not have the field.
"""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple

import msgspec

from fedhpa.api.hold import Hold, HoldRequest
from fedhpa.api.times import format_time
from fedhpa.cron.timetables import Timetable, latest_time, next_time

MINIMUM: Final = "minReplicas"
MAXIMUM: Final = "maxReplicas"
REPLICAS: Final = "replicas"

# POSIX seconds until the year 2984.
Seconds = Annotated[float, msgspec.Meta(ge=0, lt=3.2e10)]
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
        name = self.name
        return f"spec.rules[{self.place}] ({name if len(name) <= _LONG_NAME else f'{name[:29]}...'})"

    @property
    def table(self) -> Timetable:
        """The timetable of a rule that can run."""
        assert self.timetable is not None
        return self.timetable

    @property
    def duration(self) -> float | None:
        """The length of its windows in seconds; None for a plain rule."""
        duration = None if self.timetable is None else self.timetable.duration
        return None if duration is None else duration.total_seconds()

    def next_time(self, after: float, until: float | None = None) -> float | None:
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


class ObjectRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The content of an object's record: the state of each rule by name, as of a `generation` of its spec.

    `shares` are the replicas that each cluster had after the last execution on `target`, a workload in the
    members.
    """

    rules: dict[str, RuleState]
    generation: int = 0
    shares: dict[str, Replicas] = {}
    target: str = ""


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
    place: int
    rule: Rule

    @property
    def key(self) -> Key:
        """The object and the name of the rule."""
        return self.object, self.rule.name

    @property
    def label(self) -> str:
        """The rule's name for people: `object/rule`."""
        return f"{self.object}/{self.rule.name}"

    @property
    def cause(self) -> WriteCause:
        """The execution as the cause of a write."""
        return WriteCause(EXECUTION, *self.key, self.at)

    def too_late(self, now: float) -> Missed | None:
        """Returns its record if it is later than maxDelaySeconds, or if its window is over; else None."""
        late, length = now - self.at, self.rule.duration
        if self.rule.max_delay is not None and late > self.rule.max_delay:
            text = f"{int(late)} s late, and maxDelaySeconds is {self.rule.max_delay}"
        elif length is not None and late >= length:
            text = f"its window was over at {format_time(self.at + length)}"
        else:
            return None
        return Missed(self.at, self.at, 1, text)

    @property
    def order(self) -> tuple[float, str, int]:
        """The place among all executions of a target."""
        return self.at, self.object, self.place


class Applied(NamedTuple):
    """An execution that the write applies: the values that it sets, and the window that it opens or None."""

    execution: Execution
    values: dict[str, int]
    window: OpenWindow | None = None


class Skipped(NamedTuple):
    """Executions of a rule that are never applied: the object, the rule, and their record."""

    object: str
    rule: str
    missed: Missed


class CronPlan(msgspec.Struct, frozen=True):
    """The changes of one target that are due now. `settle` turns it into statuses once the write is done.

    `write` has the values that must change, by field; it is empty if the target has them all. `marker` names
    the events of the write, the oldest first. `causes` are the events that gave the written fields their
    values, and `failed_before` those events of the plan that failed at an earlier instant. `applied` are the
    executions that the write applies, `invalid` those of rules that set nothing, and `skipped` those that are
    never applied. `unjudged` are due executions that only a reading of the target can judge. `closed` are
    windows that end, and `ending` those that should end while the target cannot be read. `left_out` and
    `kept` are the executions and the ends of windows that this plan leaves out. Of these, a hold keeps the
    `held` ones waiting. `field_causes` has the event behind each written field.

    `record` is what to store about open windows once the write is done. `pending` is what to store before it,
    so that an interrupted write is repeated. Either is None if there is nothing to store.

    `error` says why nothing can be written; all executions then fail. `reverts` are changes of what the
    executions before had set; one of them is told only if its client made the same one before.
    `states` are the stored states with their watermarks, by object and rule, and `rules` are their rules.
    `following` has the newest due execution of rules and the one after it.
    `wake` is the next instant at which something is due; None if nothing ever is.
    """

    write: Values
    states: States
    rules: dict[Key, Rule]
    following: dict[Key, tuple[float, float | None]]
    marker: str = ""
    applied: tuple[Applied, ...] = ()
    invalid: tuple[Execution, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    unjudged: tuple[Execution, ...] = ()
    closed: tuple[OpenWindow, ...] = ()
    ending: tuple[OpenWindow, ...] = ()
    record: WindowRecord | None = None
    pending: WindowRecord | None = None
    error: str = ""
    notes: tuple[Note, ...] = ()
    reverts: tuple[Note, ...] = ()
    wake: float | None = None
    left_out: tuple[Execution, ...] = ()
    kept: tuple[OpenWindow, ...] = ()
    causes: tuple[WriteCause, ...] = ()
    failed_before: tuple[WriteCause, ...] = ()
    field_causes: dict[str, WriteCause] = msgspec.field(default_factory=dict)
    held: dict[WriteCause, Hold] = msgspec.field(default_factory=dict)

    @property
    def holders(self) -> frozenset[str]:
        """The objects with an open window. Each of them needs the finalizer."""
        return frozenset() if self.record is None else frozenset(each.object for each in self.record.open)

    def openings(self, name: str = "") -> frozenset[WriteCause]:
        """Returns the executions that open a window now, of the object of this name or of all."""
        return frozenset(
            execution.cause
            for execution, _, window in self.applied
            if window is not None and name in ("", execution.object)
        )
