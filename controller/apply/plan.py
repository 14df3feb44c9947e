"""Sends the typed writes of a plan, batch by batch. A cluster that fails stops no other's write.

A batch begins when all writes of the batch before have ended: a maximum is raised only by what was confirmed
lowered elsewhere, and replicas grow in one cluster only after they went in another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from controller.apply.member_hpas import MemberHpaWriter, NotOwned
from controller.apply.scales import Superseded, WritableScale, set_replicas
from controller.apply.template import Bound
from fedhpa.api.errors import ApiError, Conflict, FedHPAError
from fedhpa.api.member_hpas import V2, wanted_spec
from fedhpa.api.texts import listed
from fedhpa.api.wire import Scale
from fedhpa.assignment import TEMPLATE, Outcome, Result, SetBounds, SetScale, Write
from fedhpa.decision import ClusterScale, Snapshot, TemplateScale, WorkloadReading
from fedhpa.kube import Key, contain
from fedhpa.members import Member
from fedhpa.members.hpas import HpaReading

# A write of an HPA is a read and a change of the member.
REQUESTS: Final = 2
# The longest plan has ten batches. More would be an error of ours, which must not write for ever.
MAX_BATCHES: Final = 10

# Returns the writes that may be sent after these outcomes, all at once.
Batches: TypeAlias = Callable[[Sequence[Outcome]], Sequence[Write]]
Send: TypeAlias = Callable[[Write], Awaitable[None]]


@dataclass(frozen=True)
class WriteTargets:
    """The objects that writes depend on: the template's scale, or that of each member.

    `hub_problem` says why the hub could not serve what the snapshot needs; "" if it did.
    `hpas` are the HPAs of mode Distributed. `unselected` are the scales of clusters that have our HPA and are
    no longer selected. `bound` is the ResourceBinding with propagation karmada.
    """

    path: str = ""
    template: WritableScale | None = None
    members: Mapping[str, WritableScale] = field(default_factory=dict)
    hub_problem: str = ""
    hpas: Mapping[str, HpaReading] = field(default_factory=dict)
    unselected: Mapping[str, WritableScale] = field(default_factory=dict)
    bound: Bound | None = None

    @property
    def scales(self) -> dict[str, WritableScale]:
        """The scales that a plan may write, by cluster, or TEMPLATE."""
        template = {} if self.template is None else {TEMPLATE: self.template}
        return {**self.members, **self.unselected, **template}


def member_scales(
    workloads: Mapping[str, WorkloadReading],
    members: Mapping[str, Member],
    deadline: float,
    note: Callable[[Member, str, Scale], None],
) -> dict[str, WritableScale]:
    """The scales of these workloads, by cluster; `note` gets each newer state that a write returns.

    A cluster without a selector counts as not answering, so its replicas stay.
    """
    return {
        name: WritableScale(member.client, one.path, one.scale, deadline, partial(note, member, one.path))
        for name, one in workloads.items()
        if one.scale is not None and one.selector is not None and (member := members.get(name)) is not None
    }


class MemberScales:
    """The scales of an object's workloads, made anew only if a workload or a member differs."""

    def __init__(self) -> None:
        self._basis: object = None
        self._scales: Mapping[str, WritableScale] = {}

    def of(
        self,
        workloads: Mapping[str, WorkloadReading],
        members: Mapping[str, Member],
        deadline: float,
        note: Callable[[Member, str, Scale], None],
    ) -> Mapping[str, WritableScale]:
        """The scales as `member_scales` returns them."""
        basis = workloads, list(map(members.get, workloads))
        if basis != self._basis:
            self._basis, self._scales = basis, member_scales(workloads, members, deadline, note)
        return self._scales


def sizes_of(snapshot: Snapshot) -> dict[str, int]:
    """The sizes that this controller writes: that of the template, or those of the clusters."""
    if isinstance(snapshot.target, TemplateScale):
        return {TEMPLATE: snapshot.target.replicas}
    if snapshot.target is not None:
        return {}
    return {
        cluster.name: cluster.scale.spec_replicas
        for cluster in snapshot.clusters
        if type(cluster.scale) is ClusterScale
    }


