"""Checks each member step by step, with the hub's own credentials for it. Members are read concurrently."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

import msgspec

from fedhpa.api import rights
from fedhpa.api.autoscalers import StoredAutoscaler
from fedhpa.api.cluster_finalizers import own_finalizers
from fedhpa.api.errors import InvalidObject
from fedhpa.api.identity import IDENTITY_PATH, IdentityNamespace, valid_uid
from fedhpa.api.membership import CLUSTER_LABEL, RENEWED, RENEWED_VALUE, SECRET_ANNOTATION
from fedhpa.api.rights import Switches
from fedhpa.api.taints import OWN_TAINTS
from fedhpa.api.times import parse_time
from fedhpa.api.tokens import life_of
from fedhpa.doctor.observations import Cause, Certificate, Member, Problem, Token
from fedhpa.doctor.reading.accounts import needed, rights_of
from fedhpa.doctor.reading.certificates import from_pem
from fedhpa.doctor.reading.session import Session, date_of
from fedhpa.kube import ApiClient, Response, StaticCredentials, resource_path
from fedhpa.kube.config import ConnectorFactory
from fedhpa.members import (
    METRICS_API,
    NO_LIMITS,
    OWN_REASONS,
    READY,
    Access,
    Cluster,
    Secret,
    api_config,
    read_access,
    secret_data,
    secret_key,
)

HPAS: Final = resource_path("autoscaling/v2", "horizontalpodautoscalers")
# Namespaces whose usage shows if samples are fresh.
MAX_NAMESPACES: Final = 3
# Members that are followed at the same time.
MAX_CONCURRENT: Final = 32


class _Sample(msgspec.Struct, frozen=True):
    timestamp: str | None = None


class _Samples(msgspec.Struct, frozen=True):
    items: list[_Sample] | None = None


class _Version(msgspec.Struct, frozen=True):
    gitVersion: str = ""


class FollowedMember(msgspec.Struct):
    """A member that was followed. `session` is None if its API server could not be used."""

    observed: Member
    session: Session | None = None
    autoscalers: tuple[StoredAutoscaler, ...] | Problem = ()
    certificates: tuple[Certificate, ...] = ()


class MemberReader:
    """Follows members with a deadline of `seconds` for each answer. Its clients stay open until it closes.

    `namespaces` are those of the FederatedHPAs. `switches` and `workloads`, the kinds of their targets,
    decide about the rights that the token needs.
    `hub_skew` is the hub's clock minus ours, in seconds.
    """

    def __init__(
        self,
        hub: Session,
        *,
        namespaces: Sequence[str],
        switches: Switches,
        workloads: Collection[str],
        hub_skew: float,
        wall: Callable[[], float],
        connector: ConnectorFactory | None = None,
    ) -> None:
        self._hub = hub
        self._namespaces = namespaces[:MAX_NAMESPACES]
        self._rights = needed(rights_of(rights.member_rights(switches=switches)), workloads)
        self._hub_skew = hub_skew
        self._wall = wall
        self._connector = connector
        self._slots = asyncio.Semaphore(MAX_CONCURRENT)
        self._open = AsyncExitStack()

    async def close(self) -> None:
        """Closes the connections to the members."""
        await self._open.aclose()

    async def follow(self, cluster: Cluster) -> FollowedMember:
        """Follows one member as far as it goes. Never raises, because a member is nobody else's concern."""
        name = self._hub.line(cluster.metadata.name)
        async with self._slots:
            try:
                found = await self._follow(name, cluster)
            except Exception as error:
                problem = self._hub.problem(error)
                found = FollowedMember(Member(name, _shown(cluster) or "unknown", problem=problem))
            uid = await _uid(found.session) or valid_uid(cluster.spec.id)
            created = self._hub.line(cluster.metadata.creationTimestamp or "", 64)
            own = {taint.key for taint in cluster.spec.taints or ()} & OWN_TAINTS
            found.observed = msgspec.structs.replace(
                found.observed,
                uid=uid,
                created=created,
                own_taints=tuple(sorted(own)),
                deleted=_deleted(cluster),
            )
            return found

    async def _follow(self, name: str, cluster: Cluster) -> FollowedMember:
        key = secret_key(cluster)
        annotated = SECRET_ANNOTATION in (cluster.metadata.annotations or {})
        if key is None:
            return FollowedMember(Member(name, is_annotated=annotated))
        shown = self._hub.line(_shown(cluster))
        secret = await self._hub.get(resource_path("v1", "secrets", *key), Secret)
        if isinstance(secret, Problem):
            return FollowedMember(Member(name, shown, annotated, secret_problem=secret))
        owner = self._hub.line((secret.metadata.labels or {}).get(CLUSTER_LABEL, ""), 64)
        known = Member(name, shown, annotated, owner)
        try:
            access = read_access(cluster, secret_data(secret))
            session = await self._session(name, access)
        except InvalidObject as error:
            error_text = self._hub.line(str(error))
            return FollowedMember(msgspec.structs.replace(known, access_error=error_text))
        certificates = from_pem(f"member {name} caBundle", (access.ca_bundle or "").encode())
        endpoint = session.line(access.endpoint)
        begun = self._wall()
        answer = await session.request("GET", "/readyz")
        skew = self._skew(answer, begun)
        # A token that may not read /readyz lacks a right, which says nothing about the member's health.
        problem = answer if isinstance(answer, Problem) and answer.cause is not Cause.FORBIDDEN else None
        problem = problem or self._written_by_others(cluster)
        member = msgspec.structs.replace(
            known, token=_token(access.token, secret), endpoint=endpoint, problem=problem, skew=skew
        )
        if problem is not None:
            return FollowedMember(member, None, (), tuple(certificates))
        missing, autoscalers, metrics, version = await asyncio.gather(
            session.lacking(self._rights),
            session.list(HPAS, StoredAutoscaler),
            self._metrics(session),
            session.get("/version", _Version, kind=""),
        )
        member = msgspec.structs.replace(
            member,
            missing=missing,
            metrics_problem=metrics if isinstance(metrics, Problem) else None,
            sampled=None if isinstance(metrics, Problem) else metrics,
            version="" if isinstance(version, Problem) else session.line(version.gitVersion, 64),
        )
        return FollowedMember(member, session, autoscalers, tuple(certificates))

    async def _session(self, name: str, access: Access) -> Session:
        config = api_config(
            name, access, StaticCredentials(f"Bearer {access.token}"), NO_LIMITS, self._connector
        )
        client = await self._open.enter_async_context(ApiClient(config, deadline=self._hub.seconds))
        return Session(client, self._hub.seconds, secret=f"Bearer {access.token}")

    def _skew(self, answer: Response | Problem, begun: float) -> float | None:
        """Returns the member's clock minus the hub's; None without a date."""
        date = None if isinstance(answer, Problem) else date_of(answer)
        return None if date is None else date - (begun + self._wall()) / 2 - self._hub_skew

    def _written_by_others(self, cluster: Cluster) -> Problem | None:
        """Returns a problem if another controller, such as Karmada's, says that the cluster is not ready."""
        ready = cluster.condition(READY)
        if ready is None or ready.status == "True" or ready.reason in OWN_REASONS:
            return None
        text = f"its condition Ready is {ready.status}: {ready.reason} {ready.message}"
        return Problem(Cause.FAILED, self._hub.line(text))

    async def _metrics(self, session: Session) -> float | Problem | None:
        """Returns the age of the newest usage by the member's own clock, in seconds; None without usage."""
        paths = [resource_path(METRICS_API, "pods", each) for each in self._namespaces]
        paths.append(resource_path(METRICS_API, "nodes"))
        answers = await asyncio.gather(*(session.request("GET", path) for path in paths))
        ages: list[float] = []
        for answer in answers:
            if isinstance(answer, Problem):
                return answer
            try:
                ages += _ages(answer)
            except Exception as error:
                return session.problem(error)
        return min(ages, default=None)


