"""Limits on the requests of one user and of all users, on their answers, and on requests to members."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import CollectorRegistry

from fedhpa.members import CALLER_QUOTA
from fedhpa.serving import counter
from fedhpa.serving.authorization import USER_KEY
from fedhpa.serving.fairness import BYTES, RATE, TOTAL, USER, Fairness, Limits
from fedhpa.serving.flags import Flag, Values, integer, number

MAX_REQUESTS = integer(
    "max-requests-inflight",
    1000,
    "Concurrent requests of all users; more get HTTP 429. 0: no limit.",
    minimum=0,
)
MAX_USER_REQUESTS = integer(
    "max-user-requests-inflight",
    100,
    "Concurrent requests of one user; more get HTTP 429. 0: no limit.",
    minimum=0,
)
USER_QPS = number(
    "user-qps",
    100.0,
    "Requests a second of one user that query members; cached answers are free. 0: no limit.",
    minimum=0,
)
USER_BURST = integer(
    "user-burst", 1000, "Requests of one user that may exceed --user-qps in a burst.", minimum=1
)
# Different large answers that are sent to one user at a time: seven lists of 20,000 pods. A slow client would
# otherwise keep the answers of many periods in memory. A larger answer is sent alone.
MAX_ANSWER_BYTES = 64 * 2**20
Hold = Callable[[object, int], Callable[[], None] | None]
HOLD_KEY: web.RequestKey[Hold] = web.RequestKey("hold", object)  # type: ignore[arg-type]  # it is no class
FLAGS: tuple[Flag[Any], ...] = (MAX_REQUESTS, MAX_USER_REQUESTS, USER_QPS, USER_BURST)


class CallerLimits:
    """Applies the limits and counts refused requests."""

    def __init__(
        self, limits: Limits, registry: CollectorRegistry | None = None, *, clock: Callable[[], float]
    ) -> None:
        self.refused = counter(
            "fedhpa_adapter_requests_refused",
            "Requests refused with HTTP 429, by the limit that was exceeded.",
            registry,
            limit=(USER, TOTAL, RATE, BYTES),
        )
        self.fairness = Fairness(limits, lambda limit: self.refused.labels(limit).inc(), clock=clock)

    @classmethod
    def of(cls, values: Values, registry: CollectorRegistry, clock: Callable[[], float]) -> CallerLimits:
        """Returns the limits that the flags set."""
        limits = Limits(
            values[MAX_REQUESTS],
            values[MAX_USER_REQUESTS],
            values[USER_QPS],
            values[USER_BURST],
            MAX_ANSWER_BYTES,
        )
        return cls(limits, registry, clock=clock)

    @web.middleware
    async def charge(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Charges the user once for a request that queries members, however many members it queries.

        `request[HOLD_KEY]` counts the user's large answers.
        """
        user = request.get(USER_KEY)
        if user is None:
            return await handler(request)
        hold: Hold = partial(self.fairness.hold, user)
        request[HOLD_KEY] = hold
        # Later requests to members are free. An error is not cached, so the next one is refused, too.
        token = CALLER_QUOTA.set(cache(partial(self.fairness.charge, user)))
        try:
            return await handler(request)
        finally:
            CALLER_QUOTA.reset(token)
