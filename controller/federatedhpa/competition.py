"""Other autoscalers that act on the same workload or the same pods.

A HorizontalPodAutoscaler of the same workload, in a member or on the hub, undoes our writes, and we undo its
writes. It is reported on the object but stops nothing, because the controller cannot know which of the two is
wanted. Two FederatedHPAs that select the same pods stop each other (Kubernetes HPA 1.36: AmbiguousSelector).
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec
import structlog

from fedhpa.api.errors import FedHPAError
from fedhpa.api.json import InvalidJson, convert_json
from fedhpa.api.selectors import Selector
from fedhpa.api.wire import ObjectMeta
from fedhpa.kube import ApiClient, Key, contain, report_failure, resource_path

log = structlog.get_logger(__name__)

# Such objects appear rarely, and a list costs one request a member and namespace.
KEEP_SECONDS: Final = 60.0
DEADLINE_SECONDS: Final = 3.0
ON_HUB: Final = "the hub"


def ambiguous_with(
    key: Key,
    labels: Mapping[str, Iterable[Mapping[str, str]]],
    selectors: Mapping[Key, Mapping[str, Selector]],
    same_target: Iterable[Key] = (),
) -> tuple[str, ...]:
    """The FederatedHPAs (namespace/name, `key` included) that select pods of `key`; empty if only `key` does.

    `labels` are the label sets of its pods, by cluster; `selectors` are those of all objects, by cluster.
    `same_target` are the objects with the same target, which select the same pods once there are any.
    """
    namespace = key[0]
    others = [other for other in selectors if other != key and other[0] == namespace]
    if not others:
        return ()
    found = {other for other in same_target if other != key and other[0] == namespace}
    for cluster, label_sets in labels.items():
        for other in others:
            selector = selectors[other].get(cluster)
            if selector is not None and any(selector.matches(own) for own in label_sets):
                found.add(other)
    if not found:
        return ()
    return tuple(sorted(f"{one[0]}/{one[1]}" for one in (*found, key)))


class _TargetReference(msgspec.Struct, frozen=True):
    apiVersion: str = ""
    kind: str = ""
    name: str = ""

    @property
    def identity(self) -> tuple[str, str, str]:
        """Group, kind and name, because all versions serve the same object."""
        return self.apiVersion.rpartition("/")[0], self.kind, self.name


class _AutoscalerSpec(msgspec.Struct, frozen=True):
    scaleTargetRef: _TargetReference = _TargetReference()


class _Autoscaler(msgspec.Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: _AutoscalerSpec = _AutoscalerSpec()


_UNKNOWN: Final[tuple[float, tuple[_Autoscaler, ...]]] = (float("-inf"), ())


class CompetingAutoscalers:
    """The HorizontalPodAutoscalers by cluster and namespace. Errors of a server are logged, never raised."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[tuple[str, str], tuple[float, tuple[_Autoscaler, ...]]] = {}
        self._refreshing: dict[tuple[str, str], asyncio.Lock] = {}

    async def find(self, raw: Mapping[str, Any], clients: Mapping[str, ApiClient]) -> tuple[str, ...]:
        """The autoscalers of the object's workload, each with its cluster; at most a minute old.

        `clients` are the API servers to search, by cluster.
        """
        namespace = str(raw["metadata"]["namespace"])
        try:
            reference = convert_json((raw.get("spec") or {}).get("scaleTargetRef") or {}, _TargetReference)
        except InvalidJson:
            return ()
        target, now = reference.identity, self._clock()
        # A thousand objects come here at every reconcile, and most lists are fresh: only old ones get a task.
        old = [name for name in clients if self._cached(name, namespace)[0] <= now]
        if old:
            async with asyncio.TaskGroup() as group:  # the tasks never raise
                for name in old:
                    refresh = functools.partial(self._refresh, name, clients[name], namespace)
                    about = {"cluster": name, "namespace": namespace}
                    group.create_task(contain("list-autoscalers", refresh, lambda _: None, **about))
        return tuple(
            f"HorizontalPodAutoscaler {namespace}/{one.metadata.name} in {name}"
            for name in sorted(clients)
            for one in self._cached(name, namespace)[1]
            if one.spec.scaleTargetRef.identity == target
        )

    def _cached(self, cluster: str, namespace: str) -> tuple[float, tuple[_Autoscaler, ...]]:
        """The cached list and the time at which it expires."""
        return self._known.get((cluster, namespace), _UNKNOWN)

    async def _refresh(self, cluster: str, client: ApiClient, namespace: str) -> None:
        key = (cluster, namespace)
        async with self._refreshing.setdefault(key, asyncio.Lock()):
            until, known = self._cached(cluster, namespace)
            if self._clock() < until:
                return
            try:
                async with asyncio.timeout(DEADLINE_SECONDS):
                    path = resource_path("autoscaling/v2", "horizontalpodautoscalers", namespace)
                    known = tuple((await client.list(path, _Autoscaler)).items)
            except (FedHPAError, TimeoutError) as error:
                # The permission may be missing, or the server unavailable. The last list stays valid.
                log.debug("autoscalers not listed", cluster=cluster, namespace=namespace, error=str(error))
            except Exception as error:  # tried again after the same time, not at every reconcile
                report_failure("list-autoscalers", error, cluster=cluster, namespace=namespace)
            self._drop_old()
            self._known[key] = (self._clock() + KEEP_SECONDS, known)

    def _drop_old(self) -> None:
        old = self._clock() - 10 * KEEP_SECONDS
        for key in [key for key, (until, _) in self._known.items() if until < old]:
            del self._known[key]
            self._refreshing.pop(key, None)
