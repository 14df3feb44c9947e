"""A decision while it is being made: conditions merged, events and steps in the order they come."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fedhpa.api.times import format_time
from fedhpa.decision.model import Condition, Event, Step
from fedhpa.decision.spec.federatedhpa import StoredStatus

JSON = object

NORMAL: Final = "Normal"
WARNING: Final = "Warning"
# A condition is read by people; the CRD would take eight times as much.
MAX_MESSAGE: Final = 4096


class DecisionBuilder:
    """Collects what a decision says. The stored conditions are the start; nothing clears a stale one."""

    def __init__(self, status: StoredStatus, now: float) -> None:
        self.now = now
        self.events: list[Event] = []
        self.steps: list[Step] = []
        self._conditions = {
            stored.type: Condition(
                stored.type, stored.status, stored.reason, stored.message, stored.last_transition_time
            )
            for stored in status.conditions
        }

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """All conditions, in the order of their first appearance."""
        return tuple(self._conditions.values())

    def has(self, type: str) -> bool:
        """Whether a condition is there and True."""
        found = self._conditions.get(type)
        return found is not None and found.status == "True"

    def message(self, type: str) -> str | None:
        """The message of a condition; None where there is none."""
        found = self._conditions.get(type)
        return None if found is None else found.message

    def condition(self, type: str, status: bool, reason: str, message: str) -> None:
        """Sets a condition; the transition time moves only with its status."""
        known = self._conditions.get(type)
        text = "True" if status else "False"
        moved = known is None or known.status != text
        since = api_time(self.now) if known is None or moved else known.last_transition_time
        self._conditions[type] = Condition(type, text, reason, shortened(message), since)

    def warn(self, reason: str, message: str) -> None:
        """Adds a Warning event."""
        self.events.append(Event(WARNING, reason, message))

    def note(self, reason: str, message: str) -> None:
        """Adds a Normal event."""
        self.events.append(Event(NORMAL, reason, message))

    def step(self, step: str, before: int, after: int, reason: str) -> int:
        """Adds a step; returns where it led."""
        self.steps.append(Step(step, before, after, reason))
        return after


def shortened(message: str, most: int = MAX_MESSAGE) -> str:
    """A message as the status carries it: members word errors, and an API server refuses what is too long."""
    return message if len(message) <= most else message[: most - 3] + "..."


def api_time(seconds: float) -> str:
    """A time as metav1.Time has it: whole seconds."""
    return format_time(seconds // 1)


def condition_json(condition: Condition) -> Mapping[str, JSON]:
    """A condition as the status carries it."""
    entry: dict[str, JSON] = {"type": condition.type, "status": condition.status}
    if condition.last_transition_time:
        entry["lastTransitionTime"] = condition.last_transition_time
    return {**entry, "reason": condition.reason, "message": condition.message}
