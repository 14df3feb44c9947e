"""Writes one scale, or the bounds of one FederatedHPA, that somebody else may write at the same time.

Every write carries the resourceVersion of the object that the decision used. If the object changed but its
values did not, the write is repeated with the new version. If its values changed, nothing is written: whoever
decided has to decide again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from fedhpa.api.errors import Conflict, FedHPAError
from fedhpa.api.federatedhpa import KIND
from fedhpa.api.hold import HoldRequest, hold_request
from fedhpa.api.wire import Scale
from fedhpa.cron.execution.model import MAXIMUM, MINIMUM, Values
from fedhpa.kube import ApiClient, Backoff, get_scale, put_scale

# As client-go retries on conflict.
TRIES: Final = 5
FIRST_WAIT_SECONDS: Final = 0.02
MAX_WAIT_SECONDS: Final = 0.5

# The other names of the bounds. An object has one name of each.
OTHER_NAMES: Final = {MINIMUM: "federatedMinReplicas", MAXIMUM: "federatedMaxReplicas"}

T = TypeVar("T")


class Superseded(FedHPAError):
    """Somebody else changed the values between the decision and its write, so nothing was written."""


def _ignore(_: Scale) -> None:
    """A callback that does nothing."""


class WritableScale(NamedTuple):
    """The scale of one workload as it was read, with its client and path. `deadline` is that of a request.

    `on_read` is called with each newer state that a write returns.
    """

    client: ApiClient
    path: str
    scale: Scale
    deadline: float
    on_read: Callable[[Scale], None] = _ignore

    @property
    def replicas(self) -> int:
        """The replicas that the scale asks for."""
        return self.scale.spec.replicas


async def set_replicas(
    target: WritableScale, replicas: int, *, manager: str = "", strict: bool = False
) -> None:
    """Set the replicas of a scale. If another client set the same ones meanwhile, nothing is written.

    With `strict` that is a change, too, because the decision depends on the replicas before it. Raises
    Superseded, Conflict after TRIES attempts, ApiError or MemberUnavailable.
    """
    client, path, read, deadline, on_read = target

    async def write(scale: Scale) -> None:
        if scale is read or scale.spec.replicas != replicas:
            on_read(await put_scale(client, path, scale, replicas, manager=manager, deadline=deadline))

    async def again() -> Scale:
        scale = await get_scale(client, path, deadline=deadline)
        on_read(scale)
        return scale

    def changed(scale: Scale) -> str:
        before, now = read.spec.replicas, scale.spec.replicas
        if now == before or (now == replicas and not strict):
            return ""
        return f"{path} was scaled from {before} to {now} by another client"

    await _unless_changed(read, write, again, changed)


async def patch_bounds(
    client: ApiClient,
    path: str,
    raw: Mapping[str, Any],
    values: Values,
    annotations: Mapping[str, str | None],
    *,
    manager: str,
    deadline: float,
) -> None:
    """Set bounds and annotations of the FederatedHPA at `path`, read as `raw`, in one patch.

    The bounds get the names that the object uses. Raises Superseded if somebody changed its bounds or its
    hold, Conflict after TRIES attempts, and ApiError.
    """

    async def write(found: Mapping[str, Any]) -> None:
        version, spec = found["metadata"].get("resourceVersion", ""), found.get("spec") or {}
        patch = {
            "metadata": {"resourceVersion": version, "annotations": annotations},
            "spec": {name_in_use(spec, field): value for field, value in values.items()},
        }
        await client.patch(path, patch, manager=manager, deadline=deadline)

    def changed(found: Mapping[str, Any]) -> str:
        if (bounds_of(found), asked_hold(found)) == (bounds_of(raw), asked_hold(raw)):
            return ""
        return f"the bounds or the hold of {path.rpartition('/')[2]} were changed at the same time"

    await _unless_changed(raw, write, partial(client.get_json, path, deadline=deadline), changed)


def bounds_of(raw: Mapping[str, Any]) -> Values:
    """Returns the bounds of a FederatedHPA under their usual names; None for one that is absent."""
    spec = raw.get("spec") or {}
    found: Values = {}
    for field in (MINIMUM, MAXIMUM):
        value = spec.get(name_in_use(spec, field))
        found[field] = value if isinstance(value, int) and not isinstance(value, bool) else None
    return found


def asked_hold(raw: Mapping[str, Any]) -> HoldRequest | None:
    """Returns what the annotations of a FederatedHPA ask for."""
    metadata = raw["metadata"]
    annotations = metadata.get("annotations")
    return hold_request(annotations, name=f"{KIND} {metadata.get('name', '')}") if annotations else None


def name_in_use(spec: Mapping[str, Any], field: str) -> str:
    """Returns the name under which a FederatedHPA has a bound."""
    other = OTHER_NAMES[field]
    return other if spec.get(other) is not None and spec.get(field) is None else field


async def _unless_changed(
    read: T,
    write: Callable[[T], Awaitable[None]],
    again: Callable[[], Awaitable[T]],
    changed: Callable[[T], str],
) -> None:
    """Write what was decided on `read`. After a conflict the object is read `again`, and the write repeated.

    Raises Superseded with what `changed` says about the newer state unless it is "".
    """
    backoff = None
    for attempt in range(1, TRIES + 1):
        try:
            await write(read)
        except Conflict:
            if attempt == TRIES:
                raise
        else:
            return
        backoff = backoff or Backoff(FIRST_WAIT_SECONDS, MAX_WAIT_SECONDS)
        await asyncio.sleep(backoff.next())
        read = await again()
        if text := changed(read):
            raise Superseded(text)
