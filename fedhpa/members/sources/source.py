"""The interface of a source of members to the registry."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import NamedTuple, Protocol

from fedhpa.members.cluster import Access, Cluster

# Called with the name of each member whose record or access may have changed.
Changes = Callable[[str], None]


class Found(NamedTuple):
    """The access to a cluster, or why there is none; `pending` while that is not known yet."""

    access: Access | str
    pending: bool = False


class Source(Protocol):
    """Objects of one kind on the hub that register clusters."""

    @property
    def kind(self) -> str:
        """The name of the source in --members-from."""
        ...

    @property
    def problem(self) -> str | None:
        """The reason why the records may be out of date; None if they are not."""
        ...

    @property
    def listed(self) -> bool:
        """True once the hub has listed the objects."""
        ...

    @property
    def complete(self) -> bool:
        """True if a cluster that no object names is surely registered by none."""
        ...

    def names(self) -> Collection[str]:
        """Returns the names of the clusters."""
        ...

    def find(self, name: str) -> Cluster | None:
        """Returns the record of a cluster; None if no object registers one of that name."""
        ...

    def access(self, cluster: Cluster) -> Found:
        """Returns the access to a cluster. Asks for its credentials until `release` is called."""
        ...

    def release(self, name: str) -> None:
        """Drop the credentials of a cluster that nobody uses any more."""
        ...

    async def reread(self, cluster: Cluster, apply: Callable[[], Awaitable[None]]) -> None:
        """Look for other credentials after a 401, and call `apply` if there may be some. Raises nothing."""
        ...

    async def run(self) -> None:
        """Follow the hub until cancelled."""
        ...
