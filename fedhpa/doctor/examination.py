"""Reads a whole installation: the hub, then everything behind it, with a deadline for each answer."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Final

import msgspec

from fedhpa.api.rights import NAMESPACE, Switches
from fedhpa.doctor.observations import Cause, Certificate, Hub, Leadership, Observation, Problem
from fedhpa.doctor.reading.accounts import Wanted, read_rights
from fedhpa.doctor.reading.admission import read_admission
from fedhpa.doctor.reading.aggregation import read_aggregation
from fedhpa.doctor.reading.definitions import read_definitions
from fedhpa.doctor.reading.leadership import read_leadership
from fedhpa.doctor.reading.members import FollowedMember, MemberReader, closing
from fedhpa.doctor.reading.objects import (
    Listed,
    ObjectReader,
    distributes,
    is_recent,
    propagation_of,
    read_lists,
    targets_of,
)
from fedhpa.doctor.reading.session import Session, date_of
from fedhpa.kube import ApiClient, Clock
from fedhpa.kube.config import ConnectorFactory
from fedhpa.members import CLUSTERS_PATH, Cluster, secret_key

# A healthy server answers within this. A hung member costs it once.
ANSWER_SECONDS: Final = 3.0
# Clusters that one run follows.
MAX_CLUSTERS: Final = 1_000


class _Version(msgspec.Struct, frozen=True):
    gitVersion: str = ""


async def examine(
    client: ApiClient,
    *,
    namespace: str = NAMESPACE,
    seconds: float = ANSWER_SECONDS,
    clock: Clock,
    connector: ConnectorFactory | None = None,
) -> Observation:
    """Returns what the caller of `client` can see of an installation in `namespace`. Never raises ApiError.

    `seconds` is the deadline of each answer. `connector` makes the connections to the members.
    """
    credential = await _credential(client)
    if isinstance(credential, Problem):
        return Observation(clock.wall(), Hub(server=client.config.server, problem=credential))
    hub = Session(client, seconds, secret=credential)
    observed = await _hub(hub, clock.wall)
    if observed.problem is not None:
        return Observation(clock.wall(), observed)
    now = clock.wall() + (observed.skew or 0.0)
    clusters, listed, leadership = await asyncio.gather(
        hub.list(CLUSTERS_PATH, Cluster), read_lists(hub), read_leadership(hub, namespace, now)
    )
    namespaces, workloads = targets_of(listed)
    reader = MemberReader(
        hub,
        namespaces=namespaces,
        switches=_switches_of_members(listed),
        workloads=workloads,
        hub_skew=observed.skew or 0.0,
        wall=clock.wall,
        connector=connector,
    )
    known = () if isinstance(clusters, Problem) else clusters[:MAX_CLUSTERS]
    async with closing(reader):
        followed, definitions, admission, aggregation, accounts = await asyncio.gather(
            asyncio.gather(*(reader.follow(each) for each in known)),
            read_definitions(hub, not isinstance(clusters, Problem)),
            read_admission(hub, namespace),
            read_aggregation(hub, namespace),
            read_rights(hub, _wanted(namespace, listed, leadership, known)),
        )
        objects = await ObjectReader(hub, followed, now, clock.monotonic).read(listed)
    return Observation(
        now,
        observed,
        namespace,
        accounts,
        definitions,
        admission[0],
        aggregation[0],
        clusters if isinstance(clusters, Problem) else tuple(each.observed for each in followed),
        objects,
        msgspec.structs.replace(leadership, is_deciding=_is_deciding(listed, now)),
        (*admission[1], *aggregation[1], *_of_members(followed)),
    )


async def _credential(client: ApiClient) -> str | Problem:
    """Returns the caller's Authorization header, which no text may contain."""
    try:
        return await client.config.credentials.authorization() or ""
    except Exception as error:  # an exec plugin may fail in any way
        return Problem(Cause.UNAUTHORIZED, Session(client, 0.0).problem(error).text)


async def _hub(hub: Session, wall: Callable[[], float]) -> Hub:
    server = hub.line(hub.client.config.server)
    begun = wall()
    answer = await hub.request("GET", "/version")
    if isinstance(answer, Problem):
        return Hub(server=server, problem=answer)
    date = date_of(answer)
    skew = None if date is None else date - (begun + wall()) / 2
    try:
        version = hub.line(answer.decode(_Version).gitVersion, 64)
    except Exception as error:
        return Hub(server=server, problem=hub.problem(error))
    return Hub(server=server, skew=skew, version=version)


def _propagation(listed: Listed) -> str:
    """Returns the propagation of most objects; "" if none has a decision."""
    if isinstance(listed.federated, Problem):
        return ""
    counts = Counter(filter(None, map(propagation_of, listed.federated)))
    return counts.most_common(1)[0][0] if counts else ""


def _switches_of_members(listed: Listed) -> Switches:
    """Returns the switches of the rights that the hub's tokens need in members."""
    if _propagation(listed) != "direct" or isinstance(listed.federated, Problem):
        return Switches("karmada")
    return Switches("direct", distributed=any(map(distributes, listed.federated)))


def _wanted(namespace: str, listed: Listed, leadership: Leadership, clusters: tuple[Cluster, ...]) -> Wanted:
    secrets: dict[str, list[str]] = {}
    for place, name in sorted(filter(None, map(secret_key, clusters))):
        secrets.setdefault(place, []).append(name)
    leases = () if isinstance(leadership.leases, Problem) else leadership.leases
    # A controller that stopped released its Lease, which still shows where the next one looks.
    newest = min(leases, key=lambda each: float("inf") if each.age is None else each.age, default=None)
    leases_in = namespace if newest is None else newest.namespace
    names = {place: tuple(found) for place, found in secrets.items()}
    return Wanted(namespace, leases_in, _propagation(listed), names, targets_of(listed)[1])


def _is_deciding(listed: Listed, now: float) -> bool:
    return not isinstance(listed.federated, Problem) and any(is_recent(raw, now) for raw in listed.federated)


def _of_members(followed: list[FollowedMember]) -> list[Certificate]:
    return [certificate for each in followed for certificate in each.certificates]
