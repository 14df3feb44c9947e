"""Logs failures that last: one line when one begins, one when it ends, and a reminder every ten minutes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import structlog

from fedhpa.api.errors import ApiError, FedHPAError
from fedhpa.api.texts import one_line
from fedhpa.decision import Decision, StatusCondition
from fedhpa.kube import Key

log = structlog.get_logger(__name__)

K = TypeVar("K", bound=Hashable)

REMINDER_SECONDS: Final = 600.0
# A change of the reason is logged at most once in this time. A failure that begins again this soon after its
# end is logged only if it lasts, so that an object which fails at every other reconcile cannot fill the log.
SETTLED_SECONDS: Final = 60.0
# Different reasons logged between two reminders. A reason with a changing number in it must not fill the log.
MAX_REASONS: Final = 4
MAX_TEXT: Final = 512
CHECK_SECONDS: Final = 15.0
TOO_MANY_REQUESTS: Final = 429


def concerns_hub(error: BaseException | None) -> bool:
    """True if the hub could not serve a request, whatever object it was about."""
    if not isinstance(error, ApiError):
        return False
    return error.status == 0 or error.status >= 500 or error.status == TOO_MANY_REQUESTS


def hub_problem(error: BaseException | None) -> str:
    """Returns the error as text if the hub could not serve a request; else ""."""
    return str(error) if concerns_hub(error) else ""


class WriteFailure(NamedTuple):
    """The error of a write. The exception would keep alive all that its frames know."""

    text: str
    concerns_hub: bool

    @classmethod
    def of(cls, error: FedHPAError) -> WriteFailure:
        """Returns what is kept of an error."""
        return cls(str(error), concerns_hub(error))


class Lines(NamedTuple):
    """The texts of the lines when a failure begins, while it goes on, and when it ends."""

    begins: str
    goes_on: str
    ends: str


@dataclass
class _Failure:
    """The state of one key. `since` is None while nothing fails; times are seconds of the log's clock."""

    since: float | None = None
    ended_at: float = float("-inf")
    logged_at: float = float("-inf")
    reminded_at: float = float("-inf")
    logged: bool = False
    count: int = 0
    reason: str = ""
    error: str = ""
    severe: bool = True
    reasons: set[tuple[str, str]] = field(default_factory=set)


