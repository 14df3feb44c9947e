"""Which metrics each member served lately: what a member no longer knows is missing, not absent.

A member whose store lost a metric, or whose metrics API went away, answers 404 as one that never had it.
Who served it minutes ago is believed to have it still, so its part of the sum is missed by name.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import blake2b
from typing import TypeVar

from fedhpa.api.errors import MetricsUnavailable
from fedhpa.members.metrics import NotServed

T = TypeVar("T")

# As long as a lost cluster is expected (--cluster-lost-timeout): a metric that was moved away on purpose is
# called missing for so long, and no longer.
REMEMBERED_SECONDS = 300.0
# About 10 MB. What was not asked for longest is forgotten first, and is then absent where it is gone.
MOST_REMEMBERED = 50_000
DIGEST_BYTES = 16

_Key = tuple[str, bytes]


class Remembered:
    """What members answered with values, by member and question, in this process's memory."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._served: OrderedDict[_Key, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._served)

    async def told(
        self,
        cluster: str,
        question: str,
        params: Mapping[str, str],
        answer: Awaitable[Sequence[T] | None],
    ) -> Sequence[T] | None:
        """`answer`, which is None where the member does not know what was asked for.

        MetricsUnavailable if it is None, or NotServed, and the member served it in the last minutes. An empty
        answer is one: the member says that there is nothing, and nothing is remembered any more.
        """
        key = cluster, _digest(question, params)
        try:
            values = await answer
        except NotServed as error:
            self._miss(key, str(error))
            raise
        if values is None:
            self._miss(key, "it no longer knows it")
        elif values:
            self._keep(key)
        else:
            self._served.pop(key, None)
        return values

    def _keep(self, key: _Key) -> None:
        self._served[key] = self._clock()
        self._served.move_to_end(key)
        if len(self._served) > MOST_REMEMBERED:
            self._served.popitem(last=False)

    def _miss(self, key: _Key, reason: str) -> None:
        served = self._served.get(key)
        if served is None:
            return
        age = self._clock() - served
        if age > REMEMBERED_SECONDS:
            del self._served[key]
            return
        raise MetricsUnavailable(f"it served this {age:.0f} s ago: {reason}")


def _digest(question: str, params: Mapping[str, str]) -> bytes:
    # Selectors are as long as callers like: what is kept of a question is of one size.
    whole = "\n".join((question, *(f"{name}={text}" for name, text in sorted(params.items()))))
    return blake2b(whole.encode(), digest_size=DIGEST_BYTES).digest()
