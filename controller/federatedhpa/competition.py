"""Other autoscalers of the same workload: a HorizontalPodAutoscaler in a member, or on the hub.

It undoes what we write, and we undo what it writes. Whoever is found is told of on the object; nothing is
stopped, for which of the two is wanted is not ours to say.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
import structlog

from controller.federatedhpa.snapshot import Observation
from fedhpa.api.errors import FedHPAError
from fedhpa.api.wire import ObjectMeta
from fedhpa.kube.client import ApiClient
from fedhpa.kube.paths import resource_path

log = structlog.get_logger(__name__)

# Nobody adds such an object every minute, and asking costs a request a member and namespace.
KEEP_SECONDS: Final = 60.0
DEADLINE_SECONDS: Final = 3.0
ON_HUB: Final = "the hub"


class _Reference(msgspec.Struct, frozen=True):
    apiVersion: str = ""
    kind: str = ""
    name: str = ""

    @property
    def identity(self) -> tuple[str, str, str]:
        """Group, kind and name: versions are forms of one object."""
        return self.apiVersion.rpartition("/")[0], self.kind, self.name


class _Spec(msgspec.Struct, frozen=True):
    scaleTargetRef: _Reference = _Reference()


class _Autoscaler(msgspec.Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: _Spec = _Spec()


_UNKNOWN: Final[tuple[float, tuple[_Autoscaler, ...]]] = (float("-inf"), ())


class CompetingAutoscalers:
    """What is known of HorizontalPodAutoscalers, by cluster and namespace; never raises for a server."""

    def __init__(self, hub: ApiClient, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._hub = hub
        self._clock = clock
        self._known: dict[tuple[str, str], tuple[float, tuple[_Autoscaler, ...]]] = {}
        self._turns: dict[tuple[str, str], asyncio.Lock] = {}

    async def look(self, raw: Mapping[str, Any], seen: Observation) -> tuple[str, ...]:
        """The autoscalers of the observed object's workload, each with where it is; a minute old at most."""
        namespace = str(raw["metadata"]["namespace"])
        try:
            wanted = msgspec.convert((raw.get("spec") or {}).get("scaleTargetRef") or {}, _Reference).identity
        except msgspec.ValidationError:
            return ()
        clients = {name: write.client for name, write in seen.members.items()}
        if seen.template is not None:
            clients[ON_HUB] = self._hub
        now = self._clock()
        # A thousand objects ask at every look, and mostly all is known: only what is old is worth a task.
        old = [name for name in clients if self._of(name, namespace)[0] <= now]
        if old:
            await asyncio.gather(*(self._refresh(name, clients[name], namespace) for name in old))
        return tuple(
            f"HorizontalPodAutoscaler {namespace}/{one.metadata.name} in {name}"
            for name in sorted(clients)
            for one in self._of(name, namespace)[1]
            if one.spec.scaleTargetRef.identity == wanted
        )

    def _of(self, place: str, namespace: str) -> tuple[float, tuple[_Autoscaler, ...]]:
        """Until when what is known counts, and what it is."""
        return self._known.get((place, namespace), _UNKNOWN)

    async def _refresh(self, place: str, client: ApiClient, namespace: str) -> None:
        key = (place, namespace)
        async with self._turns.setdefault(key, asyncio.Lock()):
            until, known = self._of(place, namespace)
            if self._clock() < until:
                return
            try:
                async with asyncio.timeout(DEADLINE_SECONDS):
                    path = resource_path("autoscaling/v2", "horizontalpodautoscalers", namespace)
                    known = tuple((await client.list(path, _Autoscaler)).items)
            except (FedHPAError, TimeoutError) as error:
                # Without the right to list them, or while it is away, what was known last stands.
                log.debug("autoscalers not listed", cluster=place, namespace=namespace, error=str(error))
            self._drop_old()
            self._known[key] = (self._clock() + KEEP_SECONDS, known)

    def _drop_old(self) -> None:
        old = self._clock() - 10 * KEEP_SECONDS
        for key in [key for key, (until, _) in self._known.items() if until < old]:
            del self._known[key]
            self._turns.pop(key, None)
