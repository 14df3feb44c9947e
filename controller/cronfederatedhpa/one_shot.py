"""Reads once what the cron controller would plan from, for `fedhpa cron preview`.

The controller's own code reads the target, with the permissions of the caller. Nothing is written.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from controller.cronfederatedhpa.objects import CronObject, NotLeading, TargetKey, open_rules
from controller.cronfederatedhpa.scales import KnownShares, MemberScales
from controller.cronfederatedhpa.targets import CronTargets, bounds_of
from controller.cronfederatedhpa.units import open_unit
from controller.flags import SECTIONS, Settings
from controller.members import members_once
from controller.scaling_records import Recorded
from fedhpa.api.default_values import CLUSTER_LOST_TIMEOUT_SECONDS, MEMBER_DEADLINE_SECONDS
from fedhpa.api.errors import ApiError, ConfigError
from fedhpa.api.federatedhpa import API_VERSION, KIND
from fedhpa.api.member_sources import ONLY_CLUSTERS, MemberSources
from fedhpa.cron.execution.model import (
    MAXIMUM,
    MINIMUM,
    REPLICAS,
    ObservedTarget,
    ScheduledObject,
    Values,
    WindowRecord,
)
from fedhpa.kube import ApiClient, Clock
from fedhpa.serving.flags import parse_flags

T = TypeVar("T")
Object = Mapping[str, Any]


class PlannedTarget(NamedTuple):
    """A target, and all CronFederatedHPAs that the controller plans together for it.

    `api_version` is the one that the objects name. `record` has the windows that are open. `notes` say what
    is unknown.
    """

    target: TargetKey
    api_version: str
    objects: tuple[ScheduledObject, ...]
    record: WindowRecord | None
    notes: tuple[str, ...] = ()

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of the target that rules set."""
        fhpa = (self.api_version, self.target.kind) == (API_VERSION, KIND)
        return (MINIMUM, MAXIMUM) if fhpa else (REPLICAS,)


async def planned_targets(
    hub: ApiClient | None, raws: Iterable[Object], names: Iterable[str]
) -> list[PlannedTarget]:
    """Returns each target of the named objects, with all objects of the target.

    `raws` are the CronFederatedHPAs of one namespace. Without a hub the statuses show what was executed, and
    no window is open. Raises InvalidObject if an object cannot be decoded.
    """
    found = {raw["metadata"]["name"]: CronObject.of(raw) for raw in raws}
    targets = dict.fromkeys(found[name].target for name in names)
    return [await _planned_target(hub, target, found) for target in targets]


async def _planned_target(
    hub: ApiClient | None, target: TargetKey, found: Mapping[str, CronObject]
) -> PlannedTarget:
    here = [found[name] for name in sorted(found) if found[name].target == target]
    reference = here[0].reference
    if hub is None:
        objects = tuple(each.scheduled(target) for each in here)
        return PlannedTarget(target, reference.api_version, objects, None)
    unit = open_unit(hub, target, reference, _never_writes)
    windows = await _read_record(unit.windows)
    here += [found[name] for name in sorted(unit.holders & found.keys()) if found[name] not in here]
    rules = [await _read_record(open_rules(hub, each, _never_writes)) for each in here]
    objects = tuple(each.scheduled(target, one.state) for each, one in zip(here, rules, strict=True))
    records: list[Recorded[Any]] = [windows, *rules]
    notes = (each.lost or each.obstacle for each in records)
    return PlannedTarget(target, reference.api_version, objects, windows.state, tuple(filter(None, notes)))


async def _read_record(memory: Recorded[T]) -> Recorded[T]:
    """Reads a record. A failure is part of what is known of it."""
    try:
        await memory.read(writes=False)
    except ApiError as error:
        memory.lost = f"{memory.file} cannot be read: {error}"
    return memory


def _never_writes() -> None:
    raise NotLeading("a command writes no record")


async def read_target(
    hub: ApiClient, unit: PlannedTarget, sources: MemberSources = ONLY_CLUSTERS, *, clock: Clock
) -> ObservedTarget:
    """Returns the present values of a target. Failures are part of the answer.

    A workload that the hub does not have is read in the members, as with --propagation=direct.
    """
    found = await _read(CronTargets(hub, clock=clock), unit)
    if not found.error or REPLICAS not in unit.fields:
        return found
    settings = dataclasses.replace(Settings.of(parse_flags(SECTIONS, [], {})), sources=sources)
    try:
        async with members_once(hub, settings, clock) as registry:
            if not registry.members:
                return found
            scales = MemberScales(
                lambda: registry.members,
                member_deadline=MEMBER_DEADLINE_SECONDS,
                lost_after=CLUSTER_LOST_TIMEOUT_SECONDS,
                wall=clock.wall,
            )
            there = await _read(CronTargets(hub, scales, clock=clock), unit)
    except ConfigError as error:
        return ObservedTarget({}, f"on the hub: {found.error}; {error}")
    return there if not there.error else ObservedTarget({}, f"on the hub: {found.error}; {there.error}")


async def _read(targets: CronTargets, unit: PlannedTarget) -> ObservedTarget:
    return (await targets.read(unit.target, unit.api_version, KnownShares())).target


def values_of(raw: Object, unit: PlannedTarget) -> Values:
    """Returns the values that a manifest of the target has."""
    if REPLICAS not in unit.fields:
        return bounds_of(raw)
    replicas = (raw.get("spec") or {}).get("replicas", 1)
    return {REPLICAS: replicas if isinstance(replicas, int) else 1}
