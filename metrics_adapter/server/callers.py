"""What one caller may have of the adapter, and have it ask of the members."""

from __future__ import annotations

from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import CollectorRegistry, Counter

from fedhpa.members.lists import CALLER_QUOTA
from fedhpa.serving.authentication import User
from fedhpa.serving.authorization import USER_KEY
from fedhpa.serving.fairness import RATE, TOTAL, USER, Fairness, Limits
from fedhpa.serving.flags.types import Flag, Values, integer, number

MAX_REQUESTS = integer(
    "max-requests-inflight",
    1000,
    "Requests that are answered at once, of all users; above it they get 429. 0: no limit.",
    minimum=0,
)
MAX_USER_REQUESTS = integer(
    "max-user-requests-inflight",
    100,
    "Requests of one user that are answered at once; above it they get 429. 0: no limit.",
    minimum=0,
)
USER_QPS = number(
    "user-qps",
    100.0,
    "Requests a second of one user for which members are asked; what is known is free. 0: no limit.",
    minimum=0,
)
USER_BURST = integer("user-burst", 1000, "Requests that may exceed --user-qps at once.", minimum=1)
FLAGS: tuple[Flag[Any], ...] = (MAX_REQUESTS, MAX_USER_REQUESTS, USER_QPS, USER_BURST)


class Callers:
    """The limits of all callers, and the series that tells who met one."""

    def __init__(self, limits: Limits, registry: CollectorRegistry | None = None) -> None:
        self._refused = Counter(
            "fedhpa_adapter_requests_refused",
            "Requests that were answered 429, by the limit that was met.",
            ["limit"],
            registry=registry,
        )
        for limit in (USER, TOTAL, RATE):
            # From the first scrape on, or the first refusal would be no increase.
            self._refused.labels(limit)
        self.fairness = Fairness(limits, lambda limit: self._refused.labels(limit).inc())

    @classmethod
    def of(cls, values: Values, registry: CollectorRegistry) -> Callers:
        """With the limits that the flags say."""
        limits = Limits(values[MAX_REQUESTS], values[MAX_USER_REQUESTS], values[USER_QPS], values[USER_BURST])
        return cls(limits, registry)

    @web.middleware
    async def charge(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Have whoever asks pay for what members are asked: once a request, however many they are."""
        user = request.get(USER_KEY)
        if user is None:
            return await handler(request)
        token = CALLER_QUOTA.set(_Once(self.fairness, user))
        try:
            return await handler(request)
        finally:
            CALLER_QUOTA.reset(token)


class _Once:
    """Charges for the first question of a request; once refused, for none."""

    def __init__(self, fairness: Fairness, user: User) -> None:
        self._fairness = fairness
        self._user = user
        self._paid = False

    def __call__(self) -> None:
        if not self._paid:
            self._fairness.charge(self._user)
            self._paid = True
