"""The writes of one instant: the whole plan first, and after a refusal plans without the events at fault.

A hub that refuses a write does not say which of its events is wrong. The second plan leaves out all events
that failed before. The next ones leave out the events that gave the written fields their values, first one of
them, then two, and so on, until a write is admitted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from fedhpa.cron.execution.planning import plan
from fedhpa.cron.execution.plans import Cause, Plan
from fedhpa.cron.execution.records import ScheduledObject, Target, WindowRecord

# Plans that are tried at one instant. A target has two fields at most, so few events can be at fault.
MAX_ATTEMPTS: Final = 16


class Attempts:
    """The plans to try, one after another. `plan` is the present one; `refusals` are for `settle`."""

    def __init__(
        self, objects: Sequence[ScheduledObject], record: WindowRecord | None, target: Target, now: float
    ) -> None:
        self._objects = objects
        self._record = record
        self._target = target
        self._now = now
        self._left = MAX_ATTEMPTS
        self._held: frozenset[Cause] = frozenset()
        self._coming: deque[frozenset[Cause]] = deque()
        self._seen: set[frozenset[Cause]] = {self._held}
        # The first events without which nothing is left to write.
        self._nothing: frozenset[Cause] = frozenset()
        self.refusals: dict[Cause, str] = {}
        self.plan = plan(objects, record, target, now)

    def refused(self, error: str) -> bool:
        """Notes that the hub refused the write of `plan`, and sets the next plan.

        Returns False if there is none. The present plan has then failed with `error`.
        """
        for cause in (*self.plan.causes, *self.plan.failed_before):
            self.refusals.setdefault(cause, error)
        if not self._held:
            self._push(frozenset(self.plan.failed_before))
        for cause in self.plan.causes:
            self._push(self._held | {cause})
        while self._coming and self._left > 0:
            self._left -= 1
            held = self._coming.popleft() if self._left else frozenset(self.refusals)
            if self._choose(held, accepts_nothing=self._left == 0):
                return True
        held, self._nothing = self._nothing, frozenset()
        return bool(held) and self._choose(held, accepts_nothing=True)

    def _choose(self, held: frozenset[Cause], *, accepts_nothing: bool) -> bool:
        """Makes the plan without some events the present one, if it still writes something."""
        found = self._without(held)
        if not found.write and not accepts_nothing:
            self._nothing = self._nothing or held
            return False
        self._held, self.plan = held, found
        return True

    def _without(self, held: frozenset[Cause]) -> Plan:
        return plan(self._objects, self._record, self._target, self._now, held)

    def _push(self, held: frozenset[Cause]) -> None:
        if held not in self._seen:
            self._seen.add(held)
            self._coming.append(held)
