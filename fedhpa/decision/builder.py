"""Collects the conditions, events and steps of a decision while it is made."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from fedhpa.api.times import format_time
from fedhpa.decision.messages import READY
from fedhpa.decision.model import Event, StatusCondition, Step
from fedhpa.decision.record.status import StoredStatus

JSON = object

NORMAL: Final = "Normal"
WARNING: Final = "Warning"
# People read conditions. The CRD would allow eight times as much.
MAX_MESSAGE: Final = 4096


class DecisionBuilder:
    """Starts from the stored conditions; a condition that the decision does not set stays as it is.

    Ready is left out, because it follows from the others and is rendered with the status.
    """

    def __init__(self, status: StoredStatus, now: float) -> None:
        self.now = now
        self.events: list[Event] = []
        self.steps: list[Step] = []
        self._conditions = {
            condition.type: condition for condition in status.conditions if condition.type != READY
        }

    @property
    def conditions(self) -> tuple[StatusCondition, ...]:
        """All conditions, in the order in which they were first set."""
        return tuple(self._conditions.values())

    def has(self, type: str) -> bool:
        """True if the condition is set and True."""
        found = self._conditions.get(type)
        return found is not None and found.status == "True"

    def message(self, type: str) -> str | None:
        """Returns the condition's message; None if the condition is not set."""
        found = self._conditions.get(type)
        return None if found is None else found.message

    def found(self, type: str) -> StatusCondition | None:
        """Returns the condition; None if it is not set."""
        return self._conditions.get(type)

    def condition(self, type: str, status: bool | None, reason: str, message: str) -> None:
        """Set a condition; status None is Unknown. Its transition time changes only with its status."""
        known = self._conditions.get(type)
        text = "Unknown" if status is None else str(status)
        changed = known is None or known.status != text
        since = api_time(self.now) if known is None or changed else known.last_transition_time
        self._conditions[type] = StatusCondition(type, text, reason, shortened(message), since)

    def forget(self, type: str) -> None:
        """Remove a stored condition."""
        self._conditions.pop(type, None)

    def warn(self, reason: str, message: str) -> None:
        """Add a Warning event."""
        self.events.append(Event(WARNING, reason, message))

    def event(self, reason: str, message: str) -> None:
        """Add a Normal event."""
        self.events.append(Event(NORMAL, reason, message))

    def step(self, step: str, before: int, after: int, reason: str) -> int:
        """Add a step and return `after`."""
        self.steps.append(Step(step, before, after, reason))
        return after


def shortened(message: str, most: int = MAX_MESSAGE) -> str:
    """Returns the message cut to `most` characters: an API server refuses a message that is too long."""
    return message if len(message) <= most else message[: most - 3] + "..."


def api_time(seconds: float) -> str:
    """Returns a time as metav1.Time has it: whole seconds."""
    return _text_of(seconds // 1)


# A decision writes its own time once for each cluster and condition.
@lru_cache(maxsize=64)
def _text_of(seconds: float) -> str:
    return format_time(seconds)


def condition_json(condition: StatusCondition) -> Mapping[str, JSON]:
    """Returns a condition as the status has it."""
    entry: dict[str, JSON] = {"type": condition.type, "status": condition.status}
    if condition.observed_generation is not None:
        entry["observedGeneration"] = condition.observed_generation
    if condition.last_transition_time:
        entry["lastTransitionTime"] = condition.last_transition_time
    return {**entry, "reason": condition.reason, "message": condition.message}
