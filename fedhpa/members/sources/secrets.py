"""Watches of single Secrets, each by its name, so that rights to exactly these Secrets suffice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

import structlog

from fedhpa.api.errors import FedHPAError
from fedhpa.kube import (
    ApiClient,
    Backoff,
    Change,
    Reflector,
    report_failure,
    resource_path,
    supervise,
)
from fedhpa.members.cluster import Secret
from fedhpa.members.sources.source import Changes

log = structlog.get_logger(__name__)

# After 401s a Secret is read again at most this often.
REREAD_SECONDS: Final = 1.0
SECRET_BACKOFF_SECONDS: Final = (0.5, 10.0)

SecretKey = tuple[str, str]
D = TypeVar("D")


async def read_again(
    hub: ApiClient, key: SecretKey, kind: type[D], deadline: float, *, cluster: str
) -> D | None:
    """Returns a Secret that is read again after a 401; None if it cannot be read, which its watch reports."""
    namespace, name = key
    try:
        return await hub.get(resource_path("v1", "secrets", namespace, name), kind, deadline=deadline)
    except FedHPAError as error:
        log.debug("secret not read again", cluster=cluster, error=str(error))
    except Exception as error:
        report_failure("secret-read", error, cluster=cluster, namespace=namespace, name=name)
    return None


@dataclass
class SecretWatch(Generic[D]):
    """One watched Secret and the members that use it."""

    key: SecretKey
    reflector: Reflector[D]
    task: asyncio.Task[None]
    users: set[str] = field(default_factory=set)
    # The data of a read after a 401, valid until the watch delivers a change.
    reread: D | None = None
    reread_at: float = float("-inf")
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def data(self) -> D | None:
        """The newest content of the Secret; None if it does not exist or is not known."""
        return self.reread or next(iter(self.reflector.store.values()), None)


class SecretWatches(Generic[D]):
    """Watches the Secrets that members use, while the task group of `within` runs.

    `read` makes the data of a Secret. `changed` is called with each member whose Secret has changed.
    """

    def __init__(
        self,
        hub: ApiClient,
        read: Callable[[Secret], D],
        changed: Changes,
        *,
        deadline: float,
        clock: Callable[[], float],
    ) -> None:
        self._hub = hub
        self._read = read
        self._touch = changed
        self._deadline = deadline
        self._clock = clock
        self._watches: dict[SecretKey, SecretWatch[D]] = {}
        self._group: asyncio.TaskGroup | None = None

    def within(self, group: asyncio.TaskGroup) -> None:
        """Start the tasks of the watches in this group."""
        self._group = group

    def use(self, name: str, keys: Sequence[SecretKey]) -> list[SecretWatch[D]]:
        """Returns the watches of a member's Secrets in the order of the keys."""
        self.release(name, keep=keys)
        for key in keys:
            if key not in self._watches:
                self._watches[key] = self._follow(key)
            self._watches[key].users.add(name)
        return [self._watches[key] for key in keys]

    def known(self, keys: Sequence[SecretKey]) -> list[SecretWatch[D]]:
        """Returns the watches of these Secrets that there are."""
        return [watch for key in keys if (watch := self._watches.get(key)) is not None]

    def release(self, user: str, *, keep: Collection[SecretKey] = ()) -> None:
        """End the watches that only this member uses, but for those of `keep`."""
        for key, watch in tuple(self._watches.items()):
            if key in keep or user not in watch.users:
                continue
            watch.users.discard(user)
            if not watch.users:
                watch.task.cancel()
                del self._watches[key]

    async def reread(
        self, user: str, keys: Sequence[SecretKey], apply: Callable[[], Awaitable[None]]
    ) -> None:
        """Read the Secret of a member again after its token was refused, and call `apply`."""
        watches = self.known(keys)
        if not watches:
            return
        watch = next((one for one in watches if one.data is not None), watches[-1])
        async with watch.lock:
            if self._clock() - watch.reread_at < REREAD_SECONDS:
                return
            watch.reread_at = self._clock()
            secret = await read_again(self._hub, watch.key, Secret, self._deadline, cluster=user)
            if secret is None:
                return
            watch.reread = self._read(secret)
            # Under the lock, so that other calls that got a 401 wait for the new token.
            await apply()

    def _follow(self, key: SecretKey) -> SecretWatch[D]:
        def touch_users() -> None:
            for user in watch.users:
                self._touch(user)

        def changed(_: Change[D]) -> None:
            watch.reread = None
            touch_users()

        reflector: Reflector[D] = Reflector(
            self._hub,
            resource_path("v1", "secrets", key[0]),
            Secret,
            self._read,
            field_selector=f"metadata.name={key[1]}",
            name=f"secret {key[0]}/{key[1]}",
            backoff=Backoff(*SECRET_BACKOFF_SECONDS),
            # Members that wait for this Secret are updated after an empty list and a refusal, too.
            on_problem=lambda _: touch_users(),
            clock=self._clock,
        )
        assert self._group is not None, "records come only while the source runs"
        task = self._group.create_task(
            supervise("secret-watch", reflector.run, namespace=key[0], name=key[1])
        )
        watch = SecretWatch(key, reflector, task)
        reflector.subscribe(changed)
        return watch
