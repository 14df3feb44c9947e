"""Who is told how the members do, so that it can be counted."""

from __future__ import annotations


class Observer:
    """Told nothing that it would have to answer; this one listens to nothing."""

    def outcome(self, api: str, cluster: str, answered: bool) -> None:
        """How a member's part of one answer ended; `api` is the group."""

    def absent(self, api: str, cluster: str) -> None:
        """A member does not serve the API, and nothing is expected of it."""

    def answered(self, api: str, age: float) -> None:
        """An answer of a member was used that was asked for `age` seconds ago."""
