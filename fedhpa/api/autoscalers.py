"""An index of autoscalers by their target, to find targets with more than one autoscaler.

Pure: it does no I/O. Of each object only the name, the target and the bounds are kept, so many thousand
autoscalers take a few megabytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from fedhpa.api.cronfederatedhpa import KIND as CRON_KIND
from fedhpa.api.cronfederatedhpa import CronFederatedHPA
from fedhpa.api.errors import InvalidObject
from fedhpa.api.federatedhpa import GROUP, FederatedHPA
from fedhpa.api.federatedhpa import KIND as FHPA_KIND
from fedhpa.api.json import convert_json
from fedhpa.api.wire import ObjectMeta

HPA_KIND: Final = "HorizontalPodAutoscaler"

# API servers cut a warning after 256 bytes. A name can have 253 characters, so texts shorten it.
_MAX_NAME: Final = 45
_MAX_KIND: Final = 30


class Target(NamedTuple):
    """The identity of a scaled object. All versions of an API group serve the same object."""

    namespace: str
    group: str
    kind: str
    name: str

    @property
    def is_federatedhpa(self) -> bool:
        """True for a FederatedHPA, whose bounds a CronFederatedHPA changes."""
        return (self.group, self.kind) == (GROUP, FHPA_KIND)

    def __str__(self) -> str:
        return f"{self.kind[:_MAX_KIND]} {quoted_name(self.name)}"


class Autoscaler(msgspec.Struct, frozen=True):
    """An autoscaler and its target. A FederatedHPA also has its bounds as written (None: not given).

    It is not `active` if it changes nothing: in a dry run, with all rules suspended, or while being deleted.
    """

    kind: str
    namespace: str
    name: str
    target: Target
    active: bool = True
    minimum: int | None = None
    maximum: int | None = None

    def __str__(self) -> str:
        return f"{self.kind} {quoted_name(self.name)}"


class _Reference(msgspec.Struct, frozen=True, gc=False):
    apiVersion: str | None = None
    kind: str | None = None
    name: str | None = None


class _Rule(msgspec.Struct, frozen=True, gc=False):
    suspend: bool | None = None


class _Spec(msgspec.Struct, frozen=True):
    scaleTargetRef: _Reference | None = None
    minReplicas: int | None = None
    maxReplicas: int | None = None
    federatedMinReplicas: int | None = None
    federatedMaxReplicas: int | None = None
    dryRun: bool | None = None
    rules: list[_Rule] | None = None


class StoredAutoscaler(msgspec.Struct, frozen=True):
    """The decoded fields of a stored FederatedHPA, CronFederatedHPA or HorizontalPodAutoscaler."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _Spec | None = None


def from_json(kind: str, raw: object) -> Autoscaler | None:
    """Returns the autoscaler of an object in JSON, or None if it cannot be read or names no target."""
    try:
        return from_stored(kind, convert_json(raw, StoredAutoscaler))
    except InvalidObject:
        return None


def from_stored(kind: str, stored: StoredAutoscaler) -> Autoscaler | None:
    """Returns the autoscaler of a stored object, or None if it names no target."""
    metadata, spec = stored.metadata, stored.spec
    if spec is None or spec.scaleTargetRef is None:
        return None
    reference = spec.scaleTargetRef
    target = _target(
        metadata.namespace, reference.apiVersion or "", reference.kind or "", reference.name or ""
    )
    suspended = spec.rules is not None and all(rule.suspend for rule in spec.rules)
    fhpa = kind == FHPA_KIND
    return Autoscaler(
        kind,
        metadata.namespace,
        metadata.name,
        target,
        active=not (metadata.deletionTimestamp or spec.dryRun or suspended),
        minimum=_first(spec.minReplicas, spec.federatedMinReplicas) if fhpa else None,
        maximum=_first(spec.maxReplicas, spec.federatedMaxReplicas) if fhpa else None,
    )


def from_admitted(admitted: FederatedHPA | CronFederatedHPA) -> Autoscaler:
    """Returns the autoscaler of an object in admission."""
    kind = FHPA_KIND if isinstance(admitted, FederatedHPA) else CRON_KIND
    reference, metadata = admitted.spec.scale_target_ref, admitted.metadata
    target = _target(metadata.namespace, reference.api_version, reference.kind, reference.name)
    if isinstance(admitted, FederatedHPA):
        active = not admitted.spec.dry_run
    else:
        active = not all(rule.suspend for rule in admitted.spec.rules)
    return Autoscaler(kind, metadata.namespace, metadata.name, target, active=active)


def target_of(namespace: str, reference: object) -> Target | None:
    """Returns the target that a stored spec.scaleTargetRef names, or None if it names none."""
    if not isinstance(reference, Mapping):
        return None
    texts = [reference.get(field, "") for field in ("apiVersion", "kind", "name")]
    if not all(isinstance(text, str) for text in texts):
        return None
    return _target(namespace, *texts)


def quoted_name(name: str) -> str:
    """Returns a name in quotes, shortened so that the rest of a warning fits."""
    return f'"{name}"' if len(name) <= _MAX_NAME else f'"{name[: _MAX_NAME - 3]}..."'


class AutoscalerIndex:
    """Autoscalers by their target. Its length is the number of targets."""

    def __init__(self) -> None:
        self._by_target: dict[Target, dict[tuple[str, str], Autoscaler]] = {}

    def replace(self, old: Autoscaler | None, new: Autoscaler | None) -> None:
        """Removes one autoscaler and adds another. Either may be None."""
        if old is not None:
            others = self._by_target.get(old.target, {})
            others.pop((old.kind, old.name), None)
            if not others:
                self._by_target.pop(old.target, None)
        if new is not None:
            self._by_target.setdefault(new.target, {})[new.kind, new.name] = new

    def __len__(self) -> int:
        return len(self._by_target)

    def of(self, target: Target) -> list[Autoscaler]:
        """Returns the active autoscalers of a target, by kind and name."""
        found = self._by_target.get(target, {})
        return [found[key] for key in sorted(found) if found[key].active]

    def competitors(self, autoscaler: Autoscaler) -> list[Autoscaler]:
        """Returns the active autoscalers that overwrite its size, by kind and name; none if it is not active.

        The rules of all CronFederatedHPAs of a target are planned together, so these are no competitors.
        """
        itself, cron = (autoscaler.kind, autoscaler.name), autoscaler.kind == CRON_KIND
        return [
            other
            for other in (self.of(autoscaler.target) if autoscaler.active else ())
            if (other.kind, other.name) != itself and not (cron and other.kind == CRON_KIND)
        ]


def _target(namespace: str, api_version: str, kind: str, name: str) -> Target:
    return Target(namespace, api_version.rpartition("/")[0], kind, name)


def _first(*numbers: int | None) -> int | None:
    return next((number for number in numbers if number is not None), None)
