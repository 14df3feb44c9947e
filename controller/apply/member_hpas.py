"""Writes member HPAs: with the members' own clients (--propagation=direct), or as Karmada's Works.

Only an HPA of ours is changed or deleted. Each write names the object that was read, by its uid and
its resourceVersion, so that an HPA that somebody made meanwhile is never touched. Server-side apply would
take over an HPA of somebody else without a conflict where the values are equal.

Karmada's execution controller applies the manifest of a Work in its cluster, and removes it with the Work.
Sources: pkg/apis/work/v1alpha1/work_types.go and pkg/util/objectwatcher of Karmada v1.19.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from fedhpa.api.errors import FedHPAError, MemberUnavailable
from fedhpa.api.json import convert_json
from fedhpa.api.member_hpas import (
    MANAGED_BY,
    MANAGER,
    OWNER,
    PLURAL,
    HpaSpec,
    MemberHpa,
    Owner,
    differing_fields,
    new_member_hpa,
)
from fedhpa.kube import ApiClient, Key, delete_if_there, get_if_there, resource_path
from fedhpa.members import Member
from fedhpa.members.hpas import HpaCache

T = TypeVar("T", bound=MemberHpa)

FIELD_MANAGER: Final = "fedhpa-distributed"
NOT_REGISTERED: Final = "no Cluster of this name is registered"

WORK_API: Final = "work.karmada.io/v1alpha1"
WORKS: Final = "works"
# Karmada's namespace of a cluster.
NAMESPACE_PREFIX: Final = "karmada-es-"
# With it Karmada removes the HPA before the Work.
EXECUTION_FINALIZER: Final = "karmada.io/execution-controller"
# The FederatedHPA of a Work.
UID_LABEL: Final = "autoscaling.karmada.io/federatedhpa-uid"
NAMESPACE_ANNOTATION: Final = "autoscaling.karmada.io/federatedhpa-namespace"
NAME_ANNOTATION: Final = "autoscaling.karmada.io/federatedhpa-name"
# Karmada's marks of an object that it applied. It never changes an object without the label.
KARMADA_LABEL: Final = {"karmada.io/managed": "true"}
CONFLICT_RESOLUTION: Final = "work.karmada.io/conflict-resolution"
ABORT: Final = "abort"
APPLIED: Final = "Applied"

# Between two looks at what Karmada did, in seconds.
FIRST_PAUSE: Final = 0.1
MAX_PAUSE: Final = 1.0
# The part of a name that people recognise. The hash behind it makes the name unique.
MAX_READABLE: Final = 40
# Messages of Karmada are shown in conditions.
MAX_MESSAGE: Final = 512


class NotOwned(FedHPAError):
    """The member has an HPA, or the hub a Work, of this name that is not ours."""


def ours_of(found: T, shown: str = "") -> T:
    """Returns an HPA or a Work that is ours. Raises NotOwned for another one."""
    if not found.ours:
        what = shown or f"HorizontalPodAutoscaler {found.metadata.namespace}/{found.metadata.name}"
        raise NotOwned(f"{what} is not ours and stays as it is: {found.remedy}")
    return found


async def apply_hpa(
    client: ApiClient,
    owner: Owner,
    spec: Mapping[str, Any],
    api_version: str,
    *,
    deadline: float | None = None,
) -> tuple[str, ...]:
    """Creates this owner's HPA, or changes it to this spec.

    Returns the fields that differed: none if it was right, all for a new HPA. Raises NotOwned, Conflict if
    somebody wrote meanwhile, and ApiError. The deadline applies to each of two requests.
    """
    path = resource_path(api_version, PLURAL, owner.namespace, owner.name)
    found = await get_if_there(client, path, deadline=deadline)
    if found is None:
        created = new_member_hpa(owner, spec, api_version)
        await client.post(resource_path(api_version, PLURAL, owner.namespace), created, deadline=deadline)
        return tuple(sorted(spec))
    stored = ours_of(convert_json(found, MemberHpa).seen_by(owner.hub))
    fields = differing_fields(stored.spec, spec)
    if fields or not stored.owner:
        annotations = {**(stored.metadata.annotations or {}), OWNER: str(owner)}
        changed = {**found, "metadata": {**found["metadata"], "annotations": annotations}, "spec": spec}
        await client.put(path, changed, manager=FIELD_MANAGER, deadline=deadline)
    return fields


async def delete_hpa(
    client: ApiClient, owner: Owner, api_version: str, *, deadline: float | None = None
) -> bool:
    """Deletes this owner's HPA. Returns False if it is gone. Raises NotOwned, Conflict and ApiError."""
    path = resource_path(api_version, PLURAL, owner.namespace, owner.name)
    found = await get_if_there(client, path, deadline=deadline)
    if found is None:
        return False
    metadata = ours_of(convert_json(found, MemberHpa).seen_by(owner.hub)).metadata
    only = {"uid": metadata.uid, "resourceVersion": metadata.resourceVersion}
    return await delete_if_there(client, path, only=only, deadline=deadline)


