"""Reads the hub for warnings about other objects: competing autoscalers, missing targets, unknown clusters.

A verdict never depends on the hub. Autoscalers and clusters come from local copies that watches keep current.
Only a target that was not looked up recently costs a call to the hub, and the wait for it is short.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from itertools import islice
from typing import Any, Final

from fedhpa.admission.placement import warn_unknown_clusters
from fedhpa.api.autoscalers import (
    HPA_KIND,
    Autoscaler,
    AutoscalerIndex,
    StoredAutoscaler,
    Target,
    from_admitted,
    from_stored,
    quoted_name,
)
from fedhpa.api.cronfederatedhpa import KIND as CRON_KIND
from fedhpa.api.errors import ConfigError
from fedhpa.api.federatedhpa import API_VERSION, FederatedHPA, FederatedHPASpec
from fedhpa.api.federatedhpa import KIND as FHPA_KIND
from fedhpa.api.known_cluster import API_VERSION as CLUSTER_API_VERSION
from fedhpa.api.known_cluster import RawCluster, known_cluster
from fedhpa.api.member_sources import CLUSTERS
from fedhpa.kube import (
    ApiClient,
    ApiConfig,
    Clock,
    Reflector,
    background,
    follow_config,
    resource_path,
)
from fedhpa.serving import hub_config
from fedhpa.serving.flags import Values, common
from webhook.handlers import Subject
from webhook.settings import CROSS_OBJECT_WARNINGS, KARMADA, MEMBERS_FROM, OFF, ON, PROPAGATION
from webhook.targets import Targets

COLLECTIONS: Final = {
    FHPA_KIND: resource_path(API_VERSION, "federatedhpas"),
    CRON_KIND: resource_path(API_VERSION, "cronfederatedhpas"),
    HPA_KIND: resource_path("autoscaling/v2", "horizontalpodautoscalers"),
}
# After this time without contact to the hub, a local copy gives no more warnings.
STALE_SECONDS: Final = 60.0
# Credentials may come from an exec plugin that hangs.
CONFIG_SECONDS: Final = 20.0
# An answer has five warnings in all.
MAX_CLUSTER_WARNINGS: Final = 2
# API servers cut a warning after 256 bytes.
MAX_WARNING: Final = 255
MAX_COMPETITORS: Final = 2


class HubReader:
    """Local copies of the hub's autoscalers and clusters, kept current while `run` runs.

    Without `knows_clusters`, other objects than Clusters register members, and no name is unknown.
    """

    def __init__(
        self, client: ApiClient, *, checks_targets: bool, knows_clusters: bool = True, clock: Clock
    ) -> None:
        self._client = client
        self._clock = clock
        self._index = AutoscalerIndex()
        self._targets = Targets(client, clock=clock.monotonic)
        self._checks_targets = checks_targets
        self._knows_clusters = knows_clusters
        clusters = resource_path(CLUSTER_API_VERSION, "clusters")
        self._clusters = Reflector(
            client, clusters, RawCluster, known_cluster, name="clusters", clock=clock.monotonic
        )
        self.reflectors = {kind: self._reflector(kind, path) for kind, path in COLLECTIONS.items()}

    async def run(self) -> None:
        """Lists, watches and looks up targets until cancelled. Errors of the hub do not end it."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._targets.run())
            if self._knows_clusters:
                group.create_task(self._clusters.run())
            for reflector in self.reflectors.values():
                group.create_task(reflector.run())

    def knows(self, kind: str) -> bool:
        """True if the local copy of a kind is current."""
        return _is_current(self.reflectors[kind])

    def stored_target(self, subject: Subject) -> Autoscaler | None:
        """Returns the stored FederatedHPA that a CronFederatedHPA changes, or None if it is not known."""
        target = from_admitted(subject).target
        if not target.is_federatedhpa or not self.knows(FHPA_KIND):
            return None
        return self.reflectors[FHPA_KIND].store.get((target.namespace, target.name))

    def shares_target(self, subject: Subject) -> bool:
        """True if another CronFederatedHPA has the same target, or if nobody knows."""
        itself = from_admitted(subject)
        others = self._index.of(itself.target)
        return not self.knows(CRON_KIND) or any(
            other.kind == CRON_KIND and other.name != itself.name for other in others
        )

    async def warnings(self, subject: Subject) -> list[str]:
        """Returns at most four warnings about an admitted object and the other objects of the hub."""
        autoscaler = from_admitted(subject)
        competitors = [other for other in self._index.competitors(autoscaler) if self.knows(other.kind)]
        found = list(warn_competitors(autoscaler, competitors))
        problem = await self._target_problem(autoscaler.target, subject.spec.scale_target_ref.api_version)
        if problem is not None:
            found.append(f"spec.scaleTargetRef: {problem}")
        if isinstance(subject, FederatedHPA):
            found += self._cluster_warnings(subject.spec)
        return found

    async def _target_problem(self, target: Target, api_version: str) -> str | None:
        if target.is_federatedhpa:
            exists = (target.namespace, target.name) in self.reflectors[FHPA_KIND].store
            if exists or not self.knows(FHPA_KIND):
                return None
            return f"{target} does not exist in namespace {quoted_name(target.namespace)}"
        if not self._checks_targets:
            return None
        return await self._targets.problem(target, api_version)

    def _cluster_warnings(self, spec: FederatedHPASpec) -> list[str]:
        # A hub without the API of Clusters, or with other members, has no current copy, and gets no warnings.
        if not _is_current(self._clusters):
            return []
        found = warn_unknown_clusters(spec, tuple(self._clusters.store.values()))
        return list(islice(found, MAX_CLUSTER_WARNINGS))

    def _reflector(self, kind: str, path: str) -> Reflector[Autoscaler]:
        reflector = Reflector(
            self._client,
            path,
            StoredAutoscaler,
            partial(from_stored, kind),
            name=kind,
            clock=self._clock.monotonic,
        )
        reflector.subscribe(lambda _, old, new: self._index.replace(old, new))
        return reflector


