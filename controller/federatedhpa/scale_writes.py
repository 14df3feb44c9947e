"""Writes decided replicas to the scale of the template on the hub, or to the scale in each member.

Every write carries the resourceVersion of the scale that the decision used. If the workload changed but its
replicas did not, the write is repeated with the new version. If its replicas changed, someone else scaled it:
nothing is written, and the object is reconciled again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from controller.distributed.hpa_reader import HpaReading
from controller.distributed.template import Bound
from fedhpa.api.errors import ApiError, Conflict, FedHPAError
from fedhpa.api.texts import listed
from fedhpa.api.wire import Scale
from fedhpa.decision import Assignment
from fedhpa.kube import ApiClient, Backoff, contain, get_scale, put_scale

# As client-go retries on conflict.
TRIES: Final = 5
FIRST_WAIT_SECONDS: Final = 0.02
MAX_WAIT_SECONDS: Final = 0.5
# People read the message of a condition.
MAX_NAMED: Final = 8


class WriteFailed(FedHPAError):
    """A scale was not written as decided. `written` are the clusters whose share was, with that share."""

    def __init__(self, message: str, written: Mapping[str, int] | None = None) -> None:
        super().__init__(message)
        self.written = written or {}


class Superseded(WriteFailed):
    """Someone else changed the replicas between the decision and its write."""


class NotWritten(WriteFailed):
    """The writes of shares to `clusters` failed. `unsure` is true if one may have been made all the same."""

    def __init__(
        self,
        message: str,
        clusters: Sequence[str],
        written: Mapping[str, int] | None = None,
        *,
        unsure: bool = True,
    ) -> None:
        super().__init__(message, written)
        self.clusters = clusters
        self.unsure = unsure


def may_be_written(error: FedHPAError) -> bool:
    """True if a write that ended with the error may have been made: there was no answer, or no clear one."""
    if isinstance(error, NotWritten):
        return error.unsure
    return not isinstance(error, Superseded) and not (
        isinstance(error, ApiError) and 400 <= error.status < 500
    )


def _ignore(_: Scale) -> None:
    """A callback that does nothing."""


class MemberScale(NamedTuple):
    """The scale of one member's workload as it was read, with its client and path.

    `on_read` is called with each newer state that a write returns.
    """

    client: ApiClient
    path: str
    scale: Scale
    on_read: Callable[[Scale], None] = _ignore


@dataclass(frozen=True)
class WriteTargets:
    """The objects that writes depend on: the template's scale, or that of each member.

    `hub_problem` says why the hub could not serve what the snapshot needs; "" if it did.
    `hpas` are the HPAs of mode Distributed. `unselected` are the scales of clusters that have our HPA and are
    no longer selected, None without the workload. `bound` is the ResourceBinding with propagation karmada.
    """

    path: str = ""
    template: Scale | None = None
    members: Mapping[str, MemberScale] = field(default_factory=dict)
    hub_problem: str = ""
    hpas: Mapping[str, HpaReading] = field(default_factory=dict)
    unselected: Mapping[str, MemberScale | None] = field(default_factory=dict)
    bound: Bound | None = None


async def write_scale(
    client: ApiClient,
    path: str,
    scale: Scale,
    replicas: int,
    deadline: float,
    on_read: Callable[[Scale], None] = _ignore,
) -> None:
    """Set the replicas of the object at `path`, whose scale was read as `scale`.

    `on_read` is called with each newer state. Raises Superseded, Conflict after TRIES attempts, ApiError or
    MemberUnavailable.
    """
    backoff = Backoff(FIRST_WAIT_SECONDS, MAX_WAIT_SECONDS)
    decided_on = scale.spec.replicas
    for attempt in range(1, TRIES + 1):
        try:
            on_read(await put_scale(client, path, scale, replicas, deadline=deadline))
            return
        except Conflict:
            if attempt == TRIES:
                raise
        await asyncio.sleep(backoff.next())
        scale = await get_scale(client, path, deadline=deadline)
        on_read(scale)
        if scale.spec.replicas == replicas:
            return
        if scale.spec.replicas != decided_on:
            raise Superseded(
                f"{path} was scaled from {decided_on} to {scale.spec.replicas} by another client"
            )


async def write_assignment(
    targets: Mapping[str, MemberScale],
    assignment: Sequence[Assignment],
    deadline: float,
    *,
    moves: bool = False,
) -> None:
    """Write each cluster's share where it differs from its current replicas.

    Smaller shares are written first, all at once, and then the larger ones. With `moves` the size stays, and
    nothing grows for replicas that were not removed. A cluster without a target does not answer, so its
    replicas stay. After all writes were tried, raises NotWritten with the first error, or Superseded if no
    other error occurred. Both name the shares that were written all the same.
    """
    changes = [
        (share, targets[share.cluster])
        for share in assignment
        if share.cluster in targets and targets[share.cluster].scale.spec.replicas != share.replicas
    ]
    lower = [(share, one) for share, one in changes if share.replicas < one.scale.spec.replicas]
    higher = [(share, one) for share, one in changes if share.replicas > one.scale.spec.replicas]
    outcomes = await _write_all(lower, deadline)
    if not moves or all(error is None for _, error in outcomes):
        outcomes += await _write_all(higher, deadline)
    _raise_failures(outcomes)


Outcomes = list[tuple[Assignment, FedHPAError | None]]


async def _write_all(changes: Sequence[tuple[Assignment, MemberScale]], deadline: float) -> Outcomes:
    """Write shares all at once, and return the error of each; None if it was written."""

    async def write(share: Assignment, target: MemberScale) -> FedHPAError | None:
        try:
            await write_scale(
                target.client, target.path, target.scale, share.replicas, deadline, target.on_read
            )
        except FedHPAError as error:
            return error
        return None

    def failed(reason: str) -> FedHPAError:
        return FedHPAError(reason)

    async with asyncio.TaskGroup() as group:  # the tasks never raise: one cluster stops no other's write
        tasks = [
            (
                share,
                group.create_task(
                    contain("write-scale", partial(write, share, target), failed, cluster=share.cluster)
                ),
            )
            for share, target in changes
        ]
    return [(share, task.result()) for share, task in tasks]


def _raise_failures(outcomes: Outcomes) -> None:
    written = {share.cluster: share.replicas for share, error in outcomes if error is None}
    failures = [(share.cluster, error) for share, error in outcomes if error is not None]
    refused = [(cluster, error) for cluster, error in failures if not isinstance(error, Superseded)]
    for cluster, error in refused:
        message = f"cluster {cluster!r}: {error}"
        if written:
            shares = [f"{name}: {replicas}" for name, replicas in sorted(written.items())]
            message += f"; written all the same: {listed(shares, MAX_NAMED)}"
        unsure = any(may_be_written(each) for _, each in refused)
        raise NotWritten(message, [name for name, _ in refused], written, unsure=unsure) from error
    for _, error in failures:
        raise Superseded(str(error), written) from error
