"""Who scales what on the hub: autoscalers by their target, and what to say when a target has two.

Pure: records go in as they are seen, warnings come out. What is kept of an object is its name, its target and
its bounds, so that a hub of many thousand autoscalers costs a few megabytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import msgspec

from fedhpa.api.cronfederatedhpa import KIND as CRON_KIND
from fedhpa.api.cronfederatedhpa import CronFederatedHPA
from fedhpa.api.federatedhpa import GROUP, FederatedHPA
from fedhpa.api.federatedhpa import KIND as FHPA_KIND
from webhook.verdict import MAX_WARNING

HPA_KIND: Final = "HorizontalPodAutoscaler"

# Names of 253 characters must leave room for the rest of a warning.
_MAX_NAME: Final = 45
_MAX_KIND: Final = 30
_MAX_NAMED: Final = 2


class Target(NamedTuple):
    """What is scaled; the version of its API does not matter to who it is."""

    namespace: str
    group: str
    kind: str
    name: str

    @property
    def is_federatedhpa(self) -> bool:
        """Whether it is a FederatedHPA, whose bounds a CronFederatedHPA changes."""
        return (self.group, self.kind) == (GROUP, FHPA_KIND)

    def __str__(self) -> str:
        return f"{self.kind[:_MAX_KIND]} {named(self.name)}"


class Owner(msgspec.Struct, frozen=True):
    """An autoscaler: itself, its target and, of a FederatedHPA, its bounds as written (None: not given).

    One that is not `active` writes nothing: a dry run, one whose rules all rest, one that is being deleted.
    """

    kind: str
    namespace: str
    name: str
    target: Target
    active: bool = True
    minimum: int | None = None
    maximum: int | None = None

    def __str__(self) -> str:
        return f"{self.kind} {named(self.name)}"


class _Reference(msgspec.Struct, frozen=True, gc=False):
    apiVersion: str | None = None
    kind: str | None = None
    name: str | None = None


class _Metadata(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    namespace: str = ""
    deletionTimestamp: str | None = None


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


class Stored(msgspec.Struct, frozen=True):
    """What is read of a stored autoscaler, whichever of the three kinds."""

    metadata: _Metadata = _Metadata()
    spec: _Spec | None = None


def stored_owner(kind: str, stored: Stored) -> Owner | None:
    """The record of a stored autoscaler; None where it names no target."""
    metadata, spec = stored.metadata, stored.spec
    if spec is None or spec.scaleTargetRef is None:
        return None
    reference = spec.scaleTargetRef
    target = _target(
        metadata.namespace, reference.apiVersion or "", reference.kind or "", reference.name or ""
    )
    resting = spec.rules is not None and all(rule.suspend for rule in spec.rules)
    fhpa = kind == FHPA_KIND
    return Owner(
        kind,
        metadata.namespace,
        metadata.name,
        target,
        active=not (metadata.deletionTimestamp or spec.dryRun or resting),
        minimum=_first(spec.minReplicas, spec.federatedMinReplicas) if fhpa else None,
        maximum=_first(spec.maxReplicas, spec.federatedMaxReplicas) if fhpa else None,
    )


def written_owner(written: FederatedHPA | CronFederatedHPA) -> Owner:
    """The record of an autoscaler that is about to be stored."""
    kind = FHPA_KIND if isinstance(written, FederatedHPA) else CRON_KIND
    reference, metadata = written.spec.scale_target_ref, written.metadata
    target = _target(metadata.namespace, reference.api_version, reference.kind, reference.name)
    if isinstance(written, FederatedHPA):
        active = not written.spec.dry_run
    else:
        active = not all(rule.suspend for rule in written.spec.rules)
    return Owner(kind, metadata.namespace, metadata.name, target, active=active)


def named(name: str) -> str:
    """A name in quotes, shortened where it would leave no room for what is said about it."""
    return f'"{name}"' if len(name) <= _MAX_NAME else f'"{name[: _MAX_NAME - 3]}..."'


class Owners:
    """All autoscalers of the hub, by what they scale."""

    def __init__(self) -> None:
        self._of: dict[Target, dict[tuple[str, str], Owner]] = {}

    def put(self, old: Owner | None, new: Owner | None) -> None:
        """Forget a record and take another; either may be None."""
        if old is not None:
            others = self._of.get(old.target, {})
            others.pop((old.kind, old.name), None)
            if not others:
                self._of.pop(old.target, None)
        if new is not None:
            self._of.setdefault(new.target, {})[new.kind, new.name] = new

    def __len__(self) -> int:
        return len(self._of)

    def rivals(self, owner: Owner) -> list[Owner]:
        """Who else changes the target of `owner`, by kind and name; nobody if it writes nothing itself."""
        found = self._of.get(owner.target)
        if not found or not owner.active:
            return []
        itself = (owner.kind, owner.name)
        return [found[key] for key in sorted(found) if key != itself and found[key].active]


def rival_warnings(owner: Owner, rivals: Iterable[Owner]) -> Iterator[str]:
    """One warning that names the first rivals of an autoscaler and counts the others."""
    names = [str(rival) for rival in rivals]
    if not names:
        return
    texts = (_rivalry(owner, names, shown) for shown in range(min(_MAX_NAMED, len(names)), 0, -1))
    yield next((text for text in texts if len(text) <= MAX_WARNING), _rivalry(owner, names, 1))


def _rivalry(owner: Owner, names: list[str], shown: int) -> str:
    hidden = len(names) - shown
    listed = names[:shown] + ([f"{hidden} more"] if hidden else [])
    others = listed[0] if len(listed) == 1 else f"{', '.join(listed[:-1])} and {listed[-1]}"
    return (
        f"spec.scaleTargetRef: {owner.target} is the target of {others} too; they will overwrite one another"
    )


def _target(namespace: str, api_version: str, kind: str, name: str) -> Target:
    return Target(namespace, api_version.rpartition("/")[0], kind, name)


def _first(*numbers: int | None) -> int | None:
    return next((number for number in numbers if number is not None), None)
