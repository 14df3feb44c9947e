"""Follows one object: `fedhpa explain --watch` shows it again when its decision or its rules' state changes.

The object is read anew once a second at most. The right to get it is therefore enough, and a hub that goes
away for a while ends nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from fedhpa.api.errors import ConfigError

SECONDS: Final = 1.0

T = TypeVar("T")


async def follow(
    read: Callable[[], Awaitable[T | None]],
    show: Callable[[T], None],
    warn: Callable[[str], None],
    *,
    state: Callable[[T], object],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Show the object whenever its state changed, until it is deleted.

    `read` returns the object, None if it does not exist; `warn` gets each new problem. `state` returns the
    part that a person follows. Raises ConfigError if the first read fails.
    """
    shown: object = None
    warned = ""
    first = True
    while True:
        try:
            found = await read()
        except ConfigError as error:
            if first:
                raise
            if str(error) != warned:
                warned = str(error)
                warn(f"{warned}; trying again")
        else:
            warned = ""
            if found is None:
                return
            present = state(found)
            if present != shown:
                show(found)
                shown = present
        first = False
        await sleep(SECONDS)
