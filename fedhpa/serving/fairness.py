"""How much of a server one user may have: requests under way, and requests for which others are asked.

As in Kubernetes' API servers who is over a bound is answered 429 and told to come again; its clients do so by
themselves. The hub and its controllers are not bound: what they ask keeps clusters going.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from fedhpa.serving.authentication import User
from fedhpa.serving.status import too_many_requests

MASTERS = "system:masters"
# Of the hub itself: Kubernetes 1.36, kube-aggregator's users and the controllers' accounts.
OWN_NAMES = frozenset({"system:apiserver", "system:aggregator", "system:kube-aggregator"})
OWN_CONTROLLERS = ("system:kube-controller-manager", "system:serviceaccount:kube-system:")
# Users whose questions are counted; one who was not seen for so many others begins anew.
COUNTED_USERS = 4096

USER, TOTAL, QUESTIONS = "user", "total", "questions"


@dataclass(frozen=True)
class Limits:
    """Requests under way in all and of one user, and questions a second of one user; 0: no limit."""

    total: int = 0
    per_user: int = 0
    questions: float = 0.0
    burst: int = 0


class Fairness:
    """Counts by user; `refused` is told which limit was met."""

    def __init__(
        self,
        limits: Limits,
        refused: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits = limits
        self._refused = refused
        self._clock = clock
        self._total = 0
        self._by_user: dict[str, int] = {}
        # Questions that a user may still ask, and when that was so.
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    @property
    def total(self) -> int:
        """Counted requests under way."""
        return self._total

    def enter(self, user: User) -> bool:
        """Whether it is counted: `leave` is due once it has ended. Raises HTTPTooManyRequests."""
        if is_of_the_hub(user):
            return False
        mine = self._by_user.get(user.name, 0)
        if self._limits.per_user and mine >= self._limits.per_user:
            self._refuse(USER)
        if self._limits.total and self._total >= self._limits.total:
            self._refuse(TOTAL)
        self._total += 1
        self._by_user[user.name] = mine + 1
        return True

    def leave(self, user: User) -> None:
        """A counted request has ended."""
        self._total -= 1
        mine = self._by_user[user.name] - 1
        if mine:
            self._by_user[user.name] = mine
        else:
            del self._by_user[user.name]

    def ask(self, user: User) -> None:
        """Count one question that somebody else has to answer. Raises HTTPTooManyRequests."""
        limits = self._limits
        if not limits.questions or is_of_the_hub(user):
            return
        now = self._clock()
        left, at = self._left.pop(user.name, (float(limits.burst), now))
        left = min(left + (now - at) * limits.questions, float(max(limits.burst, 1)))
        allowed = left >= 1
        self._left[user.name] = (left - allowed, now)
        if len(self._left) > COUNTED_USERS:
            self._left.popitem(last=False)
        if not allowed:
            self._refuse(QUESTIONS)

    def _refuse(self, limit: str) -> None:
        self._refused(limit)
        raise too_many_requests()


def is_of_the_hub(user: User) -> bool:
    """Whether it is the hub itself, one of its controllers or an administrator."""
    return MASTERS in user.groups or user.name in OWN_NAMES or user.name.startswith(OWN_CONTROLLERS)
