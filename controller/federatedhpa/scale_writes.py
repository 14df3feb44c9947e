"""Writing the replicas that were decided: into the template on the hub, or into each member.

Every write carries the resourceVersion of the scale that the decision was based on. If only something else
of the workload changed since, the write is repeated on the fresh version; if its replicas changed, somebody
else scaled it, and the decision is not theirs: nothing is written, the object is looked at again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fedhpa.api.errors import Conflict, FedHPAError
from fedhpa.api.wire import Scale
from fedhpa.decision.model import Assignment
from fedhpa.kube.backoff import Backoff
from fedhpa.kube.client import ApiClient
from fedhpa.kube.writes import get_scale, put_scale

# client-go's retry on conflict.
TRIES: Final = 5
FIRST_WAIT_SECONDS: Final = 0.02
MOST_WAIT_SECONDS: Final = 0.5


class Superseded(FedHPAError):
    """Somebody else changed the replicas between the decision and its write."""


class NotWritten(FedHPAError):
    """Some of `clusters` did not take their share."""

    def __init__(self, message: str, clusters: Sequence[str]) -> None:
        super().__init__(message)
        self.clusters = clusters


def _nothing(_: Scale) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class MemberWrite:
    """The scale of one member's workload as it was read, and how to reach it.

    `seen` is told each newer state of it that the write brings to light.
    """

    client: ApiClient
    path: str
    scale: Scale
    seen: Callable[[Scale], None] = _nothing


async def write_scale(
    client: ApiClient,
    path: str,
    scale: Scale,
    replicas: int,
    deadline: float,
    seen: Callable[[Scale], None] = _nothing,
) -> None:
    """Set the replicas of the object at `path`, whose scale was read as `scale`.

    `seen` is told each newer state. Raises Superseded, Conflict after some tries, ApiError or
    MemberUnavailable.
    """
    backoff = Backoff(FIRST_WAIT_SECONDS, MOST_WAIT_SECONDS)
    decided_on = scale.spec.replicas
    for attempt in range(1, TRIES + 1):
        try:
            seen(await put_scale(client, path, scale, replicas, deadline=deadline))
            return
        except Conflict:
            if attempt == TRIES:
                raise
        await asyncio.sleep(backoff.next())
        scale = await get_scale(client, path, deadline=deadline)
        seen(scale)
        if scale.spec.replicas == replicas:
            return
        if scale.spec.replicas != decided_on:
            raise Superseded(
                f"{path} was scaled from {decided_on} to {scale.spec.replicas} by somebody else meanwhile"
            )


async def write_assignment(
    targets: Mapping[str, MemberWrite], assignment: Sequence[Assignment], deadline: float
) -> None:
    """Write each cluster's share where it differs from what runs there, all clusters at once.

    A cluster without a target does not answer: its share is held. After every write was tried, raises
    NotWritten with the first error; Superseded only if nothing else went wrong, for it asks for no help.
    """
    changes = [
        (share, targets[share.cluster])
        for share in assignment
        if share.cluster in targets and targets[share.cluster].scale.spec.replicas != share.replicas
    ]

    async def write(share: Assignment, target: MemberWrite) -> FedHPAError | None:
        try:
            await write_scale(target.client, target.path, target.scale, share.replicas, deadline, target.seen)
        except FedHPAError as error:
            return error
        return None

    async with asyncio.TaskGroup() as group:
        tasks = [(share.cluster, group.create_task(write(share, target))) for share, target in changes]
    failures = [(cluster, error) for cluster, task in tasks if (error := task.result()) is not None]
    refused = [(cluster, error) for cluster, error in failures if not isinstance(error, Superseded)]
    for cluster, error in refused:
        raise NotWritten(f"cluster {cluster!r}: {error}", [name for name, _ in refused]) from error
    for _, error in failures:
        raise error
