"""Writes member HPAs as Karmada's Work objects (--propagation=karmada).

Karmada's execution controller applies the manifest of a Work in its cluster, and removes it with the Work.
Sources: pkg/apis/work/v1alpha1/work_types.go and pkg/util/objectwatcher of Karmada v1.19.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from controller.apply.member_hpas import FIELD_MANAGER, NOT_REGISTERED, NotOwned, read_if_there
from fedhpa.api.errors import ApiError, FedHPAError, MemberUnavailable
from fedhpa.api.json import convert_json
from fedhpa.api.member_hpas import (
    MANAGED_BY,
    MANAGER,
    OWNER,
    HpaSpec,
    MemberHpa,
    Owner,
    differing_fields,
    new_member_hpa,
)
from fedhpa.api.wire import ObjectMeta
from fedhpa.kube import NOT_FOUND, ApiClient, Key, resource_path
from fedhpa.members import HpaCache, Member

WORK_API: Final = "work.karmada.io/v1alpha1"
PLURAL: Final = "works"
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


class NotApplied(FedHPAError):
    """Karmada has not done what a Work says, so the member may have the old HPA or the new one."""


class _Manifest(msgspec.Struct, frozen=True):
    apiVersion: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: HpaSpec = HpaSpec()


class _Workload(msgspec.Struct, frozen=True):
    manifests: list[_Manifest] | None = None


class _WorkSpec(msgspec.Struct, frozen=True):
    workload: _Workload = _Workload()


class _Condition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""
    message: str = ""


class _WorkStatus(msgspec.Struct, frozen=True):
    conditions: list[_Condition] | None = None


class _WorkMeta(ObjectMeta, frozen=True, gc=False):
    finalizers: list[str] | None = None


class Work(msgspec.Struct, frozen=True):
    """A stored Work with at most one HPA."""

    metadata: _WorkMeta = _WorkMeta()
    spec: _WorkSpec = _WorkSpec()
    status: _WorkStatus = _WorkStatus()

    @property
    def ours(self) -> bool:
        """True if we created it. Nothing else may be changed or deleted."""
        return (self.metadata.labels or {}).get(MANAGED_BY) == MANAGER

    @property
    def problem(self) -> str:
        """The message of Karmada if it could not apply the Work; "" if it could, or did not try yet."""
        for condition in self.status.conditions or ():
            if condition.type == APPLIED and condition.status == "False":
                return condition.message[:MAX_MESSAGE] or "no message"
        return ""


@dataclass(eq=False)
class WorkWriter:
    """An HpaWriter by Works. `deadline` are the seconds of one request, and of the wait for Karmada.

    `owner_of` returns the owner of a FederatedHPA's HPAs. A write is confirmed when the member shows the HPA.
    """

    _hub: ApiClient
    _members: Mapping[str, Member]
    _hpas: HpaCache
    _owner_of: Callable[[Key], Owner]
    _deadline: float

    async def apply(
        self, cluster: str, key: Key, spec: Mapping[str, Any], api_version: str
    ) -> tuple[str, ...]:
        """Create the Work or change it to this spec, and wait for the HPA, as `HpaWriter.apply`.

        Raises NotApplied if Karmada refused, or did not apply it within the deadline.
        """
        member = self._members.get(cluster)
        if member is None:
            raise MemberUnavailable(cluster, NOT_REGISTERED)
        present = await self._member_hpa(member, key)
        path = work_path(cluster, key)
        owner = self._owner_of(key)
        manifest = _manifest(cluster, owner, spec, api_version)
        found = await read_if_there(self._hub, path, self._deadline)
        if found is None:
            body = _new_work(cluster, key, owner.uid, manifest)
            collection = resource_path(WORK_API, PLURAL, f"{NAMESPACE_PREFIX}{cluster}")
            await self._hub.post(collection, body, deadline=self._deadline)
        else:
            work = _owned(found, cluster, key)
            if work.metadata.deletionTimestamp is not None:
                raise NotApplied(f"{_shown(cluster, key)} is being deleted")
            if not _is_right(work, spec, api_version, owner):
                changed = _changed(found, key, owner.uid, manifest)
                await self._hub.put(path, changed, manager=FIELD_MANAGER, deadline=self._deadline)
            elif work.problem:
                raise NotApplied(f"Karmada cannot apply {_shown(cluster, key)}: {work.problem}")

        def applied(hpa: MemberHpa | None) -> bool:
            return hpa is not None and not differing_fields(hpa.spec, spec)

        await self._wait(cluster, key, member, applied)
        return tuple(sorted(spec)) if present is None else differing_fields(present.spec, spec)

    async def delete(self, cluster: str, key: Key) -> bool:
        """Delete the Work and wait until Karmada removed the HPA, as `HpaWriter.delete`."""
        member = self._members.get(cluster)
        found = await read_if_there(self._hub, work_path(cluster, key), self._deadline)
        present = None if member is None else await self._member_hpa(member, key)
        if found is None:
            if present is None:
                return False
            raise NotApplied(
                f"the cluster has the HorizontalPodAutoscaler {key[0]}/{key[1]}, but the hub has no "
                f"{_shown(cluster, key)}: delete the HorizontalPodAutoscaler in the cluster"
            )
        await self._delete(cluster, key, _owned(found, cluster, key))
        if member is not None:
            await self._wait(cluster, key, member, lambda hpa: hpa is None)
        return True

    async def discard(self, key: Key) -> None:
        """Delete all Works of a FederatedHPA, also where the member has no HPA or does not answer.

        It does not wait for Karmada. Raises ApiError.
        """
        selector = f"{MANAGED_BY}={MANAGER},{UID_LABEL}={self._owner_of(key).uid}"
        listing = await self._hub.list(resource_path(WORK_API, PLURAL), Work, label_selector=selector)
        for work in listing.items:
            await self._delete(work.metadata.namespace.removeprefix(NAMESPACE_PREFIX), key, work)

    async def _delete(self, cluster: str, key: Key, work: Work) -> None:
        metadata = work.metadata
        if metadata.deletionTimestamp is not None:
            return
        only = {"uid": metadata.uid, "resourceVersion": metadata.resourceVersion}
        try:
            await self._hub.delete(work_path(cluster, key), only=only, deadline=self._deadline)
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise

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
            found = await read_if_there(self._hub, work_path(cluster, key), self._deadline)
            problem = "" if found is None else convert_json(found, Work).problem
            if problem:
                raise NotApplied(f"Karmada cannot apply {_shown(cluster, key)}: {problem}") from late
            text = f"Karmada has not acted on {_shown(cluster, key)} within {self._deadline:g} s"
            raise NotApplied(text) from late

    async def _member_hpa(self, member: Member, key: Key, *, new: bool = False) -> MemberHpa | None:
        """The HPA in the member, read from its server if `new`. Raises NotOwned if it is not ours."""
        if new:
            self._hpas.note(member, *key)
        hpa, _ = await self._hpas.read(member, *key)
        if hpa is not None and not hpa.ours:
            raise NotOwned(hpa)
        return hpa


class WorkNotOwned(NotOwned):
    """The hub has a Work of this name that is not ours."""

    def __init__(self, cluster: str, key: Key) -> None:
        FedHPAError.__init__(
            self,
            f"{_shown(cluster, key)} is not ours and stays as it is: delete it, or give it the label "
            f"{MANAGED_BY}={MANAGER} to hand it over",
        )


def work_name(key: Key) -> str:
    """Returns the name of the Works of a FederatedHPA: at most 70 characters, and the same each time."""
    namespace, name = key
    # No name of a namespace has a slash, so two keys have different texts.
    digest = hashlib.sha256(f"{namespace}/{name}".encode()).hexdigest()[:16]
    return f"federatedhpa-{name[:MAX_READABLE].rstrip('.-')}-{digest}"


def work_path(cluster: str, key: Key) -> str:
    """Returns the path of the Work of a FederatedHPA for a cluster."""
    return resource_path(WORK_API, PLURAL, f"{NAMESPACE_PREFIX}{cluster}", work_name(key))


def _shown(cluster: str, key: Key) -> str:
    return f"Work {NAMESPACE_PREFIX}{cluster}/{work_name(key)}"


def _manifest(cluster: str, owner: Owner, spec: Mapping[str, Any], api_version: str) -> dict[str, Any]:
    hpa = new_member_hpa(owner, spec, api_version)
    hpa["metadata"]["labels"] |= KARMADA_LABEL
    hpa["metadata"]["annotations"] |= {
        CONFLICT_RESOLUTION: ABORT,
        # Karmada finds the Work of a changed or deleted HPA by them.
        "work.karmada.io/namespace": f"{NAMESPACE_PREFIX}{cluster}",
        "work.karmada.io/name": work_name((owner.namespace, owner.name)),
    }
    return hpa


def _new_work(cluster: str, key: Key, uid: str, manifest: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": WORK_API,
        "kind": "Work",
        "metadata": {
            "name": work_name(key),
            "namespace": f"{NAMESPACE_PREFIX}{cluster}",
            "finalizers": [EXECUTION_FINALIZER],
            "labels": {MANAGED_BY: MANAGER, UID_LABEL: uid},
            "annotations": _annotations(key),
        },
        "spec": {"workload": {"manifests": [manifest]}},
    }


def _annotations(key: Key) -> dict[str, str]:
    return {CONFLICT_RESOLUTION: ABORT, NAMESPACE_ANNOTATION: key[0], NAME_ANNOTATION: key[1]}


def _changed(found: dict[str, Any], key: Key, uid: str, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a Work with our marks and this manifest. All else stays, also uid and resourceVersion."""
    metadata, spec = found["metadata"], found.get("spec") or {}
    finalizers = metadata.get("finalizers") or []
    kept = {
        **metadata,
        "labels": {**(metadata.get("labels") or {}), UID_LABEL: uid},
        "annotations": {**(metadata.get("annotations") or {}), **_annotations(key)},
        "finalizers": [*finalizers, *({EXECUTION_FINALIZER} - set(finalizers))],
    }
    workload = {**(spec.get("workload") or {}), "manifests": [manifest]}
    return {**found, "metadata": kept, "spec": {**spec, "workload": workload}}


def _is_right(work: Work, spec: Mapping[str, Any], api_version: str, owner: Owner) -> bool:
    """True if the Work has this HPA alone. Karmada's webhook adds labels and annotations to it."""
    metadata, manifests = work.metadata, work.spec.workload.manifests or []
    if (metadata.labels or {}).get(UID_LABEL) != owner.uid or len(manifests) != 1:
        return False
    if EXECUTION_FINALIZER not in (metadata.finalizers or ()):
        return False
    manifest = manifests[0]
    labels, annotations = manifest.metadata.labels or {}, manifest.metadata.annotations or {}
    return (
        manifest.apiVersion == api_version
        and labels.items() >= {MANAGED_BY: MANAGER, **KARMADA_LABEL}.items()
        and annotations.get(CONFLICT_RESOLUTION) == ABORT
        and annotations.get(OWNER) == str(owner)
        and not differing_fields(manifest.spec, spec)
    )


def _owned(found: Mapping[str, Any], cluster: str, key: Key) -> Work:
    work = convert_json(found, Work)
    if not work.ours:
        raise WorkNotOwned(cluster, key)
    return work
