"""Remembers which metrics each member served in the last minutes.

A member whose store lost a metric, or whose metrics API went away, answers 404 like a member that never had
the metric. A member that served the metric minutes ago is therefore reported as missing, not ignored.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import blake2b
from typing import TypeVar

from fedhpa.api.errors import MetricsUnavailable
from fedhpa.cache import Recent
from fedhpa.members.metrics import NotServed

T = TypeVar("T")

# As long as an unavailable cluster is expected (--cluster-lost-timeout). A metric that was removed on purpose
# is reported as missing for this long.
TTL_SECONDS = 300.0
# About 10 MB. The least recently requested entries are dropped first.
MAX_ENTRIES = 50_000
DIGEST_BYTES = 16

_Key = tuple[str, bytes]


class RecentlyServed:
    """The queries that members answered with values, by member and query, in this process's memory."""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._served: Recent[_Key, float] = Recent(MAX_ENTRIES)

    def __len__(self) -> int:
        return len(self._served)

    async def check(
        self,
        cluster: str,
        query: str,
        params: Mapping[str, str],
        answer: Awaitable[Sequence[T] | None],
    ) -> Sequence[T] | None:
        """Awaits and returns `answer`, which is None if the member does not know the metric.

        Raises MetricsUnavailable if the answer is None or NotServed although the member served this query
        within the TTL. An empty answer is a valid one: the query is then forgotten.
        """
        key = cluster, _digest(query, params)
        try:
            values = await answer
        except NotServed as error:
            self._check_recent(key, str(error))
            raise
        if values is None:
            self._check_recent(key, "it no longer knows it")
        elif values:
            self._served[key] = self._clock()
        else:
            self._served.pop(key, None)
        return values

    def _check_recent(self, key: _Key, reason: str) -> None:
        """Raises MetricsUnavailable if the member served the query within the TTL."""
        served = self._served.get(key)
        if served is None:
            return
        age = self._clock() - served
        if age > TTL_SECONDS:
            del self._served[key]
            return
        raise MetricsUnavailable(f"it served this {age:.0f} s ago: {reason}")


def _digest(query: str, params: Mapping[str, str]) -> bytes:
    # Callers choose the length of selectors. A digest bounds the size of an entry.
    text = "\n".join((query, *(f"{name}={value}" for name, value in sorted(params.items()))))
    return blake2b(text.encode(), digest_size=DIGEST_BYTES).digest()
