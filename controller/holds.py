"""The holds of namespaces, and what an object asks for at once.

One watch of all namespaces serves all objects and shards of the process. It keeps only namespaces with a
hold. Source: docs/how-to/hold-scaling.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

import structlog

from fedhpa.api.errors import ApiError
from fedhpa.api.hold import Hold, HoldRequest, hold_request
from fedhpa.api.member_hpas import with_hold
from fedhpa.api.wire import WithMetadata
from fedhpa.decision import Finding, MemoryState
from fedhpa.kube import ApiClient, Reflector, get_if_there, resource_path

NAMESPACES: Final = resource_path("v1", "namespaces")
UNREADABLE: Final = "NamespacesUnreadable"
DEADLINE_SECONDS: Final = 10.0

log = structlog.get_logger(__name__)


class NamespaceHolds:
    """Watches namespaces while `run` runs. `own` is the namespace in which the controller is installed.

    `on_finding` receives whether the holds are unknown.
    """

    def __init__(
        self,
        hub: ApiClient,
        own: str,
        *,
        on_finding: Callable[[str, bool], None] = lambda *_: None,
        clock: Callable[[], float],
    ) -> None:
        self._own = own
        self._on_finding = on_finding
        self._problem = ""
        self._tried = asyncio.Event()
        self._reflector: Reflector[HoldRequest] = Reflector(
            hub, NAMESPACES, WithMetadata, _request, name="namespaces", on_problem=self._note, clock=clock
        )

    async def run(self) -> None:
        """List and watch until cancelled."""
        await self._reflector.run()

    async def tried(self) -> None:
        """Waits until the namespaces were listed, or until that failed once.

        Otherwise a controller that has just started would not know the holds.
        """
        await self._tried.wait()

    def of(self, namespace: str) -> tuple[HoldRequest, ...]:
        """Returns what the namespace of an object and that of the controller ask for, in this order."""
        names = dict.fromkeys((namespace, self._own))
        found = (self._reflector.store.get(("", name)) for name in names)
        return tuple(one for one in found if one is not None)

    @property
    def finding(self) -> tuple[Finding, ...]:
        """Says that the holds of namespaces are unknown; empty once they were listed."""
        if self._reflector.synced.is_set() or not self._problem:
            return ()
        return (_unknown(f"{self._problem}; give the controller the rights of: fedhpa rbac controller"),)

    def follow(self, wake: Callable[[str], None]) -> Callable[[], None]:
        """Calls `wake` with each namespace whose hold changes, "" for all. Returns what stops that."""
        return self._reflector.subscribe(lambda key, *_: wake("" if key[1] == self._own else key[1]))

    def _note(self, problem: str | None) -> None:
        if problem and not self._reflector.synced.is_set() and problem != self._problem:
            log.warning("namespaces not read, so their holds are unknown", error=problem)
        self._problem = problem or ""
        self._on_finding(UNREADABLE, bool(self.finding))
        self._tried.set()


class HoldOfNamespace:
    """The hold of one namespace at a time, as `read` found it, for commands."""

    def __init__(self, hub: ApiClient) -> None:
        self._hub = hub
        self._found: HoldRequest | None = None
        self.finding: tuple[Finding, ...] = ()

    async def read(self, namespace: str) -> None:
        """Reads a namespace. Without the right to it, its hold is unknown."""
        self._found, self.finding = None, ()
        try:
            path = resource_path("v1", "namespaces", name=namespace)
            raw = await get_if_there(self._hub, path, deadline=DEADLINE_SECONDS)
        except ApiError as error:
            self.finding = (_unknown(str(error)),)
            return
        if raw is not None:
            self._found = hold_request(raw["metadata"].get("annotations"), namespace)

    def of(self, namespace: str) -> tuple[HoldRequest, ...]:
        """Returns what the namespace asks for, if it is the one that was read."""
        found = self._found
        return () if found is None or found.namespace != namespace else (found,)


def _unknown(why: str) -> Finding:
    return Finding(UNREADABLE, f"namespaces cannot be read, so their holds are unknown: {why}")


def _request(namespace: WithMetadata) -> HoldRequest | None:
    return hold_request(namespace.metadata.annotations, namespace.metadata.name)


def asked_at_once(raw: Mapping[str, Any]) -> object:
    """Returns the parts of an object whose change must not wait for its next reconcile."""
    metadata = raw["metadata"]
    hold = hold_request(metadata.get("annotations"))
    return metadata.get("generation"), metadata.get("uid"), metadata.get("deletionTimestamp"), hold


def member_spec(spec: Mapping[str, Any], hold: Hold | None, memory: MemoryState) -> Mapping[str, Any]:
    """Returns the FederatedHPA's spec as member HPAs get it under a hold (mode Distributed).

    While a cluster is lost, the HPAs of the others may grow: they take over its load.
    """
    if hold is None:
        return spec
    lost = any(one.assignment.lost for one in memory.clusters.values())
    return with_hold(spec, down=hold.stops_down, up=hold.stops_up and not lost)
