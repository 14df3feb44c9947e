"""The data that the process keeps about callers is bounded in bytes, for any input."""

from __future__ import annotations

from typing import Any

from fedhpa.kube import paths
from fedhpa.serving.authentication import MAX_CACHED_BYTES, TokenReviewer, User
from fedhpa.serving.authorization import Attributes, Authorizer
from fedhpa.serving.fairness import Fairness, Limits

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
    reviewer = TokenReviewer(hub)
    for number in range(500):
        user = await reviewer.user(f"token-{number}")

        assert user is not None
        assert user.size > 50_000
    assert reviewer._users.weight <= MAX_CACHED_BYTES
    assert len(reviewer._users) > 50


async def test_verdicts_are_weighed() -> None:
    """Their keys have the whole user."""
    hub: Any = Hub({})
    authorizer = Authorizer(hub)
    for number in range(500):
        await authorizer.verdict(User(f"jane-{number}", GROUPS), Attributes("get", "/metrics"))

    assert authorizer._verdicts.weight <= MAX_CACHED_BYTES
    assert len(authorizer._verdicts) > 50


def test_long_names_of_users_are_kept_as_digests() -> None:
    """Different names stay different users."""
    fairness = Fairness(Limits(qps=1.0, burst=5))
    for number in range(100):
        fairness.charge(User("x" * 10_000 + str(number)))

    assert len(fairness._tokens) == 100
    assert max(map(len, fairness._tokens)) <= 253


def test_long_paths_are_not_kept() -> None:
    """25,000 names of 60 kB were 2.8 GB."""
    before = paths._cached_path.cache_info().currsize
    found = {paths.resource_path("v1", "pods", "shop", "p" * 60_000 + str(number)) for number in range(100)}

    assert len(found) == 100
    assert paths._cached_path.cache_info().currsize == before
