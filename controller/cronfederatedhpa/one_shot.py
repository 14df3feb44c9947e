"""Reads once what the cron controller would plan from, for `fedhpa cron preview`.

The controller's own code reads the target, with the permissions of the caller. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from controller.cronfederatedhpa.objects import CronObject, TargetKey, newest_record
from controller.cronfederatedhpa.targets import Members, Targets, bounds_of, mappers_of_members
from controller.flags import SECTIONS, Settings
from controller.members import members_once
from fedhpa.api.default_values import MEMBER_DEADLINE_SECONDS
from fedhpa.api.errors import ConfigError
from fedhpa.api.federatedhpa import API_VERSION, KIND
from fedhpa.cron.execution import MAXIMUM, MINIMUM, REPLICAS, ScheduledObject, Target, Values, WindowRecord
from fedhpa.kube import ApiClient, Clock
from fedhpa.serving.flags import parse_flags

Object = Mapping[str, Any]


class Unit(NamedTuple):
    """A target, and all CronFederatedHPAs that the controller plans together for it.

    `api_version` is the one that the objects name. `record` has the windows that are open.
    """

    target: TargetKey
    api_version: str
    objects: tuple[ScheduledObject, ...]
    record: WindowRecord | None

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of the target that rules set."""
        fhpa = (self.api_version, self.target.kind) == (API_VERSION, KIND)
        return (MINIMUM, MAXIMUM) if fhpa else (REPLICAS,)


def units_of(raws: Iterable[Object], names: Iterable[str]) -> list[Unit]:
    """Returns each target of the named objects, with all objects of the target.

    `raws` are the CronFederatedHPAs of one namespace. Raises InvalidObject if one cannot be decoded.
    """
    found = {}
    for raw in raws:
        metadata = raw["metadata"]
        found[metadata["name"]] = CronObject.of((metadata.get("namespace", ""), metadata["name"]), raw)
    return [_unit(key, found) for key in dict.fromkeys(found[name].target for name in names)]


def _unit(target: TargetKey, found: Mapping[str, CronObject]) -> Unit:
    objects = [found[name] for name in sorted(found) if target in found[name].targets]
    version = next(each.reference.api_version for each in objects if each.target == target)
    record, _ = newest_record(objects, target)
    return Unit(target, version, tuple(each.scheduled(target) for each in objects), record)


async def read_target(hub: ApiClient, unit: Unit, *, clock: Clock) -> Target:
    """Returns the present values of a target. Failures are part of the answer.

    A workload that the hub does not have is read in the members, as with --propagation=direct.
    """
    found = await _read(hub, unit, dict, clock, direct=False)
    if not found.error or REPLICAS not in unit.fields:
        return found
    settings = Settings.of(parse_flags(SECTIONS, [], {}))
    try:
        async with members_once(hub, settings, clock) as registry:
            if not registry.members:
                return found
            there = await _read(hub, unit, lambda: registry.members, clock, direct=True)
    except ConfigError as error:
        return Target({}, f"on the hub: {found.error}; {error}")
    return there if not there.error else Target({}, f"on the hub: {found.error}; {there.error}")


async def _read(hub: ApiClient, unit: Unit, members: Members, clock: Clock, *, direct: bool) -> Target:
    targets = Targets(
        hub,
        members,
        mappers_of_members(clock),
        direct=direct,
        member_deadline=MEMBER_DEADLINE_SECONDS,
        clock=clock,
    )
    return (await targets.read(unit.target, unit.api_version)).target


def values_of(raw: Object, unit: Unit) -> Values:
    """Returns the values that a manifest of the target has."""
    if REPLICAS not in unit.fields:
        return bounds_of(raw)
    replicas = (raw.get("spec") or {}).get("replicas", 1)
    return {REPLICAS: replicas if isinstance(replicas, int) else 1}