class FailureLog(Generic[K]):
    """Follows the failures of keys, such as objects. `about` gives the fields of a key's lines.

    A key that is well again leaves the memory within REMINDER_SECONDS. A deleted one must be forgotten, or
    drops out of a `known` mapping that holds its keys weakly.
    """

    def __init__(
        self,
        lines: Lines,
        clock: Callable[[], float],
        about: Callable[[K], Mapping[str, str]],
        known: MutableMapping[K, _Failure] | None = None,
    ) -> None:
        self._lines = lines
        self._clock = clock
        self._about = about
        self._known = {} if known is None else known

    def __len__(self) -> int:
        """The number of keys in the memory."""
        return len(self._known)

    def failing(self, key: K, reason: str, error: str, *, severe: bool = True) -> None:
        """Note a failure: `reason` as conditions have it, and `error` for people.

        One that is not `severe` may be over in a moment. It is logged at info, and reminders are warnings.
        """
        now = self._clock()
        failure = self._known.setdefault(key, _Failure())
        if failure.since is None:
            failure.since, failure.count, failure.logged = now, 0, False
        failure.count += 1
        failure.reason, failure.error, failure.severe = reason, one_line(error, MAX_TEXT), severe
        self._report(key, failure, failure.since, now)

    def well(self, key: K) -> None:
        """Note that the key does not fail."""
        failure = self._known.get(key)
        if failure is None or failure.since is None:
            return
        now = self._clock()
        if failure.logged:
            seconds = round(now - failure.since, 1)
            log.info(self._lines.ends, **self._about(key), seconds=seconds, failures=failure.count)
            failure.logged_at = now
        failure.since, failure.ended_at = None, now

    def forget(self, key: K) -> None:
        """Drop what is known of a key."""
        self._known.pop(key, None)

    async def remind(self) -> None:
        """Log again the failures that go on, until cancelled; also of keys that nobody tries again."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            self._remind_all()

    # A call of its own: the frame of a loop that sleeps would keep the last key alive.
    def _remind_all(self) -> None:
        now = self._clock()
        for key, failure in list(self._known.items()):
            if failure.since is not None:
                self._report(key, failure, failure.since, now)
            elif now - failure.ended_at >= REMINDER_SECONDS:
                del self._known[key]

    def _report(self, key: K, failure: _Failure, since: float, now: float) -> None:
        found, write = (failure.reason, failure.error), log.warning if failure.severe else log.info
        if not failure.logged:
            soon = now - failure.ended_at < SETTLED_SECONDS and now - since < SETTLED_SECONDS
            if soon and now - failure.logged_at < REMINDER_SECONDS:
                return
            line, failure.logged = self._lines.begins, True
            failure.reminded_at, failure.reasons = now, {found}
        elif now - failure.reminded_at >= REMINDER_SECONDS:
            line, write = self._lines.goes_on, log.warning
            failure.reminded_at, failure.reasons = now, {found}
        elif (
            found not in failure.reasons
            and len(failure.reasons) < MAX_REASONS
            and now - failure.logged_at >= SETTLED_SECONDS
        ):
            line = self._lines.goes_on
            failure.reasons.add(found)
        else:
            return
        failure.logged_at = now
        lasted = {"seconds": round(now - since, 1), "failures": failure.count} if failure.count > 1 else {}
        write(line, **self._about(key), reason=failure.reason, error=failure.error, **lasted)


FAILED_UPDATE_STATUS: Final = "FailedUpdateStatus"
FAILED_GET_SCALE: Final = "FailedGetScale"
FAILED_GET_METRIC: Final = "FailedGetMetric"
SCALING_DISABLED: Final = "ScalingDisabled"
UNAVAILABLE: Final = "HubUnavailable"
# The conditions that say whether an object is scaled, in the order in which they are decided.
CONDITIONS: Final = ("AbleToScale", "ScalingActive", "MetricsComplete")

OBJECTS: Final = Lines("autoscaler fails", "autoscaler still fails", "autoscaler is well again")
READS: Final = Lines("the hub does not answer", "the hub still does not answer", "the hub answers again")
WRITES: Final = Lines(
    "the hub stores no status", "the hub still stores no status", "the hub stores statuses again"
)


@dataclass(eq=False)
class ObjectHealth:
    """The failures of one object. It lives as long as what is known of the object.

    `reported` is the failure that conditions and events show; "" after a reconcile. `refused` is the last
    error of the hub about the object's status, until a status is stored. `unserved_since` is since when the
    hub has not served what the object needs, in seconds of the log's clock.
    """

    key: Key
    reported: str = ""
    refused: str = ""
    unserved_since: float | None = None

    def __str__(self) -> str:
        """Returns namespace and name."""
        return "/".join(self.key)


class HealthLog:
    """Follows all objects of this process. A failure of the hub is reported once, and not for each object.

    `on_status_failure` is called for each status that the hub does not store.
    """

    def __init__(self, clock: Callable[[], float], on_status_failure: Callable[[], None]) -> None:
        self._on_status_failure = on_status_failure
        self._clock = clock
        self._objects: FailureLog[ObjectHealth] = FailureLog(
            OBJECTS, clock, lambda one: names(one.key), WeakKeyDictionary()
        )
        self._reads: FailureLog[str] = FailureLog(READS, clock, _nothing)
        self._writes: FailureLog[str] = FailureLog(WRITES, clock, _nothing)
        self._served_at = float("-inf")

    def failing(self, one: ObjectHealth, reason: str, error: str) -> None:
        """Note that no decision was made, for a reason as conditions have it."""
        self._objects.failing(one, reason, error)

    def decided(self, one: ObjectHealth, decision: Decision, hub_problem: str) -> None:
        """Note a decision, after its status was written. `hub_problem` says why the hub did not answer."""
        if hub_problem:
            self._not_served(one, hub_problem)
            return
        one.unserved_since = None
        self._served_at = self._clock()
        self._reads.well(UNAVAILABLE)
        failure = failure_of(decision)
        if failure is None and one.refused:
            failure = FAILED_UPDATE_STATUS, one.refused
        if failure is None:
            self._objects.well(one)
        else:
            # New pods, for example, have no metrics for a moment.
            self._objects.failing(one, *failure, severe=False)

    def _not_served(self, one: ObjectHealth, problem: str) -> None:
        """Report the hub if it serves no object, and the object if only others are served."""
        now = self._clock()
        since = one.unserved_since = now if one.unserved_since is None else one.unserved_since
        if now - self._served_at >= SETTLED_SECONDS:
            self._reads.failing(UNAVAILABLE, UNAVAILABLE, problem)
        elif now - since >= SETTLED_SECONDS:
            self._objects.failing(one, FAILED_GET_SCALE, problem)

    def status_failed(self, one: ObjectHealth, failure: WriteFailure) -> None:
        """Count a status that the hub did not store."""
        self._on_status_failure()
        if failure.concerns_hub:
            self._writes.failing(UNAVAILABLE, UNAVAILABLE, failure.text)
        else:
            one.refused = failure.text

    def status_stored(self, one: ObjectHealth) -> None:
        """Note a status that the hub stored."""
        one.refused = ""
        self._writes.well(UNAVAILABLE)

    async def remind(self) -> None:
        """Log reminders of failures that go on, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for followed in (self._objects, self._reads, self._writes):
                group.create_task(followed.remind())


def failure_of(decision: Decision) -> tuple[str, str] | None:
    """Returns the reason and the message of what keeps an object from being scaled rightly; None if nothing.

    A condition that the decision did not set is an old one: the one with the decision's error comes first.
    """
    failed = [condition for condition in decision.conditions if _fails(condition)]
    failed.sort(key=lambda condition: CONDITIONS.index(condition.type))
    if decision.error is not None:
        blamed = [condition for condition in failed if decision.error in condition.message] or failed
        return (blamed[0].reason if blamed else "", decision.error)
    if failed:
        return failed[0].reason, failed[0].message
    for metric in decision.metrics:
        if metric.error is not None:
            return FAILED_GET_METRIC, f"metric {metric.name}: {metric.error}"
    return None


def _fails(condition: StatusCondition) -> bool:
    # A workload that somebody scaled to zero is switched off, and its autoscaler does not fail.
    return (
        condition.type in CONDITIONS and condition.status == "False" and condition.reason != SCALING_DISABLED
    )


def names(key: Key) -> Mapping[str, str]:
    """The fields of an object's lines in the log."""
    return {"namespace": key[0], "name": key[1]}


def _nothing(_: str) -> Mapping[str, str]:
    return {}
