"""A metric that a member served minutes ago and no longer knows is missing. One never served is absent."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from fedhpa.api.errors import MetricsUnavailable
from fedhpa.members.metrics import NotServed
from metrics_adapter.members import recently_served as module
from metrics_adapter.members.recently_served import RecentlyServed

DEPTH = "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/depth"
NO_API = "it does not serve external.metrics.k8s.io/v1beta1"


class Memory:
    """A RecentlyServed with a clock that the test sets."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.kept = RecentlyServed(clock=lambda: self.now)

    async def told(
        self, answer: Sequence[int] | NotServed | None, cluster: str = "m1", **params: str
    ) -> Sequence[int] | None:
        """Returns the outcome for an answer of the member."""

        async def give() -> Sequence[int] | None:
            if isinstance(answer, NotServed):
                raise answer
            return answer

        return await self.kept.check(cluster, DEPTH, params, give())


@pytest.fixture
def memory() -> Memory:
    return Memory()


async def test_what_was_never_served_is_absent(memory: Memory) -> None:
    """Answers of another member, or with other selectors, do not count."""
    await memory.told([1], cluster="m2")
    await memory.told([1], labelSelector="queue=orders")

    assert await memory.told(None) is None
    with pytest.raises(NotServed):
        await memory.told(NotServed(NO_API))


@pytest.mark.parametrize(
    ("gone", "reason"),
    [(None, "it no longer knows it"), (NotServed(NO_API), NO_API)],
    ids=["no such metric", "no API"],
)
async def test_what_was_served_minutes_ago_is_missing(
    memory: Memory, gone: NotServed | None, reason: str
) -> None:
    """It is missing for five minutes after the last answer with values, however often it is requested."""
    await memory.told([1])
    memory.now += 100
    await memory.told([1])
    for _ in range(3):
        memory.now += 100
        with pytest.raises(MetricsUnavailable) as caught:
            await memory.told(gone)
        assert not isinstance(caught.value, NotServed)
    memory.now += 1

    assert str(caught.value) == f"it served this 300 s ago: {reason}"
    if gone is None:
        assert await memory.told(None) is None
    else:
        with pytest.raises(NotServed):
            await memory.told(gone)
    assert len(memory.kept) == 0


async def test_an_empty_list_is_a_word_that_counts(memory: Memory) -> None:
    """An empty answer is a valid one, and the query is then forgotten."""
    await memory.told([1])
    await memory.told([])

    assert await memory.told(None) is None
    assert len(memory.kept) == 0


async def test_a_failure_is_neither(memory: Memory) -> None:
    """A member that does not answer proves nothing about the metrics that it serves."""
    await memory.told([1])

    async def fail() -> Sequence[int] | None:
        raise MetricsUnavailable("HTTP 500")

    with pytest.raises(MetricsUnavailable, match="HTTP 500"):
        await memory.kept.check("m1", DEPTH, {}, fail())
    with pytest.raises(MetricsUnavailable, match="it served this 0 s ago"):
        await memory.told(None)


async def test_the_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest entry is dropped first, and the length of a query does not change its entry's size."""
    monkeypatch.setattr(module, "MAX_ENTRIES", 3)
    memory = Memory()
    await memory.told([1])
    for number in range(5):
        await memory.told([1], labelSelector=f"queue={number}" + "x" * 10_000)

    assert len(memory.kept) == 3
    assert await memory.told(None) is None
