"""What the hub tells about other objects: copies of its autoscalers, and a look whether a target is there.

Nothing here decides: warnings come out, and none where the hub is silent. Admission waits for no list and no
watch; only a target that nobody asked about lately costs a call, which is waited for briefly.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import structlog

from fedhpa.api.cronfederatedhpa import KIND as CRON_KIND
from fedhpa.api.errors import ConfigError
from fedhpa.api.federatedhpa import API_VERSION, FederatedHPA
from fedhpa.api.federatedhpa import KIND as FHPA_KIND
from fedhpa.kube.client import ApiClient
from fedhpa.kube.config import ApiConfig, load_config
from fedhpa.kube.paths import resource_path
from fedhpa.kube.reflector import Change, Reflector
from fedhpa.kube.rotation import follow_config
from fedhpa.serving.flags import common
from fedhpa.serving.flags.types import Values
from webhook.clusters import KnownClusters
from webhook.handlers import Subject
from webhook.owners import (
    HPA_KIND,
    Owner,
    Owners,
    Stored,
    Target,
    named,
    rival_warnings,
    stored_owner,
    written_owner,
)
from webhook.settings import CROSS_OBJECT_WARNINGS, KARMADA, OFF, ON, PROPAGATION
from webhook.targets import Targets

log = structlog.get_logger(__name__)

COLLECTIONS: Final = {
    FHPA_KIND: resource_path(API_VERSION, "federatedhpas"),
    CRON_KIND: resource_path(API_VERSION, "cronfederatedhpas"),
    HPA_KIND: resource_path("autoscaling/v2", "horizontalpodautoscalers"),
}
# A copy that has not been refreshed for so long may be wrong; nothing is said on its word any more.
STALE_SECONDS: Final = 60.0
# Credentials may come from a plugin; one that hangs is a configuration that cannot be used.
CONFIG_SECONDS: Final = 20.0


class HubReader:
    """The hub's autoscalers, kept up to date while `run` runs, and what they mean for a written one."""

    def __init__(self, client: ApiClient, *, looks_at_targets: bool) -> None:
        self._client = client
        self._owners = Owners()
        self._targets = Targets(client)
        self._clusters = KnownClusters(client)
        self._looks_at_targets = looks_at_targets
        self.reflectors = {kind: self._reflector(kind, path) for kind, path in COLLECTIONS.items()}

    async def run(self) -> None:
        """List, watch and look up until cancelled; no answer of the hub ends it."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._targets.run())
            group.create_task(self._clusters.run())
            for reflector in self.reflectors.values():
                group.create_task(reflector.run())

    def knows(self, kind: str) -> bool:
        """Whether the copy of a kind can be believed."""
        reflector = self.reflectors[kind]
        return reflector.current and reflector.problem_seconds <= STALE_SECONDS

    def stored_target(self, subject: Subject) -> Owner | None:
        """The FederatedHPA that a CronFederatedHPA changes, as it is stored; None if there is none known."""
        target = written_owner(subject).target
        if not target.is_federatedhpa or not self.knows(FHPA_KIND):
            return None
        return self.reflectors[FHPA_KIND].store.get((target.namespace, target.name))

    async def warnings(self, subject: Subject) -> list[str]:
        """What other objects mean for one that is admitted; at most four warnings."""
        owner = written_owner(subject)
        rivals = [rival for rival in self._owners.rivals(owner) if self.knows(rival.kind)]
        found = list(rival_warnings(owner, rivals))
        problem = await self._target_problem(owner.target, subject.spec.scale_target_ref.api_version)
        if problem is not None:
            found.append(f"spec.scaleTargetRef: {problem}")
        if isinstance(subject, FederatedHPA):
            found += self._clusters.warnings(subject.spec, STALE_SECONDS)
        return found

    async def _target_problem(self, target: Target, api_version: str) -> str | None:
        if target.is_federatedhpa:
            there = (target.namespace, target.name) in self.reflectors[FHPA_KIND].store
            if there or not self.knows(FHPA_KIND):
                return None
            return f"{target} does not exist in namespace {named(target.namespace)}"
        if not self._looks_at_targets:
            return None
        return await self._targets.problem(target, api_version)

    def _reflector(self, kind: str, path: str) -> Reflector[Owner]:
        reflector = Reflector(self._client, path, Stored, _record(kind), name=kind)
        reflector.subscribe(self._changed)
        return reflector

    def _changed(self, change: Change[Owner]) -> None:
        self._owners.put(change.old, change.new)


def _record(kind: str) -> Callable[[Stored], Owner | None]:
    return lambda stored: stored_owner(kind, stored)


def wants_hub(values: Values) -> bool:
    """Whether the flags ask for a reader of the hub."""
    choice = values[CROSS_OBJECT_WARNINGS]
    return choice == ON or (choice != OFF and bool(values[common.KUBECONFIG]))


@asynccontextmanager
async def reading_hub(values: Values) -> AsyncIterator[HubReader | None]:
    """The reader that the flags ask for, running; None if they ask for none. ConfigError if it cannot be."""
    if not wants_hub(values):
        yield None
        return
    kubeconfig = values[common.KUBECONFIG] or None
    async with ApiClient(await _config(values, kubeconfig)) as client, asyncio.TaskGroup() as group:
        reader = HubReader(client, looks_at_targets=values[PROPAGATION] == KARMADA)
        tasks = [group.create_task(reader.run()), group.create_task(follow_config(client, kubeconfig))]
        try:
            yield reader
        finally:
            for task in tasks:
                task.cancel()


async def _config(values: Values, kubeconfig: str | None) -> ApiConfig:
    try:
        async with asyncio.timeout(CONFIG_SECONDS):
            config = await load_config(kubeconfig)
    except TimeoutError as error:
        source = kubeconfig or "the pod's own account"
        raise ConfigError(
            f"--kubeconfig: no credentials from {source} within {CONFIG_SECONDS:g} s"
        ) from error
    return dataclasses.replace(config, qps=values[common.KUBE_API_QPS], burst=values[common.KUBE_API_BURST])
