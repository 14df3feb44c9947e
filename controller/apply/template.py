"""The template and the ResourceBinding of a workload of mode Distributed (--propagation=karmada).

While the hold lasts, Karmada's scheduler leaves the binding alone, and the members keep the replicas that
their HPAs set. The release leaves the replicas as they run.

Source: pkg/apis/work/v1alpha2/binding_types.go of Karmada v1.19.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from controller.apply.member_hpas import FIELD_MANAGER
from controller.apply.scales import WritableScale, set_replicas
from fedhpa.api.errors import Conflict, FedHPAError
from fedhpa.api.wire import ObjectMeta, WithMetadata
from fedhpa.kube import ApiClient, get_scale

RETAIN_LABEL: Final = "resourcetemplate.karmada.io/retain-replicas"
RETAIN: Final = "true"
# They stand where we set the label, or suspended the scheduler. The value is the uid of the FederatedHPA.
RETAINED_BY: Final = "autoscaling.karmada.io/replicas-retained-by"
SUSPENDED_BY: Final = "autoscaling.karmada.io/scheduling-suspended-by"


class TargetCluster(msgspec.Struct, frozen=True):
    """The part of one cluster in a ResourceBinding."""

    name: str = ""
    replicas: int | None = None


class BindingSpec(msgspec.Struct, frozen=True):
    """The replicas of a ResourceBinding, and how it divides them."""

    replicas: int = 0
    clusters: list[TargetCluster] | None = None


class _Binding(msgspec.Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: BindingSpec = BindingSpec()

    def shows(self, bound: Bound) -> bool:
        """True if it divides the replicas as the one that was read."""
        shares = {share.name: share.replicas for share in self.spec.clusters or ()}
        same = self.metadata.uid == bound.binding.uid and self.spec.replicas == bound.replicas
        return same and shares == bound.shares


class BindingUnusable(FedHPAError):
    """The hub drops a field of ResourceBindings that mode Distributed needs."""


@dataclass(frozen=True)
class Bound:
    """The template of a workload and its ResourceBinding, as they were read. Paths are those of the hub.

    `replicas` are the binding's, `shares` those of each cluster in its order, None where it has none.
    `begins` are clusters that the binding is to have besides, without replicas: Karmada then creates the
    workload there. `gone` clusters are to leave it. `elsewhere` are the replicas of clusters that are no
    candidates.
    """

    template_path: str
    template: ObjectMeta
    binding_path: str
    binding: ObjectMeta
    suspended: bool = False
    replicas: int = 0
    shares: Mapping[str, int | None] = field(default_factory=dict)
    divided: bool = False
    begins: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()
    elsewhere: Mapping[str, int] = field(default_factory=dict)

    def with_others(self, running: Mapping[str, int], left: Collection[str]) -> Bound:
        """Returns it with the replicas of clusters that are no candidates.

        One without replicas is to go, unless it is among those that are `left` with an HPA.
        """
        empty = {name for name, replicas in running.items() if not replicas and name not in left}
        return replace(self, elsewhere=running, gone=self.gone | empty)

    def shares_with(self, running: Mapping[str, int]) -> dict[str, int]:
        """Returns the replicas by cluster: what runs. A cluster that does not answer keeps its number."""
        known = {**self.shares, **self.elsewhere, **running}
        present = {name: known[name] or 0 for name in self.shares}
        kept = {name: replicas for name, replicas in present.items() if name not in self.gone}
        # A ResourceBinding without clusters is that of a workload that was never scheduled.
        return (kept | dict.fromkeys(sorted(self.begins), 0)) or present

    def total(self, shares: Mapping[str, int]) -> int:
        """Returns the template's replicas for these shares. Copies have one number, so the largest counts."""
        return sum(shares.values()) if self.divided else max(shares.values(), default=0)


