"""The pods of the members, watched only where somebody needs them, kept as compact records."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from fedhpa.api.wire import Pod
from fedhpa.kube.reflector import Key
from fedhpa.members.member import Member
from fedhpa.members.watched import KEEP_SECONDS, STALE_SECONDS, WatchedCollections

T = TypeVar("T")


class PodCache(WatchedCollections[T]):
    """Records of pods by member and namespace, while `run` runs.

    `make` turns a cluster's name and a pod into the record that is kept; None leaves the pod out.
    """

    def __init__(
        self,
        make: Callable[[str, Pod], T | None],
        *,
        keep: float = KEEP_SECONDS,
        stale_after: float = STALE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__("v1", "pods", Pod, make, keep=keep, stale_after=stale_after, clock=clock)

    async def pods(
        self, member: Member, namespace: str = "", *, wait: float | None = None
    ) -> Mapping[Key, T]:
        """The pods of a namespace ("" for all) of a member, by (namespace, name); a live view.

        MemberUnavailable as of `reflector`.
        """
        return (await self.reflector(member, namespace, wait=wait)).store