@dataclass(eq=False)
class MemberHpaWriter:
    """Writes the HPAs of FederatedHPAs into the members. `key` is namespace and name of both.

    `deadline` are the seconds of one request. All raise NotOwned, Conflict if somebody wrote meanwhile,
    MemberUnavailable and ApiError.
    """

    _members: Mapping[str, Member]
    _hpas: HpaCache
    _owner_of: Callable[[Key], Owner]
    _deadline: float

    async def apply(self, cluster: str, key: Key, spec: Mapping[str, Any], api_version: str) -> None:
        """Create the HPA or change it to this spec."""
        member = self._member(cluster)
        try:
            owner = self._owner_of(key)
            await apply_hpa(member.client, owner, spec, api_version, deadline=self._deadline)
        finally:
            # A write without an answer may have been made, too.
            self._hpas.note(member, *key)

    async def delete(self, cluster: str, key: Key) -> None:
        """Delete the HPA if it is there."""
        member = self._member(cluster)
        version = await self._hpas.version(member)
        try:
            await delete_hpa(member.client, self._owner_of(key), version, deadline=self._deadline)
        finally:
            self._hpas.note(member, *key)

    async def discard(self, key: Key) -> None:
        """Delete what the hub itself holds of the HPAs, if anything."""

    def _member(self, cluster: str) -> Member:
        member = self._members.get(cluster)
        if member is None:
            raise MemberUnavailable(cluster, NOT_REGISTERED)
        return member


class NotApplied(FedHPAError):
    """Karmada has not done what a Work says, so the member may have the old HPA or the new one."""


class Work(MemberHpa, frozen=True, dict=True):
    """A stored Work, without what it applies. It has our label as a member HPA has."""


@dataclass(eq=False)
class WorkWriter(MemberHpaWriter):
    """Writes Works, and waits as long as for one request until the member shows what they say.

    Raises NotApplied, too, if Karmada refused, or did not apply one within the deadline.
    """

    _hub: ApiClient

    async def apply(self, cluster: str, key: Key, spec: Mapping[str, Any], api_version: str) -> None:
        """Create the Work or change it to this spec, and wait for the HPA."""
        member, owner, path = self._member(cluster), self._owner_of(key), work_path(cluster, key)
        await self._member_hpa(member, key)
        found = await get_if_there(self._hub, path, deadline=self._deadline)
        wanted = _wanted(found or {}, cluster, owner, spec, api_version)
        if found is None:
            collection = resource_path(WORK_API, WORKS, f"{NAMESPACE_PREFIX}{cluster}")
            await self._hub.post(collection, wanted, deadline=self._deadline)
        else:
            work = ours_of(convert_json(found, Work), _shown(cluster, key))
            if work.metadata.deletionTimestamp is not None:
                raise NotApplied(f"{_shown(cluster, key)} is being deleted")
            if wanted != found:
                await self._hub.put(path, wanted, manager=FIELD_MANAGER, deadline=self._deadline)
            elif text := _problem(cluster, key, work):
                raise NotApplied(text)

        def applied(hpa: MemberHpa | None) -> bool:
            return hpa is not None and not differing_fields(hpa.spec, spec)

        await self._wait(cluster, key, member, applied)

    async def delete(self, cluster: str, key: Key) -> None:
        """Delete the Work and wait until Karmada removed the HPA."""
        member = self._members.get(cluster)
        found = await get_if_there(self._hub, work_path(cluster, key), deadline=self._deadline)
        present = None if member is None else await self._member_hpa(member, key)
        if found is not None:
            await self._delete(cluster, key, ours_of(convert_json(found, Work), _shown(cluster, key)))
            if member is not None:
                await self._wait(cluster, key, member, lambda hpa: hpa is None)
        elif present is not None:
            raise NotApplied(
                f"the cluster has the HorizontalPodAutoscaler {key[0]}/{key[1]}, but the hub has no "
                f"{_shown(cluster, key)}: delete the HorizontalPodAutoscaler in the cluster"
            )

    async def discard(self, key: Key) -> None:
        """Delete all Works of a FederatedHPA, also where the member has no HPA or does not answer.

        It does not wait for Karmada. Raises ApiError.
        """
        selector = f"{MANAGED_BY}={MANAGER},{UID_LABEL}={self._owner_of(key).uid}"
        listing = await self._hub.list(resource_path(WORK_API, WORKS), Work, label_selector=selector)
        for work in listing.items:
            await self._delete(work.metadata.namespace.removeprefix(NAMESPACE_PREFIX), key, work)

    async def _delete(self, cluster: str, key: Key, work: Work) -> None:
        if work.metadata.deletionTimestamp is None:
            only = {"uid": work.metadata.uid, "resourceVersion": work.metadata.resourceVersion}
            await delete_if_there(self._hub, work_path(cluster, key), only=only, deadline=self._deadline)

    async def _wait(
        self, cluster: str, key: Key, member: Member, done: Callable[[MemberHpa | None], bool]
    ) -> None:
        """Wait until the member's HPA is as wanted. Raises NotApplied after the deadline."""
        pause = FIRST_PAUSE
        try:
            async with asyncio.timeout(self._deadline):
                while not done(await self._member_hpa(member, key, new=True)):
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, MAX_PAUSE)
        except TimeoutError as late:
            found = await get_if_there(self._hub, work_path(cluster, key), deadline=self._deadline)
            text = "" if found is None else _problem(cluster, key, convert_json(found, Work))
            shown = f"Karmada has not acted on {_shown(cluster, key)} within {self._deadline:g} s"
            raise NotApplied(text or shown) from late

    async def _member_hpa(self, member: Member, key: Key, *, new: bool = False) -> MemberHpa | None:
        """The HPA in the member, read from its server if `new`. Raises NotOwned if it is not ours."""
        if new:
            self._hpas.note(member, *key)
        hpa = (await self._hpas.read(member, *key)).hpa
        return ours_of(hpa) if isinstance(hpa, MemberHpa) else None


