"""The state of the placement of one object between two reconciles."""

from __future__ import annotations

from dataclasses import dataclass

from fedhpa.decision import PublicationOutcome


@dataclass
class Placed:
    """`outcome` is that of the last write, None before the first.

    `asked` are the clusters that another scheduler has selected instead, None if it has not, since
    `asked_since` in POSIX seconds.
    """

    outcome: PublicationOutcome | None = None
    asked: tuple[str, ...] | None = None
    asked_since: float = 0.0