async def carry_out(batches: Batches, send: Send, **about: str) -> tuple[Outcome, ...]:
    """Send the writes of a plan until it gives no more. Returns all of them with their results, in order.

    `about` are the fields of the log. Raises nothing.
    """
    outcomes: tuple[Outcome, ...] = ()
    for _ in range(MAX_BATCHES):
        batch = batches(outcomes)
        if not batch:
            break
        async with asyncio.TaskGroup() as group:  # the tasks never raise
            tasks = [
                group.create_task(
                    contain(
                        "write-scale" if isinstance(write, SetScale) else "write-member-hpa",
                        partial(_sent, send, write),
                        partial(_unknown, write),
                        cluster=write.cluster,
                        **about,
                    )
                )
                for write in batch
            ]
        outcomes += tuple(task.result() for task in tasks)
    return outcomes


async def _sent(send: Send, write: Write) -> Outcome:
    """Send one write. Its result is UNKNOWN if it may have been made without an answer."""
    try:
        await send(write)
    except FedHPAError as error:
        return Outcome(write=write, result=result_of(error), reason=str(error))
    return Outcome(write=write, result=Result.CONFIRMED)


def _unknown(write: Write, reason: str) -> Outcome:
    return Outcome(write=write, result=Result.UNKNOWN, reason=reason)


def result_of(error: FedHPAError) -> Result:
    """Returns REFUSED if the error says that nothing was changed, else UNKNOWN.

    A conflict changed nothing. A server error (5xx) and a missing answer leave the change unknown.
    """
    if isinstance(error, Superseded):
        return Result.SUPERSEDED
    if isinstance(error, NotOwned | Conflict):
        return Result.REFUSED
    if isinstance(error, ApiError) and 400 <= error.status < 500:
        return Result.REFUSED
    return Result.UNKNOWN


def failures(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Returns the writes that were not confirmed. Those that somebody else came before are the last."""
    failed = [one for one in outcomes if one.result is not Result.CONFIRMED]
    return sorted(failed, key=lambda one: one.result is Result.SUPERSEDED)


def written_scales(outcomes: Sequence[Outcome]) -> dict[str, int]:
    """Returns the replicas that were written, by cluster."""
    return {
        one.write.cluster: one.write.replicas
        for one in outcomes
        if isinstance(one.write, SetScale) and one.result is Result.CONFIRMED
    }


def error_of(outcomes: Sequence[Outcome]) -> str:
    """Returns the first failure for people, with the scales that were written all the same; "" if none."""
    failed = failures(outcomes)
    if not failed:
        return ""
    first, written = failed[0], written_scales(outcomes)
    if first.write.cluster == TEMPLATE:
        return first.reason
    text = f"cluster {first.write.cluster!r}: {first.reason}"
    if not written or not isinstance(first.write, SetScale) or first.result is Result.SUPERSEDED:
        return text
    shares = [f"{name}: {replicas}" for name, replicas in sorted(written.items())]
    return f"{text}; written all the same: {listed(shares)}"


def to_scales(scales: Mapping[str, WritableScale], *, manager: str = "", strict: bool = False) -> Send:
    """Returns what sends writes of these scales. `strict` is that of `set_replicas`."""

    async def send(write: Write) -> None:
        assert isinstance(write, SetScale), write
        await set_replicas(scales[write.cluster], write.replicas, manager=manager, strict=strict)

    return send


def to_hpas(
    writer: MemberHpaWriter,
    key: Key,
    deadline: float,
    spec: Mapping[str, Any] = MappingProxyType({}),
    readings: Mapping[str, HpaReading] = MappingProxyType({}),
) -> Send:
    """Returns what sends writes of an object's member HPAs. `deadline` are the seconds of one request.

    `spec` is that of the FederatedHPA, and `readings` are the HPAs as they were read.
    """

    async def send(write: Write) -> None:
        try:
            async with asyncio.timeout(REQUESTS * deadline) as late:
                await send_hpa(write)
        except TimeoutError as error:
            if not late.expired():
                raise
            raise FedHPAError(f"no answer within {REQUESTS * deadline:g} s") from error

    async def send_hpa(write: Write) -> None:
        reading = readings.get(write.cluster)
        version = V2 if reading is None else reading.api_version
        if isinstance(write, SetBounds) and write.after is not None:
            least, most = write.after.minimum, write.after.maximum
            await writer.apply(write.cluster, key, wanted_spec(spec, least, most, version), version)
        else:
            await writer.delete(write.cluster, key)

    return send
