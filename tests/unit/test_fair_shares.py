"""Limits per user: concurrent requests, bytes and forwarded requests per second. The hub has no limits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from aiohttp import web

from fedhpa.api.errors import ApiError
from fedhpa.kube import SYSTEM
from fedhpa.kube.client import ApiClient
from fedhpa.kube.config import ApiConfig
from fedhpa.kube.responses import Response
from fedhpa.serving.authentication import MAX_TOKEN_REVIEWS, TokenReviewer, User
from fedhpa.serving.authorization import MAX_CACHED_PATH, Attributes, Authorizer
from fedhpa.serving.fairness import COUNTED_USERS, LARGE_BYTES, Fairness, Limits

JANE, JOE = User("jane", ("dev",)), User("joe")
HUB = [
    User("whoever", ("system:masters",)),
    User("system:kube-controller-manager"),
    User("system:serviceaccount:kube-system:horizontal-pod-autoscaler"),
    User("system:aggregator"),
]
NOT_THE_HUB = [
    User("system:serviceaccount:shop:system:serviceaccount:kube-system:x"),
    User("system:serviceaccount:kube-systems:x"),
    User("xsystem:kube-controller-manager"),
    User("masters", ("xsystem:masters",)),
    User("system:anonymous", ("system:unauthenticated",)),
]


class Clock:
    """A clock that the test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_concurrent_requests_of_a_user_are_limited() -> None:
    """The limit counts by user name, whatever the groups; ended requests and other users do not count."""
    refused: list[str] = []
    fairness = Fairness(Limits(total=10, per_user=2), refused.append, clock=SYSTEM.monotonic)
    assert [fairness.enter(JANE), fairness.enter(User("jane"))] == [True, True]
    with pytest.raises(web.HTTPTooManyRequests):
        fairness.enter(JANE)

    assert fairness.enter(JOE)
    fairness.leave(JANE)
    assert fairness.enter(JANE)
    assert (refused, fairness.total) == (["user"], 3)


def test_concurrent_requests_of_all_users_are_limited() -> None:
    """The total limit holds for any number of users."""
    refused: list[str] = []
    fairness = Fairness(Limits(total=3, per_user=2), refused.append, clock=SYSTEM.monotonic)
    for number in range(3):
        fairness.enter(User(f"user{number}"))
    with pytest.raises(web.HTTPTooManyRequests):
        fairness.enter(JANE)

    assert refused == ["total"]


@pytest.mark.parametrize("user", HUB, ids=lambda user: user.name)
def test_the_hub_has_no_limits(user: User) -> None:
    """The hub is served even if tenants have used up the limits."""
    fairness = Fairness(Limits(total=1, per_user=1, qps=1, burst=1), clock=SYSTEM.monotonic)
    fairness.enter(JANE)
    for _ in range(10):
        fairness.charge(user)

        assert not fairness.enter(user)


@pytest.mark.parametrize("user", NOT_THE_HUB, ids=lambda user: user.name)
def test_similar_names_have_limits(user: User) -> None:
    """A name that only looks like one of the hub's has limits."""
    assert Fairness(Limits(per_user=1), clock=SYSTEM.monotonic).enter(user)


def test_the_rate_of_forwarded_requests_is_limited() -> None:
    """A user has a burst and then a rate per second; unused rate never exceeds the burst."""
    refused: list[str] = []
    clock = Clock()
    fairness = Fairness(Limits(qps=2, burst=5), refused.append, clock=clock)

    def asked() -> int:
        count = 0
        while True:
            try:
                fairness.charge(JANE)
            except web.HTTPTooManyRequests:
                return count
            count += 1

    counts = []
    for clock.now in (0.0, 0.4, 0.5, 1.5, 1000.0):
        counts.append(asked())

    assert counts == [5, 0, 1, 2, 5]
    assert refused == ["questions"] * 5
    fairness.charge(JOE)


def test_large_answers_of_a_user_are_counted_by_bytes() -> None:
    """The same answer counts once, one is always allowed, and an answer that was sent is free."""
    refused: list[str] = []
    fairness = Fairness(Limits(answer_bytes=10 * LARGE_BYTES), refused.append, clock=SYSTEM.monotonic)

    def hold(user: User, answer: str, parts: float) -> Callable[[], None]:
        done = fairness.hold(user, answer, int(parts * LARGE_BYTES))
        assert done is not None, "it is large"
        return done

    lists = [hold(JOE, "list", 8) for _ in range(100)]
    table = hold(JOE, "table", 2)
    small = fairness.hold(JOE, "small", LARGE_BYTES - 1)
    for _ in range(2):
        with pytest.raises(web.HTTPTooManyRequests):
            hold(JOE, "other", 1)
    hold(JANE, "huge", 1000)
    table()
    other = hold(JOE, "other", 2)
    for done in (*lists, other):
        done()
    hold(JOE, "huge", 1000)

    assert small is None
    assert refused == ["bytes"] * 2


def test_the_number_of_counted_users_is_bounded() -> None:
    """Callers choose user names, so the memory for them is bounded."""
    fairness = Fairness(Limits(per_user=1, qps=1, burst=1), clock=SYSTEM.monotonic)
    for number in range(2 * COUNTED_USERS):
        user = User(f"user{number}")
        fairness.enter(user)
        fairness.charge(user)
        fairness.leave(user)

    assert (len(fairness._rates), len(fairness._by_user), fairness.total) == (COUNTED_USERS, 0, 0)


class SilentHub(ApiClient):
    """A hub that does not answer until the test releases it."""

    def __init__(self) -> None:
        super().__init__(ApiConfig(server="http://hub"))
        self.asked = 0
        self.answer = asyncio.Event()

    async def post(self, path: str, body: object, **_: object) -> Response:
        self.asked += 1
        await self.answer.wait()
        raise ApiError("away", status=0)


async def test_concurrent_token_reviews_are_limited() -> None:
    """Above the limit, unknown tokens get 429, and a retry is reviewed."""
    hub = SilentHub()
    reviewer = TokenReviewer(hub, clock=SYSTEM.monotonic)
    results = asyncio.gather(
        *(reviewer.user(f"token{number}") for number in range(MAX_TOKEN_REVIEWS + 10)), return_exceptions=True
    )
    for _ in range(5):
        await asyncio.sleep(0)
    asked = hub.asked
    hub.answer.set()
    found = await results

    assert asked == MAX_TOKEN_REVIEWS
    assert sum(isinstance(error, web.HTTPTooManyRequests) for error in found) == 10
    with pytest.raises(ApiError):
        await reviewer.user("another")


class YesHub(ApiClient):
    """A hub that allows every request and counts the reviews."""

    def __init__(self) -> None:
        super().__init__(ApiConfig(server="http://hub"))
        self.asked = 0

    async def post(self, path: str, body: object, **_: object) -> Response:
        self.asked += 1
        return Response(201, {}, b'{"status":{"allowed":true}}')  # type: ignore[arg-type]  # headers are not read


async def test_verdicts_on_long_paths_are_not_cached() -> None:
    """The verdicts are correct, but each request triggers a review."""
    hub = YesHub()
    authorizer = Authorizer(hub, clock=SYSTEM.monotonic)
    short, long = Attributes("get", "/a"), Attributes("get", "/" + "a" * MAX_CACHED_PATH)
    verdicts = [await authorizer.verdict(JANE, wanted) for wanted in (short, short, long, long)]

    assert all(verdict.allowed for verdict in verdicts)
    assert hub.asked == 3
