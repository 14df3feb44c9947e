"""The registry of members: one `Member` for each Cluster on the hub.

Clusters are watched as a collection. Each Secret that a Cluster names is watched on its own, with a field
selector on its name, so that permissions for exactly these Secrets are enough.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import structlog

from fedhpa.api.cluster_finalizers import own_finalizers
from fedhpa.api.default_values import MEMBER_DEADLINE_SECONDS
from fedhpa.api.errors import ApiError, FedHPAError, InvalidObject
from fedhpa.api.identity import Claim, duplicates_of
from fedhpa.kube import (
    NOT_FOUND,
    ApiClient,
    Backoff,
    Change,
    Clock,
    Reflector,
    report_failure,
    resource_path,
    supervise,
)
from fedhpa.members.cluster import (
    CLUSTERS_PATH,
    Access,
    ClientLimits,
    Cluster,
    Secret,
    SecretData,
    metrics_key,
    read_access,
    secret_data,
    secret_key,
)
from fedhpa.members.member import PROBE_SECONDS, Member

log = structlog.get_logger(__name__)

# A member is looked at again so long after the deadline of its first answer.
GRACE_SECONDS = 0.1
# After 401s a Secret is read again at most this often.
REREAD_SECONDS = 1.0
SECRET_BACKOFF_SECONDS = (0.5, 10.0)
# A Cluster whose access could not be applied, for an unexpected reason, is applied again after this.
RETRY_SECONDS = (1.0, 60.0)

SecretKey = tuple[str, str]


@dataclass
class _SecretWatch:
    """One watched Secret and the members that use it."""

    key: SecretKey
    reflector: Reflector[SecretData]
    task: asyncio.Task[None]
    users: set[str] = field(default_factory=set)
    # The data of a read after a 401, valid until the watch delivers a change.
    reread: SecretData | None = None
    reread_at: float = float("-inf")
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def data(self) -> SecretData | None:
        """The newest content of the Secret; None if it does not exist or is not known."""
        return self.reread or next(iter(self.reflector.store.values()), None)


class MemberRegistry:
    """Keeps `members` equal to the hub's Clusters while `run` runs.

    `deadline` is the deadline of each call to a member, in seconds. `qps` and `burst` limit the calls to each
    member; qps 0 means no limit. With `reads_metrics` a member is reached with the token that only reads
    metrics, where there is one that the hub lets us have.
    """

    def __init__(
        self,
        hub: ApiClient,
        *,
        deadline: float = MEMBER_DEADLINE_SECONDS,
        probe_period: float = PROBE_SECONDS,
        qps: float = 0.0,
        burst: int = 0,
        reads_metrics: bool = False,
        clock: Clock,
    ) -> None:
        self._hub = hub
        self._reads_metrics = reads_metrics
        self._deadline = deadline
        self._probe_period = probe_period
        self._limits = ClientLimits(qps, burst)
        self._clock = clock.monotonic
        self._wall = clock.wall
        self._clusters = Reflector(
            hub, CLUSTERS_PATH, Cluster, _registered, name="clusters", clock=clock.monotonic
        )
        self._clusters.subscribe(lambda change: self._touch(change.key[1]))
        self._registered: dict[str, Member] = {}
        # The registered members, parted by whether they count.
        self._members: dict[str, Member] = {}
        self._duplicates: dict[str, Member] = {}
        self._claims: dict[str, Claim] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._secrets: dict[SecretKey, _SecretWatch] = {}
        self._listeners: list[Callable[[str], None]] = []
        self._dirty: set[str] = set()
        self._changed = asyncio.Event()
        self._applying = asyncio.Lock()
        self._retries: dict[str, Backoff] = {}

    @property
    def members(self) -> Mapping[str, Member]:
        """The registered clusters, each under one name only; a live view.

        A Cluster that is being deleted is there while a finalizer of ours holds it. A name counts from its
        member's first answer on, or when that is overdue.
        """
        return MappingProxyType(self._members)

    @property
    def staying(self) -> Mapping[str, Member]:
        """The `members` whose Clusters are not being deleted."""
        return {name: member for name, member in self._members.items() if not member.known.deleted}

    @property
    def duplicates(self) -> Mapping[str, Member]:
        """The other names of these clusters, each with the member that stands back; a live view."""
        return MappingProxyType(self._duplicates)

    @property
    def registered(self) -> Mapping[str, Member]:
        """The registered names, with those that do not count; a live view."""
        return MappingProxyType(self._registered)

    @property
    def problem(self) -> str | None:
        """The reason why the list of Clusters may be out of date; None if it is not."""
        problem = self._clusters.problem
        return None if problem is None else f"listing {CLUSTERS_PATH}: {problem}"

    @property
    def unlisted(self) -> str | None:
        """The reason why nobody knows the Clusters yet; None once the hub has listed them."""
        if self._clusters.synced.is_set():
            return None
        return self.problem or f"{CLUSTERS_PATH} is not listed yet"

    def synced(self) -> bool:
        """Returns True once the Clusters are listed and each member has answered or failed to in time."""
        return (
            self._clusters.synced.is_set()
            and not self._dirty
            and not self._applying.locked()
            and len(self._registered) == len(self._members) + len(self._duplicates)
        )

    def subscribe(self, listener: Callable[[str], None]) -> Callable[[], None]:
        """Call `listener` with the name of each member that is added, removed, or changes its state.

        Returns the function that unsubscribes it.
        """
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def run(self) -> None:
        """Follow the hub until cancelled, then close all connections to members."""
        async with asyncio.TaskGroup() as group:
            group.create_task(supervise("clusters-watch", self._clusters.run))
            while True:
                await self._changed.wait()
                self._changed.clear()
                while self._dirty:
                    async with self._applying:
                        await self._apply_safely(self._dirty.pop(), group)

    def _touch(self, name: str) -> None:
        self._dirty.add(name)
        self._changed.set()

    def _notify(self, name: str) -> None:
        self._recount(name)
        for listener in tuple(self._listeners):
            try:
                listener(name)
            except Exception as error:
                report_failure("member-listener", error, cluster=name)

    def _recount(self, name: str) -> None:
        """Bring `members` and `duplicates` up to date after a change of one name."""
        member, before = self._registered.get(name), self._claims.pop(name, None)
        if member is not None:
            created = member.cluster.metadata.creationTimestamp or ""
            self._claims[name] = Claim(name, member.uid, member.answers, created)
        if before == self._claims.get(name) and (name in self._members or name in self._duplicates):
            return
        found = duplicates_of(self._claims.values())
        for each, one in tuple(self._registered.items()):
            other = found.get(each, "")
            if other:
                self._members.pop(each, None)
                self._duplicates[each] = one
            elif self._duplicates.pop(each, None) is not None or one.settled:
                self._members[each] = one
            if one.same_as != other:
                one.stand_back(other)

    async def _apply_safely(self, name: str, group: asyncio.TaskGroup) -> None:
        """Apply one Cluster. A failure makes only this member unready, and is tried again after a while."""
        try:
            await self._apply(name, group)
        except Exception as error:
            member = self._registered.get(name)
            report_failure(
                "member-access", error, on_failure=member.fail if member is not None else None, cluster=name
            )
            retry = self._retries.setdefault(name, Backoff(*RETRY_SECONDS))
            asyncio.get_running_loop().call_later(retry.next(), self._touch, name)
        else:
            self._retries.pop(name, None)

    async def _apply(self, name: str, group: asyncio.TaskGroup) -> None:
        cluster = self._clusters.store.get(("", name))
        if cluster is None:
            self._remove(name)
            return
        member = self._registered.get(name)
        if member is None:
            member = self._add(cluster, group)
        access, pending = _access_of(cluster, self._watch_secrets(cluster, group))
        await member.observe(cluster, access, pending=pending)
        self._notify(name)

    def _add(self, cluster: Cluster, group: asyncio.TaskGroup) -> Member:
        name = cluster.metadata.name
        member = Member(
            cluster,
            deadline=self._deadline,
            probe_period=self._probe_period,
            reread=lambda: self._reread(name),
            on_change=lambda: self._notify(name),
            limits=self._limits,
            connector=self._hub.config.connector,  # members are reached the way the hub is
            clock=self._clock,
            wall=self._wall,
        )
        self._registered[name] = member
        self._recount(name)
        asyncio.get_running_loop().call_later(self._deadline + GRACE_SECONDS, self._notify, name)
        self._tasks[name] = group.create_task(member.run())
        log.info("member registered", cluster=name)
        return member

    def _remove(self, name: str) -> None:
        member = self._registered.pop(name, None)
        if member is None:
            return
        self._members.pop(name, None)
        self._duplicates.pop(name, None)
        member.closed = True
        self._tasks.pop(name).cancel()
        self._release_secrets(name, keep=())
        log.info("member deregistered", cluster=name)
        self._notify(name)

    def _watch_secrets(self, cluster: Cluster, group: asyncio.TaskGroup) -> list[_SecretWatch]:
        """Returns the watches of a cluster's Secrets, the preferred one first."""
        name, keys = cluster.metadata.name, self._secret_keys(cluster)
        self._release_secrets(name, keep=keys)
        for key in keys:
            if key not in self._secrets:
                self._secrets[key] = self._follow_secret(key, group)
            self._secrets[key].users.add(name)
        return [self._secrets[key] for key in keys]

    def _secret_keys(self, cluster: Cluster) -> list[SecretKey]:
        keys = (metrics_key(cluster) if self._reads_metrics else None, secret_key(cluster))
        return [key for key in keys if key is not None]

    def _follow_secret(self, key: SecretKey, group: asyncio.TaskGroup) -> _SecretWatch:
        def touch_users() -> None:
            for user in watch.users:
                self._touch(user)

        def changed(_: Change[SecretData]) -> None:
            watch.reread = None
            touch_users()

        reflector = Reflector(
            self._hub,
            resource_path("v1", "secrets", key[0]),
            Secret,
            secret_data,
            field_selector=f"metadata.name={key[1]}",
            name=f"secret {key[0]}/{key[1]}",
            backoff=Backoff(*SECRET_BACKOFF_SECONDS),
            # Members that wait for this Secret are updated after an empty list and a refusal, too.
            on_problem=lambda _: touch_users(),
            clock=self._clock,
        )
        task = group.create_task(supervise("secret-watch", reflector.run, namespace=key[0], name=key[1]))
        watch = _SecretWatch(key, reflector, task)
        reflector.subscribe(changed)
        return watch

    def _release_secrets(self, user: str, *, keep: Collection[SecretKey]) -> None:
        for key, watch in tuple(self._secrets.items()):
            if key in keep or user not in watch.users:
                continue
            watch.users.discard(user)
            if not watch.users:
                watch.task.cancel()
                del self._secrets[key]

    async def _reread(self, name: str) -> None:
        """Read a member's Secret again after its token was refused, and apply it."""
        member = self._registered.get(name)
        if member is None:
            return
        keys = self._secret_keys(member.cluster)
        watches = [watch for key in keys if (watch := self._secrets.get(key)) is not None]
        if not watches:
            return
        watch = next((one for one in watches if one.data is not None), watches[-1])
        namespace, secret_name = watch.key
        async with watch.lock:
            if self._clock() - watch.reread_at < REREAD_SECONDS:
                return
            watch.reread_at = self._clock()
            path = resource_path("v1", "secrets", namespace, secret_name)
            try:
                secret = await self._hub.get(path, Secret, deadline=self._deadline)
            except FedHPAError as error:
                absent = isinstance(error, ApiError) and error.status == NOT_FOUND
                log.debug("secret not read again", cluster=name, absent=absent, error=str(error))
                return
            except Exception as error:
                report_failure("secret-read", error, cluster=name, namespace=namespace, name=secret_name)
                return
            watch.reread = secret_data(secret)
            # Under the lock, so that other calls that got a 401 wait for the new token.
            async with self._applying:
                if not member.closed:
                    access, pending = _access_of(member.cluster, watches)
                    await member.observe(member.cluster, access, pending=pending)


def _registered(cluster: Cluster) -> Cluster | None:
    """Returns the Cluster, None if it is being deleted. One that our finalizers hold is still needed."""
    metadata = cluster.metadata
    return None if metadata.deletionTimestamp and not own_finalizers(metadata.finalizers) else cluster


def _access_of(cluster: Cluster, watches: Sequence[_SecretWatch]) -> tuple[Access | str, bool]:
    """Returns the access to a cluster, or why there is none; and True if its Secret is not listed yet.

    A Secret that does not exist, or that we may not read, leaves the choice to the next one.
    """
    for watch in watches:
        last = watch is watches[-1]
        if watch.data is None and not watch.reflector.synced.is_set():
            if watch.reflector.failures and not last:
                continue
            return f"its secret cannot be read: {watch.reflector.problem}", watch.reflector.failures == 0
        if watch.data is None and not last:
            continue
        try:
            return read_access(cluster, watch.data, watch.key), False
        except InvalidObject as error:
            return str(error), False
    try:
        return read_access(cluster, None), False
    except InvalidObject as error:
        return str(error), False
