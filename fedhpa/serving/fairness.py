"""Limits per user: concurrent requests, bytes of large answers, and requests that are forwarded to members.

As in Kubernetes' API servers, a request over a limit is answered 429 with Retry-After, and Kubernetes clients
retry by themselves. The hub, its controllers and administrators have no limits, because clusters depend on
their requests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b

from fedhpa.cache import Recent
from fedhpa.kube import RateLimit
from fedhpa.serving.authentication import User
from fedhpa.serving.error_responses import too_many_requests

MASTERS = "system:masters"
# Users of the hub itself: kube-aggregator and the controllers of Kubernetes 1.36.
HUB_USERS = frozenset({"system:apiserver", "system:aggregator", "system:kube-aggregator"})
CONTROLLER_PREFIXES = ("system:kube-controller-manager", "system:serviceaccount:kube-system:")
# Users with a stored rate. The user whose last request is the oldest is dropped first.
COUNTED_USERS = 4096
# Characters of a name that is kept.
MAX_NAME = 253

# The limits, as the label of fedhpa_adapter_requests_refused_total names them.
USER, TOTAL, RATE, BYTES = "user", "total", "questions", "bytes"
# Answers below this size are not counted by bytes.
LARGE_BYTES = 256 * 1024


@dataclass(frozen=True)
class Limits:
    """Concurrent requests of all users and of one user, and forwarded requests per second of one user.

    `answer_bytes` is for the different large answers that are sent to one user. 0 means no limit.
    """

    total: int = 0
    per_user: int = 0
    qps: float = 0.0
    burst: int = 0
    answer_bytes: int = 0


class Fairness:
    """Counts requests by user; calls `refused` with the limit that a request exceeds."""

    def __init__(
        self,
        limits: Limits,
        refused: Callable[[str], None] = lambda _: None,
        *,
        clock: Callable[[], float],
    ) -> None:
        self._limits = limits
        self._refused = refused
        self._clock = clock
        self._total = 0
        self._by_user: dict[str, int] = {}
        # Per user: the large answers that are being sent, with their sizes and how many times.
        self._answers: dict[str, dict[object, tuple[int, int]]] = {}
        # By user.
        self._rates: Recent[str, RateLimit] = Recent(COUNTED_USERS)

    @property
    def total(self) -> int:
        """The number of counted concurrent requests."""
        return self._total

    def enter(self, user: User) -> bool:
        """Returns True if the request counts; then call `leave` at its end. Raises HTTPTooManyRequests."""
        if is_unlimited(user):
            return False
        own = self._by_user.get(user.name, 0)
        if self._limits.per_user and own >= self._limits.per_user:
            self._refuse(USER)
        if self._limits.total and self._total >= self._limits.total:
            self._refuse(TOTAL)
        self._total += 1
        self._by_user[user.name] = own + 1
        return True

    def leave(self, user: User) -> None:
        """Records the end of a counted request."""
        self._total -= 1
        own = self._by_user[user.name] - 1
        if own:
            self._by_user[user.name] = own
        else:
            del self._by_user[user.name]

    def hold(self, user: User, answer: object, size: int) -> Callable[[], None] | None:
        """Counts an answer until the returned function is called. Raises HTTPTooManyRequests.

        An answer that is sent to the same user several times at once counts once. One is always allowed.
        """
        limit = self._limits.answer_bytes
        if not limit or size < LARGE_BYTES or is_unlimited(user):
            return None
        name = _key(user)
        own = self._answers.get(name, {})
        _, times = own.get(answer, (size, 0))
        if own and not times and size + sum(known for known, _ in own.values()) > limit:
            self._refuse(BYTES)
        self._answers.setdefault(name, own)[answer] = size, times + 1
        return lambda: self._sent(name, answer)

    def _sent(self, name: str, answer: object) -> None:
        own = self._answers[name]
        size, times = own.pop(answer)
        if times > 1:
            own[answer] = size, times - 1
        if not own:
            del self._answers[name]

    def charge(self, user: User) -> None:
        """Counts one request that is forwarded to member clusters. Raises HTTPTooManyRequests."""
        limits = self._limits
        if not limits.qps or is_unlimited(user):
            return
        name = _key(user)
        rate = self._rates[name] = self._rates.get(name) or RateLimit(limits.qps, limits.burst)
        if not rate.allows(self._clock()):
            self._refuse(RATE)

    def _refuse(self, limit: str) -> None:
        self._refused(limit)
        raise too_many_requests()


def _key(user: User) -> str:
    """Returns the name, or a digest of a long one, so that names cannot fill the memory."""
    if len(user.name) <= MAX_NAME:
        return user.name
    return blake2b(user.name.encode(errors="replace")).hexdigest()


def is_unlimited(user: User) -> bool:
    """True for the hub itself, its controllers and administrators."""
    return MASTERS in user.groups or user.name in HUB_USERS or user.name.startswith(CONTROLLER_PREFIXES)