async def _uid(session: Session | None) -> str:
    """Returns the UID of the cluster as it answers; "" without a usable answer."""
    answer = None if session is None else await session.get(IDENTITY_PATH, IdentityNamespace)
    return valid_uid(answer.metadata.uid) if isinstance(answer, IdentityNamespace) else ""


def _deleted(cluster: Cluster) -> float | None:
    """Returns when a Cluster was deleted that our finalizers keep; None for others."""
    metadata = cluster.metadata
    try:
        return parse_time(metadata.deletionTimestamp) if own_finalizers(metadata.finalizers) else None
    except InvalidObject:
        return None


def _shown(cluster: Cluster) -> str:
    """Returns NAMESPACE/NAME of the Secret; "" if the Cluster names none."""
    return "/".join(secret_key(cluster) or ())


def _token(token: str, secret: Secret) -> Token | None:
    """Returns the life of a stored token; None if neither the token nor the Secret tells it."""
    life = life_of(token, secret.metadata.annotations or {})
    if life is None:
        return None
    return Token(*life, (secret.metadata.labels or {}).get(RENEWED) == RENEWED_VALUE)


def _ages(answer: Response) -> list[float]:
    """Returns the ages of the samples in an answer, by the server's clock. Raises what decoding raises."""
    now = date_of(answer)
    if now is None:
        return []
    times = [each.timestamp for each in answer.decode(_Samples).items or ()]
    return [now - (parse_time(each) or 0.0) for each in times if each is not None]


@asynccontextmanager
async def closing(reader: MemberReader) -> AsyncIterator[MemberReader]:
    """Closes the reader at the end."""
    try:
        yield reader
    finally:
        await reader.close()
