"""Circuit breakers: of a whole member, of an API group of a member, and of single requests.

An aggregated API (metrics.k8s.io) can hang behind a healthy API server; pods and scales of such a member
stay usable. One slow metric can hang behind a healthy API; metrics of other namespaces stay usable.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

State = Literal["closed", "open", "half-open"]

# A request or a group that hangs is tried again after this long; a trial may cost one caller the deadline.
COOLDOWN_SECONDS = 10.0
# Different requests of a namespace that time out in a row, and different namespaces of a group. So one tenant
# with any number of slow metrics refuses nobody else's.
SLOW_IN_A_ROW = 3
# Namespaces, and single requests, of a group with time-outs. Beyond it, the oldest is forgotten.
MAX_SLOW = 1024
# The parameters that, with the path, identify a request. Others change with each page or watch.
SELECTORS = ("fieldSelector", "labelSelector", "metricLabelSelector")


class CircuitBreaker:
    """While closed, calls pass. While open, calls are refused with the reason of the last failure.

    The breaker opens after `threshold` failures in a row, or at once with `at_once`. With a `cooldown` it
    lets one call through in each such span (seconds), as a trial. Without, only a probe can close it: the
    prober reports `half_open`, then `success` or `failure`.
    """

    def __init__(
        self,
        *,
        threshold: int,
        cooldown: float | None = None,
        clock: Callable[[], float],
    ) -> None:
        self._threshold = threshold
        self._cooldown = cooldown
        self._clock = clock
        self._failures = 0
        self._reason: str | None = None
        self._next_trial = float("inf")
        self._trial = False

    @property
    def state(self) -> State:
        """The state: half-open while a trial or a probe is under way."""
        if self._reason is None:
            return "closed"
        return "half-open" if self._trial else "open"

    @property
    def failures(self) -> int:
        """The number of failures in a row."""
        return self._failures

    @property
    def reason(self) -> str | None:
        """The reason why the breaker is open; None while closed."""
        return self._reason

    def refusal(self) -> str | None:
        """Returns why a call is refused; None if it may be made. The caller must report its outcome."""
        if self._reason is None:
            return None
        now = self._clock()
        if self._cooldown is None or now < self._next_trial:
            return self._reason
        # If the trial is cancelled and not reported, the next span has another one.
        self._trial, self._next_trial = True, now + self._cooldown
        return None

    def half_open(self) -> None:
        """Report that a probe is under way."""
        self._trial = True

    def success(self) -> None:
        """Report that a call or probe was answered."""
        self._failures = 0
        self._reason = None
        self._trial = False

    def failure(self, reason: str, *, at_once: bool = False) -> None:
        """Report that a call or probe was not answered. `at_once` opens the breaker in any case."""
        self._failures += 1
        self._trial = False
        if at_once or self._reason is not None or self._failures >= self._threshold:
            self._reason = reason
            if self._cooldown is not None:
                self._next_trial = self._clock() + self._cooldown


class Call(NamedTuple):
    """A request, as the breakers see it.

    `key` is its path with its selectors. `scope` is the namespace in the path, else the path. `group` is ""
    below no API group. `parts` counts the parts of the path.
    """

    key: str
    scope: str
    group: str
    parts: int

    @classmethod
    def of(cls, path: str, params: Mapping[str, object] | None) -> Call:
        """Returns the call for a path and its parameters."""
        selectors = [f"{name}={params[name]}" for name in SELECTORS if params and params.get(name)]
        parts = path.split("/")[1:]
        grouped = parts[0] == "apis" and len(parts) > 1
        below = parts[3 if grouped else 2 :]
        namespaced = len(below) > 2 and below[0] == "namespaces"
        return cls(
            "?".join((path, *selectors)),
            below[1] if namespaced else path,
            parts[1] if grouped else "",
            len(parts),
        )

    @property
    def is_version_list(self) -> bool:
        """True for /apis/GROUP, which the API server answers itself, whatever its aggregated server does."""
        return bool(self.group) and self.parts == 2

    @property
    def is_discovery(self) -> bool:
        """True for /apis/GROUP and /apis/GROUP/VERSION, which no caller can make slow."""
        return bool(self.group) and self.parts <= 3


class _Hanging:
    """Calls with something in common, all refused once several different ones timed out in a row."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._breaker = CircuitBreaker(threshold=1, cooldown=COOLDOWN_SECONDS, clock=clock)
        self._timed_out: set[str] = set()
        self._answered_at = float("-inf")

    def refusal(self) -> str | None:
        """Returns why a call is refused; None if it may be made."""
        return self._breaker.refusal()

    def answered(self) -> None:
        """Report an answer."""
        self._answered_at = self._clock()
        self._timed_out.clear()
        self._breaker.success()

    def timed_out(self, name: str, reason: str, began: float, *, at_once: bool) -> None:
        """Report that the call `name`, which began at `began`, timed out. `at_once` stands for all calls."""
        if self._answered_at < began:
            self._timed_out.add(name)
        if at_once or self._breaker.reason is not None or len(self._timed_out) >= SLOW_IN_A_ROW:
            self._timed_out.clear()
            self._breaker.failure(reason)


class GroupBreaker:
    """Refuses calls to an API group: a call that timed out, a namespace or a group that hangs."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._group = _Hanging(clock)
        # Both only after a time-out, the oldest first.
        self._scopes: OrderedDict[str, _Hanging] = OrderedDict()
        self._calls: OrderedDict[str, _Hanging] = OrderedDict()

    def __len__(self) -> int:
        return len(self._scopes) + len(self._calls)

    def refusal(self, call: Call) -> str | None:
        """Returns why a call is refused; None if it may be made. The caller must report its outcome."""
        parts = (self._calls.get(call.key), self._scopes.get(call.scope), self._group)
        return next((reason for part in parts if part is not None and (reason := part.refusal())), None)

    def answered(self, call: Call) -> None:
        """Report that a call was answered, also with an error."""
        self._calls.pop(call.key, None)
        if call.scope in self._scopes:
            self._scopes[call.scope].answered()
        if not call.is_version_list:
            self._group.answered()

    def timed_out(self, call: Call, reason: str, began: float, *, repeated: bool) -> None:
        """Report that a call, which began at `began`, timed out.

        A `repeated` call is one that timed out before, so it says nothing new about the others.
        """
        self._of(self._calls, call.key).timed_out(call.key, reason, began, at_once=True)
        if not repeated:
            self._of(self._scopes, call.scope).timed_out(call.key, reason, began, at_once=False)
            self._group.timed_out(call.scope, reason, began, at_once=call.is_discovery)

    def _of(self, known: OrderedDict[str, _Hanging], name: str) -> _Hanging:
        found = known.setdefault(name, _Hanging(self._clock))
        known.move_to_end(name)
        if len(known) > MAX_SLOW:
            known.popitem(last=False)
        return found