async def hold(
    hub: ApiClient, bound: Bound, uid: str, running: Mapping[str, int], size: int, deadline: float
) -> None:
    """Suspend the scheduler, let the members keep their replicas, and let the hub follow what runs.

    `size` are the template's replicas. A suspension or a label of somebody else gets no mark of ours. Writes
    only what differs. Raises Conflict, ApiError, and BindingUnusable for a hub that drops the suspension.
    """
    shares = bound.shares_with(running)
    spec: dict[str, Any] = {}
    annotations: dict[str, str] = {}
    if shares != bound.shares or bound.total(shares) != bound.replicas:
        spec["clusters"] = [{"name": name, "replicas": number} for name, number in shares.items()]
        spec["replicas"] = bound.total(shares)
    if not bound.suspended:
        spec["suspension"] = {"scheduling": True}
        annotations[SUSPENDED_BY] = uid
    # The label first: a member that still follows the binding would be scaled by it.
    if (bound.template.labels or {}).get(RETAIN_LABEL) != RETAIN:
        marks = {"labels": {RETAIN_LABEL: RETAIN}, "annotations": {RETAINED_BY: uid}}
        await _patch(hub, bound.template_path, bound.template, marks, {}, deadline)
    if spec:
        metadata = {"annotations": annotations} if annotations else {}
        path = bound.binding_path
        try:
            stored = await _patch(hub, path, bound.binding, metadata, spec, deadline)
        except Conflict:
            # Karmada's detector writes the binding within milliseconds of the template's new label.
            found = await hub.get(path, _Binding, deadline=deadline)
            if not found.shows(bound):
                raise
            stored = await _patch(hub, path, found.metadata, metadata, spec, deadline)
        if ((stored.get("spec") or {}).get("suspension") or {}).get("scheduling") is not True:
            raise BindingUnusable(
                "Karmada v1.13 or later is needed, because the hub drops spec.suspension.scheduling of the "
                "ResourceBinding: upgrade it, or use mode Centralized"
            )
    if size != bound.total(shares):
        # Karmada copies the template's replicas to the binding.
        await _resize(hub, bound.template_path, bound.total(shares), deadline)


async def release(hub: ApiClient, bound: Bound, running: Mapping[str, int], deadline: float) -> None:
    """Give the template what runs, remove the label, and let the scheduler go on: each only if we set it.

    Raises Conflict and ApiError. Called again, it does what is left.
    """
    labelled = _set_by_us(bound.template, RETAINED_BY)
    suspended = _set_by_us(bound.binding, SUSPENDED_BY)
    if not labelled and not suspended:
        return
    shares = bound.shares_with(running)
    # Karmada copies the template's replicas to the binding, and divides them anew if they differ.
    await _resize(hub, bound.template_path, bound.total(shares), deadline)
    if suspended:
        spec = {
            "clusters": [{"name": name, "replicas": number} for name, number in shares.items()],
            "replicas": bound.total(shares),
            "suspension": {"scheduling": None},
        }
        marks = {"annotations": {SUSPENDED_BY: None}}
        await _patch(hub, bound.binding_path, bound.binding, marks, spec, deadline)
    if labelled:
        # The label last: without it Karmada sets the members to the binding's numbers.
        template = await hub.get(bound.template_path, WithMetadata, deadline=deadline)
        marks = {"labels": {RETAIN_LABEL: None}, "annotations": {RETAINED_BY: None}}
        await _patch(hub, bound.template_path, template.metadata, marks, {}, deadline)


def _set_by_us(metadata: ObjectMeta, annotation: str) -> bool:
    return bool((metadata.annotations or {}).get(annotation))


async def _resize(hub: ApiClient, path: str, replicas: int, deadline: float) -> None:
    template = WritableScale(hub, path, await get_scale(hub, path, deadline=deadline), deadline)
    if template.replicas != replicas:
        await set_replicas(template, replicas, manager=FIELD_MANAGER)


async def _patch(
    hub: ApiClient,
    path: str,
    read: ObjectMeta,
    metadata: Mapping[str, Any],
    spec: Mapping[str, Any],
    deadline: float,
) -> dict[str, Any]:
    """Patch the object that was read, and no newer one. Returns it as stored."""
    only = {"uid": read.uid, "resourceVersion": read.resourceVersion}
    body = {"metadata": {**only, **metadata}, **({"spec": spec} if spec else {})}
    response = await hub.patch(path, body, manager=FIELD_MANAGER, deadline=deadline)
    return response.json()
