"""What one user may have of a server: so much at once, so many questions a second; the hub is never bound."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from fedhpa.api.errors import ApiError
from fedhpa.kube.client import ApiClient
from fedhpa.kube.config import ApiConfig
from fedhpa.kube.responses import Response
from fedhpa.serving.authentication import MAX_TOKEN_REVIEWS, TokenReviewer, User
from fedhpa.serving.authorization import MAX_CACHED_PATH, Attributes, Authorizer
from fedhpa.serving.fairness import COUNTED_USERS, Fairness, Limits

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
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_user_has_so_much_at_once() -> None:
    """Whatever groups the same name comes with; what has ended makes room; others are not concerned."""
    refused: list[str] = []
    fairness = Fairness(Limits(total=10, per_user=2), refused.append)
    assert [fairness.enter(JANE), fairness.enter(User("jane"))] == [True, True]
    with pytest.raises(web.HTTPTooManyRequests):
        fairness.enter(JANE)

    assert fairness.enter(JOE)
    fairness.leave(JANE)
    assert fairness.enter(JANE)
    assert (refused, fairness.total) == (["user"], 3)


def test_all_together_have_so_much_at_once() -> None:
    """A thousand users are not a thousand times as much."""
    refused: list[str] = []
    fairness = Fairness(Limits(total=3, per_user=2), refused.append)
    for number in range(3):
        fairness.enter(User(f"user{number}"))
    with pytest.raises(web.HTTPTooManyRequests):
        fairness.enter(JANE)

    assert refused == ["total"]


@pytest.mark.parametrize("user", HUB, ids=lambda user: user.name)
def test_the_hub_is_never_kept_out(user: User) -> None:
    """Where tenants have taken everything."""
    fairness = Fairness(Limits(total=1, per_user=1, qps=1, burst=1))
    fairness.enter(JANE)
    for _ in range(10):
        fairness.charge(user)

        assert not fairness.enter(user)


@pytest.mark.parametrize("user", NOT_THE_HUB, ids=lambda user: user.name)
def test_nobody_passes_for_the_hub(user: User) -> None:
    """Names that look like its own are tenants'."""
    assert Fairness(Limits(per_user=1)).enter(user)


def test_questions_come_back_with_time() -> None:
    """A burst at once, then so many a second; never more than the burst."""
    refused: list[str] = []
    clock = Clock()
    fairness = Fairness(Limits(qps=2, burst=5), refused.append, clock)

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


def test_users_are_not_counted_without_end() -> None:
    """Names come from outside."""
    fairness = Fairness(Limits(per_user=1, qps=1, burst=1))
    for number in range(2 * COUNTED_USERS):
        user = User(f"user{number}")
        fairness.enter(user)
        fairness.charge(user)
        fairness.leave(user)

    assert (len(fairness._tokens), len(fairness._by_user), fairness.total) == (COUNTED_USERS, 0, 0)


class SilentHub(ApiClient):
    """Answers nothing until told to."""

    def __init__(self) -> None:
        super().__init__(ApiConfig(server="http://hub"))
        self.asked = 0
        self.answer = asyncio.Event()

    async def post(self, path: str, body: object, *, deadline: float | None = None) -> Response:
        self.asked += 1
        await self.answer.wait()
        raise ApiError("away", status=0)


async def test_unknown_tokens_do_not_flood_the_hub() -> None:
    """So many are reviewed at once; more are told to come again, and are asked for then."""
    hub = SilentHub()
    reviewer = TokenReviewer(hub)
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
    """Allows everything, and counts."""

    def __init__(self) -> None:
        super().__init__(ApiConfig(server="http://hub"))
        self.asked = 0

    async def post(self, path: str, body: object, *, deadline: float | None = None) -> Response:
        self.asked += 1
        return Response(201, {}, b'{"status":{"allowed":true}}')  # type: ignore[arg-type]  # headers are not read


async def test_verdicts_on_endless_paths_are_not_remembered() -> None:
    """They are right all the same."""
    hub = YesHub()
    authorizer = Authorizer(hub)
    short, long = Attributes("get", "/a"), Attributes("get", "/" + "a" * MAX_CACHED_PATH)
    verdicts = [await authorizer.verdict(JANE, wanted) for wanted in (short, short, long, long)]

    assert all(verdict.allowed for verdict in verdicts)
    assert hub.asked == 3