def work_name(key: Key) -> str:
    """Returns the name of the Works of a FederatedHPA: at most 70 characters, and the same each time."""
    namespace, name = key
    # No name of a namespace has a slash, so two keys have different texts.
    digest = hashlib.sha256(f"{namespace}/{name}".encode()).hexdigest()[:16]
    return f"federatedhpa-{name[:MAX_READABLE].rstrip('.-')}-{digest}"


def work_path(cluster: str, key: Key) -> str:
    """Returns the path of the Work of a FederatedHPA for a cluster."""
    return resource_path(WORK_API, WORKS, f"{NAMESPACE_PREFIX}{cluster}", work_name(key))


def _problem(cluster: str, key: Key, work: Work) -> str:
    """Returns why Karmada could not apply a Work; "" if it could, or did not try yet."""
    for one in work.status.get("conditions") or ():
        if one.get("type") == APPLIED and one.get("status") == "False":
            why = (one.get("message") or "no message")[:MAX_MESSAGE]
            return f"Karmada cannot apply {_shown(cluster, key)}: {why}"
    return ""


def _shown(cluster: str, key: Key) -> str:
    return f"Work {NAMESPACE_PREFIX}{cluster}/{work_name(key)}"


def _wanted(
    found: Mapping[str, Any], cluster: str, owner: Owner, spec: Mapping[str, Any], api_version: str
) -> dict[str, Any]:
    """Returns a Work with our marks and this HPA alone; it is as `found` if that one is right.

    All else stays, also uid, resourceVersion, and what Karmada's webhook adds to an HPA.
    """
    key = owner.namespace, owner.name
    space, name = f"{NAMESPACE_PREFIX}{cluster}", work_name(key)
    before = found.get("spec") or {}
    workload = before.get("workload") or {}
    manifests = workload.get("manifests") or []
    known = manifests[0] if len(manifests) == 1 else {}
    hpa = new_member_hpa(owner, spec, api_version)
    if known and not differing_fields(convert_json(known.get("spec") or {}, HpaSpec), spec):
        hpa["spec"] = known["spec"]
    hpa["metadata"]["labels"] |= KARMADA_LABEL
    # Karmada finds the Work of a changed or deleted HPA by its namespace and name.
    places = {"work.karmada.io/namespace": space, "work.karmada.io/name": name}
    hpa["metadata"]["annotations"] |= {CONFLICT_RESOLUTION: ABORT, **places}
    finalizers = (found.get("metadata") or {}).get("finalizers") or []
    metadata = {
        "name": name,
        "namespace": space,
        "finalizers": [*finalizers, *({EXECUTION_FINALIZER} - set(finalizers))],
        "labels": {MANAGED_BY: MANAGER, UID_LABEL: owner.uid},
        "annotations": {CONFLICT_RESOLUTION: ABORT, NAMESPACE_ANNOTATION: key[0], NAME_ANNOTATION: key[1]},
    }
    manifest = {**known, **hpa, "metadata": _marked(known, hpa["metadata"])}
    return {
        "apiVersion": WORK_API,
        "kind": "Work",
        **found,
        "metadata": _marked(found, metadata),
        "spec": {**before, "workload": {**workload, "manifests": [manifest]}},
    }


def _marked(known: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the metadata of an object with these fields. Its other labels and annotations stay."""
    old = known.get("metadata") or {}
    marks = {part: {**(old.get(part) or {}), **metadata[part]} for part in ("labels", "annotations")}
    return {**old, **metadata, **marks}