def warn_competitors(autoscaler: Autoscaler, competitors: Iterable[Autoscaler]) -> Iterator[str]:
    """Yields one warning that names the first competitors of an autoscaler and counts the others."""
    names = [str(competitor) for competitor in competitors]
    if not names:
        return
    texts = (_warning(autoscaler, names, shown) for shown in range(min(MAX_COMPETITORS, len(names)), 0, -1))
    yield next((text for text in texts if len(text) <= MAX_WARNING), _warning(autoscaler, names, 1))


def _warning(autoscaler: Autoscaler, names: list[str], shown: int) -> str:
    hidden = len(names) - shown
    listed = names[:shown] + ([f"{hidden} more"] if hidden else [])
    others = listed[0] if len(listed) == 1 else f"{', '.join(listed[:-1])} and {listed[-1]}"
    return (
        f"spec.scaleTargetRef: {autoscaler.target} is the target of {others} too; "
        "they will overwrite one another"
    )


def _is_current(reflector: Reflector[Any]) -> bool:
    return reflector.current and reflector.problem_seconds <= STALE_SECONDS


def wants_hub(values: Values) -> bool:
    """True if the flags say to read the hub."""
    choice = values[CROSS_OBJECT_WARNINGS]
    return choice == ON or (choice != OFF and bool(values[common.KUBECONFIG]))


@asynccontextmanager
async def reading_hub(values: Values, clock: Clock) -> AsyncIterator[HubReader | None]:
    """Yields a running reader of the hub, or None if the flags ask for none. Raises ConfigError."""
    if not wants_hub(values):
        yield None
        return
    kubeconfig = values[common.KUBECONFIG] or None
    async with ApiClient(await _config(values, clock)) as client:
        reader = HubReader(
            client,
            checks_targets=values[PROPAGATION] == KARMADA,
            knows_clusters=values[MEMBERS_FROM] == (CLUSTERS,),
            clock=clock,
        )
        async with background(reader.run(), follow_config(client, kubeconfig, clock=clock)):
            yield reader


async def _config(values: Values, clock: Clock) -> ApiConfig:
    try:
        async with asyncio.timeout(CONFIG_SECONDS):
            return await hub_config(values, clock)
    except TimeoutError as error:
        source = values[common.KUBECONFIG] or "the pod's service account"
        raise ConfigError(
            f"--kubeconfig: no credentials from {source} within {CONFIG_SECONDS:g} s"
        ) from error
