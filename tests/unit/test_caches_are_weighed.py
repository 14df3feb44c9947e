"""The data that the process keeps about callers is bounded in bytes, for any input."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fedhpa.api.errors import InvalidObject, MemberUnavailable
from fedhpa.kube import SYSTEM, resources
from fedhpa.kube.config import ApiConfig
from fedhpa.kube.resources import MAX_KINDS, ResourceMapper
from fedhpa.members import lists
from fedhpa.members.client import MAX_GROUPS, MAX_SLOW, Call, GroupBreaker, MemberClient
from fedhpa.members.lists import SharedLists
from fedhpa.serving.authentication import MAX_CACHED_BYTES, TokenReviewer, User
from fedhpa.serving.authorization import Attributes, Authorizer
from fedhpa.serving.fairness import Fairness, Limits
from metrics_adapter.prometheus.results import decode_result

GROUPS = tuple(f"group-{number}" * 20 for number in range(500))


class Answer:
    def __init__(self, status: dict[str, Any]) -> None:
        self._status = status

    def decode(self, kind: type) -> Any:
        import msgspec

        return msgspec.convert({"status": self._status}, kind)


class Hub:
    """A hub that knows every token and allows everything."""

    def __init__(self, user: dict[str, Any]) -> None:
        self._user = user

    async def post(self, path: str, _: object, **__: object) -> Answer:
        if path.endswith("tokenreviews"):
            return Answer({"authenticated": True, "user": self._user})
        return Answer({"allowed": True})


async def test_users_of_tokens_are_weighed() -> None:
    """A token can stand for a user of thousands of groups."""
    hub: Any = Hub({"username": "jane", "groups": list(GROUPS)})
    reviewer = TokenReviewer(hub, clock=SYSTEM.monotonic)
    for number in range(500):
        user = await reviewer.user(f"token-{number}")

        assert user is not None
        assert user.size > 50_000
    assert reviewer._users.weight <= MAX_CACHED_BYTES
    assert len(reviewer._users) > 50


async def test_verdicts_are_weighed() -> None:
    """Their keys have the whole user."""
    hub: Any = Hub({})
    authorizer = Authorizer(hub, clock=SYSTEM.monotonic)
    for number in range(500):
        await authorizer.verdict(User(f"jane-{number}", GROUPS), Attributes("get", "/metrics"))

    assert authorizer._verdicts.weight <= MAX_CACHED_BYTES
    assert len(authorizer._verdicts) > 50


def test_long_names_of_users_are_kept_as_digests() -> None:
    """Different names stay different users."""
    fairness = Fairness(Limits(qps=1.0, burst=5), clock=SYSTEM.monotonic)
    for number in range(100):
        fairness.charge(User("x" * 10_000 + str(number)))

    assert len(fairness._rates) == 100
    assert max(map(len, fairness._rates)) <= 253


def test_long_paths_are_not_kept() -> None:
    """25,000 names of 60 kB were 2.8 GB."""
    before = resources._cached_path.cache_info().currsize
    found = {
        resources.resource_path("v1", "pods", "shop", "p" * 60_000 + str(number)) for number in range(100)
    }

    assert len(found) == 100
    assert resources._cached_path.cache_info().currsize == before


async def test_kinds_of_targets_are_bounded() -> None:
    """A tenant can name a new kind in each of its objects."""

    class Discovery:
        async def get(self, path: str, kind: type, **_: object) -> Any:
            del path
            return kind()

    client: Any = Discovery()
    mapper = ResourceMapper(client, clock=SYSTEM.monotonic)
    for number in range(MAX_KINDS + 100):
        with pytest.raises(InvalidObject):
            await mapper.resolve("v1", f"Kind{number}")

    assert len(mapper._known) == MAX_KINDS


def test_breakers_of_api_groups_are_bounded() -> None:
    """A tenant can name a new group, too."""
    client = MemberClient(ApiConfig(server="https://m1"), clock=SYSTEM.monotonic)
    for number in range(MAX_GROUPS + 100):
        client._group(f"group-{number}.example.com")

    assert len(client._groups) == MAX_GROUPS


def test_breakers_of_slow_requests_are_bounded() -> None:
    """A tenant can name any number of metrics and namespaces that time out."""
    breaker = GroupBreaker(SYSTEM.monotonic)
    for number in range(MAX_SLOW + 100):
        call = Call.of(f"/apis/custom.metrics.k8s.io/v1beta2/namespaces/n{number}/pods/*/m", None)
        breaker.timed_out(call, "no answer", SYSTEM.monotonic(), repeated=False)

    assert len(breaker) == 2 * MAX_SLOW


class Silent:
    """A member that does not answer."""

    name = "m1"
    generation = 0

    @property
    def client(self) -> Silent:
        return self

    def check(self) -> None:
        """Its circuit breaker is closed."""

    async def request(self, *_: object, **__: object) -> Any:
        raise MemberUnavailable("m1", "no answer within 3 s")


async def test_retries_are_weighed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests with long selectors are not all repeated in the background, and leave nothing behind."""
    monkeypatch.setattr(lists, "MAX_RETRY_BYTES", 2**20)
    silent: Any = Silent()
    async with SharedLists(clock=SYSTEM.monotonic) as shared:
        for number in range(200):
            selector = {"labelSelector": f"app={number}" + "x" * 60_000}
            with pytest.raises(MemberUnavailable):
                await shared.get(silent, "/pods", selector, len, max_age=10)
        repeated = sum(map(lists._key_bytes, shared._retries))

    assert 0 < repeated <= 2**20
    assert shared._retry_bytes == 0


def test_results_of_a_store_are_weighed_in_bytes() -> None:
    """A few series with large labels weigh as much as many small ones."""

    def weight(count: int, label: str) -> int:
        series = [{"metric": {"pod": label}, "value": [1.0, "1"]}] * count
        body = {"status": "success", "data": {"resultType": "vector", "result": series}}
        return decode_result([json.dumps(body).encode()], 0.0).size

    assert weight(10, "x" * 100_000) > 6_000_000
    assert weight(10, "x" * 100_000) > weight(10_000, "web") / 2
