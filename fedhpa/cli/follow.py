"""Follows one object: `fedhpa explain --watch` shows it again when its decision or its rules' state changes.

The object is read anew once a second at most. The right to get it is therefore enough, and a hub that goes
away for a while ends nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from fedhpa.api.errors import ConfigError

SECONDS: Final = 1.0

Read = Callable[[], Awaitable[Mapping[str, Any] | None]]
# These change although nothing was decided anew.
_TIMES: Final = ("time", "history")


async def follow(
    read: Read,
    show: Callable[[Mapping[str, Any]], None],
    warn: Callable[[str], None],
    *,
    state: Callable[[Mapping[str, Any]], object] | None = None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Show the object whenever its state changed, until it is deleted.

    `read` returns the object, None if it does not exist; `warn` gets each new problem. `state` returns the
    part that a person follows; without it, that is the decision with the conditions. Raises ConfigError if
    the first read fails.
    """
    state = state or _state
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


def _state(found: Mapping[str, Any]) -> object:
    """The parts of the status that a person follows, without times."""
    status = found.get("status") or {}
    decision = {key: value for key, value in (status.get("decision") or {}).items() if key not in _TIMES}
    conditions = [
        (one.get("type"), one.get("status"), one.get("reason"), one.get("message"))
        for one in status.get("conditions") or ()
    ]
    return decision, conditions
