"""Writes the bounds of a plan to the member HPAs, batch by batch, in the order that the plan gives.

A batch begins when all writes of the batch before have ended, because a maximum is raised only by what was
confirmed lowered elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, Protocol

import structlog

from controller.distributed.hpa_writes import NotOwned
from fedhpa.api.errors import ApiError, Conflict, FedHPAError
from fedhpa.api.member_hpas import V2, wanted_spec
from fedhpa.assignment import Outcome, Plan, Result, Write
from fedhpa.kube import Key, contain

log = structlog.get_logger(__name__)

# A write is a read and a change of the member.
REQUESTS: Final = 2
# next_writes ends after three batches. More would be an error of ours, which must not write for ever.
MAX_BATCHES: Final = 8
TASK: Final = "write-member-hpa"


class HpaWriter(Protocol):
    """Writes the HPAs of FederatedHPAs into member clusters. `key` is namespace and name of both."""

    async def apply(
        self, cluster: str, key: Key, spec: Mapping[str, Any], api_version: str
    ) -> tuple[str, ...]:
        """Create the HPA or change it to this spec. Returns the fields that differed; none if it was right.

        Raises NotOwned, Conflict if somebody wrote meanwhile, MemberUnavailable and ApiError.
        """

    async def delete(self, cluster: str, key: Key) -> bool:
        """Delete the HPA. Returns False if there is none. Raises as `apply` does."""


async def write_plan(
    writer: HpaWriter,
    plan: Plan,
    key: Key,
    federated: Mapping[str, Any],
    versions: Mapping[str, str],
    deadline: float,
) -> tuple[Outcome, ...]:
    """Write the bounds of a plan until nothing is left to send. Returns all writes with their results.

    `federated` is the spec of the FederatedHPA. `versions` are the HPA versions that the members serve.
    `deadline` are the seconds of one request. A member that fails is left to the next pass. Raises nothing.
    """
    outcomes: tuple[Outcome, ...] = ()
    for _ in range(MAX_BATCHES):
        batch = plan.next_writes(outcomes)
        if not batch:
            break
        async with asyncio.TaskGroup() as group:  # the tasks never raise: one cluster stops no other's write
            tasks = [
                group.create_task(
                    contain(
                        TASK,
                        partial(_sent, writer, write, key, federated, versions, deadline),
                        partial(_unknown, write),
                        cluster=write.cluster,
                        namespace=key[0],
                        name=key[1],
                    )
                )
                for write in batch
            ]
        outcomes += tuple(task.result() for task in tasks)
    return outcomes


async def _sent(
    writer: HpaWriter,
    write: Write,
    key: Key,
    federated: Mapping[str, Any],
    versions: Mapping[str, str],
    deadline: float,
) -> Outcome:
    """Send one write. Its result is UNKNOWN if the member may have made the change without an answer."""
    try:
        async with asyncio.timeout(REQUESTS * deadline):
            if write.after is None:
                await writer.delete(write.cluster, key)
            else:
                version = versions.get(write.cluster, V2)
                bounds = write.after
                spec = wanted_spec(federated, bounds.minimum, bounds.maximum, version)
                await writer.apply(write.cluster, key, spec, version)
    except TimeoutError:
        return _unknown(write, f"no answer within {REQUESTS * deadline:g} s")
    except FedHPAError as error:
        return Outcome(write=write, result=result_of(error), reason=str(error))
    return Outcome(write=write, result=Result.CONFIRMED)


def result_of(error: FedHPAError) -> Result:
    """Returns REFUSED if the error says that nothing was changed, else UNKNOWN.

    A conflict changed nothing. A server error (5xx) and a missing answer leave the change unknown.
    """
    if isinstance(error, NotOwned | Conflict):
        return Result.REFUSED
    if isinstance(error, ApiError) and 400 <= error.status < 500:
        return Result.REFUSED
    return Result.UNKNOWN


def _unknown(write: Write, reason: str) -> Outcome:
    return Outcome(write=write, result=Result.UNKNOWN, reason=reason)
