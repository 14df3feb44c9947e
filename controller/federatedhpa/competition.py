"""Other autoscalers that act on the same workload.

A HorizontalPodAutoscaler of the same workload, in a member or on the hub, undoes our writes, and we undo its
writes. So does a CronFederatedHPA whose target is the workload. Both are reported on the object but stop
nothing, because the controller cannot know which of the two is wanted.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import structlog

from controller.apply.plan import WriteTargets
from controller.background import Background
from fedhpa.api.autoscalers import HPA_KIND, Autoscaler, StoredAutoscaler, from_stored, target_of
from fedhpa.api.cronfederatedhpa import KIND as CRON_KIND
from fedhpa.api.errors import FedHPAError
from fedhpa.api.federatedhpa import API_VERSION
from fedhpa.api.member_hpas import MemberHpa
from fedhpa.kube import ApiClient, Key, Reflector, report_failure, resource_path

log = structlog.get_logger(__name__)

# Such objects appear rarely, and a list costs one request a member and namespace. A watch costs none.
KEEP_SECONDS: Final = 60.0
DEADLINE_SECONDS: Final = 3.0
# Concurrent lists, of all servers.
MAX_CONCURRENT: Final = 32
ON_HUB: Final = "the hub"


_HPAS: Final = ("autoscaling/v2", "horizontalpodautoscalers")
_CRONS: Final = (API_VERSION, "cronfederatedhpas")


class _Listed(NamedTuple):
    """The autoscalers of a list that are not ours, and the names of our member HPAs in it."""

    autoscalers: tuple[Autoscaler, ...] = ()
    ours: frozenset[str] = frozenset()


_UNKNOWN: Final = (float("-inf"), _Listed())
_NOBODY: Final = (float("-inf"), frozenset[str]())


# The watch of the HPAs of a cluster; None without one.
Watch: TypeAlias = Callable[[str], Reflector[MemberHpa] | None]


class _List(NamedTuple):
    """A list of autoscalers: its cluster, its namespace and its kind."""

    cluster: str
    namespace: str
    kind: str


def clients_of(targets: WriteTargets, hub: ApiClient) -> dict[str, ApiClient]:
    """The API servers that have the workload, by cluster: members, and the hub if it has a template."""
    clients = {name: member.client for name, member in targets.members.items()}
    return clients if targets.template is None else {**clients, ON_HUB: hub}


class CompetingAutoscalers:
    """The other autoscalers by cluster and namespace, listed in the background.

    Errors of a server are logged, never raised. The owner calls `end`.
    """

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._known: dict[tuple[str, str, str], tuple[float, _Listed]] = {}
        # By namespace until when its lists hold no autoscaler, and the clusters of these lists.
        self._alone: dict[str, tuple[float, frozenset[str]]] = {}
        # The clusters in which our member HPA of a namespace and name was seen.
        self._ours: dict[Key, set[str]] = {}
        self._refreshing: Background[_List] = Background(
            "list-autoscalers",
            MAX_CONCURRENT,
            lambda each: {"cluster": each.cluster, "namespace": each.namespace},
        )

    def __len__(self) -> int:
        """The number of lists that are kept."""
        return len(self._known)

    def find(
        self,
        raw: Mapping[str, Any],
        hub: ApiClient,
        clients: Mapping[str, ApiClient],
        hub_id: str = "",
        watch: Watch = lambda _: None,
    ) -> tuple[str, ...]:
        """The autoscalers of the object's workload, each with its cluster, as far as they are known.

        Lists that are older than a minute are read again, for the next call; at once from a `watch`.

        `clients` are the API servers to search for HorizontalPodAutoscalers, by cluster. CronFederatedHPAs
        are on the hub only; one whose rules are all suspended does not count. Nor do member
        HPAs of this hub; `hub_id` is its identity, "" if unknown.
        """
        namespace = str(raw["metadata"]["namespace"])
        now = self._clock()
        alone_until, asked = self._alone.get(namespace, _NOBODY)
        if now < alone_until and asked == clients.keys():
            return ()
        found: list[str] = []
        others, valid = False, float("inf")
        places = [(name, HPA_KIND, clients[name]) for name in sorted(clients)]
        for cluster, kind, client in (*places, (ON_HUB, CRON_KIND, hub)):
            until, listed = self._known.get((cluster, namespace, kind), _UNKNOWN)
            if until <= now:
                place = _List(cluster, namespace, kind)
                if kind == HPA_KIND and (reflector := watch(cluster)) is not None:
                    hpas = _by_namespace(reflector).get(namespace, {}).values()
                    until, listed = self._keep(place, _of_watch(hpas, hub_id))
                elif not self._refreshing.is_busy(place):
                    self._refreshing.put(place, functools.partial(self._refresh, place, client, hub_id))
            others, valid = others or bool(listed.autoscalers), min(valid, until)
            if listed.autoscalers:
                target = target_of(namespace, (raw.get("spec") or {}).get("scaleTargetRef"))
                where = "" if kind == CRON_KIND else f" in {cluster}"
                found += [
                    f"{kind} {namespace}/{one.name}{where}"
                    for one in listed.autoscalers
                    if one.target == target and (one.active or kind != CRON_KIND)
                ]
        if not others and valid > now:
            self._alone[namespace] = valid, frozenset(clients)
        return tuple(found)

    def has_ours(self, key: Key, clusters: Iterable[str]) -> bool:
        """True if `find` saw our member HPA of this namespace and name in one of the clusters."""
        seen = self._ours.get(key)
        return seen is not None and not seen.isdisjoint(clusters)

    async def settle(self) -> None:
        """Wait until the lists that `find` missed were read."""
        await self._refreshing.settle()

    async def end(self) -> None:
        """Stop reading lists."""
        await self._refreshing.end()

    async def _refresh(self, wanted: _List, client: ApiClient, hub_id: str) -> None:
        known = self._known.get(wanted, _UNKNOWN)[1]
        where = {"cluster": wanted.cluster, "namespace": wanted.namespace}
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                known = await _listed(client, wanted, hub_id)
        except (FedHPAError, TimeoutError) as error:
            # The permission may be missing, or the server unavailable. The last list stays valid.
            log.debug("autoscalers not listed", kind=wanted.kind, error=str(error), **where)
        except Exception as error:  # tried again after the same time, not at every reconcile
            report_failure("list-autoscalers", error, cluster=wanted.cluster, namespace=wanted.namespace)
        self._keep(wanted, known)

    def _keep(self, place: _List, listed: _Listed) -> tuple[float, _Listed]:
        """Keep a list, and drop those that nobody asked for. Returns it, and until when it is kept."""
        now = self._clock()
        # The lists stand in the order of their refreshes, so that the old ones are first.
        self._forget(place)
        kept = self._known[place] = now + KEEP_SECONDS, listed
        for name in listed.ours:
            self._ours.setdefault((place.namespace, name), set()).add(place.cluster)
        while self._known[first := next(iter(self._known))][0] < now - 10 * KEEP_SECONDS:
            self._forget(first)
        return kept

    def _forget(self, place: tuple[str, str, str]) -> None:
        cluster, namespace, _ = place
        self._alone.pop(namespace, None)
        for name in self._known.pop(place, _UNKNOWN)[1].ours:
            clusters = self._ours[namespace, name]
            clusters.remove(cluster)
            if not clusters:
                del self._ours[namespace, name]


async def _listed(client: ApiClient, wanted: _List, hub_id: str) -> _Listed:
    api_version, plural = _CRONS if wanted.kind == CRON_KIND else _HPAS
    items = (await client.list(resource_path(api_version, plural, wanted.namespace), StoredAutoscaler)).items
    ours, found = set[str](), list[Autoscaler]()
    for item in items:
        if wanted.kind == HPA_KIND and MemberHpa(item.metadata).seen_by(hub_id).ours:
            ours.add(item.metadata.name)
        elif (one := from_stored(wanted.kind, item)) is not None:
            found.append(one)
    return _Listed(tuple(found), frozenset(ours))


def _of_watch(hpas: Iterable[MemberHpa], hub_id: str) -> _Listed:
    ours, found = set[str](), list[Autoscaler]()
    for one in hpas:
        namespace, name = one.metadata.namespace, one.metadata.name
        if one.seen_by(hub_id).ours:
            ours.add(name)
        elif (target := target_of(namespace, one.spec.scaleTargetRef)) is not None:
            found.append(Autoscaler(HPA_KIND, namespace, name, target))
    return _Listed(tuple(found), frozenset(ours))


def _by_namespace(watch: Reflector[MemberHpa]) -> Mapping[str, Mapping[str, MemberHpa]]:
    """Returns the watched HPAs by namespace and name. The watch keeps them up to date."""
    if not isinstance(watch.derived, dict):
        index: dict[str, dict[str, MemberHpa]] = {}

        def note(key: Key, _: MemberHpa | None, new: MemberHpa | None) -> None:
            namespace, name = key
            index.setdefault(namespace, {}).pop(name, None)
            if new is not None:
                index[namespace][name] = new

        for (namespace, name), one in watch.store.items():
            index.setdefault(namespace, {})[name] = one
        watch.derived = index
        watch.subscribe(note)
    return watch.derived
