"""The interface of a source of members to the registry, and what all sources do alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, TypeVar

import msgspec
import structlog

from fedhpa.api.errors import FedHPAError
from fedhpa.kube import ApiClient, Backoff, Reflector, report_failure, resource_path
from fedhpa.members.cluster import Access, Cluster, ClusterSpec

if TYPE_CHECKING:
    from fedhpa.members.sources.notes import MemberNotes

log = structlog.get_logger(__name__)

D = TypeVar("D")
R = TypeVar("R")

# After 401s a Secret is read again at most this often.
REREAD_SECONDS: Final = 1.0

# Called with the name of each member whose record or access may have changed.
Changes = Callable[[str], None]


def named_object(
    hub: ApiClient,
    plural: str,
    namespace: str,
    name: str,
    kind: type[D],
    read: Callable[[D], R],
    *,
    backoff: Backoff | None = None,
    on_problem: Callable[[str | None], None] | None = None,
    clock: Callable[[], float],
) -> Reflector[R]:
    """Returns a reflector of one core/v1 object, for which rights to exactly this object suffice."""
    return Reflector(
        hub,
        resource_path("v1", plural, namespace),
        kind,
        read,
        field_selector=f"metadata.name={name}",
        name=f"{plural.removesuffix('s')} {namespace}/{name}",
        backoff=backoff,
        on_problem=on_problem,
        clock=clock,
    )


async def read_again(
    hub: ApiClient, key: tuple[str, str], kind: type[D], deadline: float, *, cluster: str
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


class Found(NamedTuple):
    """The access to a cluster, or why there is none; `pending` while that is not known yet."""

    access: Access | str
    pending: bool = False


class Source(ABC):
    """Objects of one kind on the hub that register clusters.

    `followed` are the lists of the objects, each with its name in errors. With `any_list` one of them
    suffices. `notes` has what the hub notes about the members; None where their own objects have it.
    """

    # The name of the source in --members-from.
    kind: ClassVar[str]

    def __init__(
        self,
        followed: Sequence[tuple[str, Reflector[Any]]],
        notes: MemberNotes | None = None,
        *,
        any_list: bool = False,
    ) -> None:
        self._followed, self._notes, self._any_list = followed, notes, any_list

    @property
    def problem(self) -> str | None:
        """The reason why the records may be out of date; None if they are not."""
        found = [f"listing {what}: {one.problem}" for what, one in self._followed if one.problem is not None]
        if found and (not self._any_list or len(found) == len(self._followed)):
            return found[0]
        return None if self._notes is None else self._notes.problem

    @property
    def listed(self) -> bool:
        """True once the hub has listed the objects, and shown what is noted about their clusters."""
        lists = [one for _, one in self._followed]
        known = all(one.synced.is_set() or (self._any_list and one.failures) for one in lists)
        return known and (self._notes is None or self._notes.listed)

    @property
    def complete(self) -> bool:
        """True if a cluster that no object names is surely registered by none."""
        return all(one.synced.is_set() for _, one in self._followed)

    def find(self, name: str) -> Cluster | None:
        """Returns the record of a cluster; None if no object registers one of that name."""
        found = self._record(name)
        if found is None or self._notes is None:
            return found
        return msgspec.structs.replace(found, spec=ClusterSpec(taints=self._notes.taints(name)))

    @abstractmethod
    def names(self) -> Collection[str]:
        """Returns the names of the clusters."""

    @abstractmethod
    def _record(self, name: str) -> Cluster | None:
        """Returns the record of a cluster, as its object alone has it."""

    @abstractmethod
    def access(self, cluster: Cluster) -> Found:
        """Returns the access to a cluster. Asks for its credentials until `release` is called."""

    @abstractmethod
    def release(self, name: str) -> None:
        """Drop the credentials of a cluster that nobody uses any more."""

    @abstractmethod
    async def reread(self, cluster: Cluster, apply: Callable[[], Awaitable[None]]) -> None:
        """Look for other credentials after a 401, and call `apply` if there may be some. Raises nothing."""

    @abstractmethod
    async def run(self) -> None:
        """Follow the hub until cancelled."""
