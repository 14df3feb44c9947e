"""Another client that sets the workload's size again and again, against the controller.

One change by a person is no conflict: the controller simply decides anew. A pipeline that applies a manifest
with `spec.replicas`, or a second controller, changes the size after each write of ours.
"""

from __future__ import annotations

from typing import Final

import msgspec

from fedhpa.assignment import Count, Seconds

# So many changes within this time are a conflict. It is over once nothing has changed for as long.
CHANGES: Final = 3
WITHIN_SECONDS: Final = 600.0


class SizeChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """A size that is not the one that the controller `left`: the replicas `found`.

    `by` is the field manager that set it, "" if unknown. `cluster` is "" for the template on the hub.
    """

    left: Count
    found: Count
    cluster: str = ""
    by: str = ""


class Resets(msgspec.Struct, frozen=True, omit_defaults=True):
    """The `times` of the last changes by others in POSIX seconds, at most CHANGES, and the `last` of them."""

    times: tuple[Seconds, ...]
    last: SizeChange

    @property
    def is_conflict(self) -> bool:
        """True if another client keeps changing the size."""
        return len(self.times) >= CHANGES


def resets_after(known: Resets | None, change: SizeChange | None, now: float) -> Resets | None:
    """Returns the changes after a reconcile at `now` that found one, or found none; None if all are old."""
    # The clock of a former leader may have been ahead of ours.
    times = () if known is None else tuple(min(at, now) for at in known.times)
    recent = tuple(at for at in times if now - at < WITHIN_SECONDS)
    if known is None or not known.is_conflict or not recent:
        times = recent
    if change is not None:
        return Resets((*times, now // 1)[-CHANGES:], change)
    return Resets(times, known.last) if known is not None and times else None
