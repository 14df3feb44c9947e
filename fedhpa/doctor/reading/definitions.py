"""The CRDs on the hub, compared with those of this release."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any, Final

from controller.hub_check import is_foreign, pruned_paths
from fedhpa.admission.crd import (
    CLUSTER,
    CRON_FEDERATED_HPA,
    FEDERATED_HPA,
    custom_resource_definition,
)
from fedhpa.cron.execution.objects import RULE_FIELDS
from fedhpa.doctor.observations import Cause, Definition, Problem
from fedhpa.doctor.reading.session import Session
from fedhpa.kube import resource_path

CRDS: Final = ("apiextensions.k8s.io/v1", "customresourcedefinitions")
# A CRD without all of these fields of rules is Karmada's.
_RULE_FIELDS: Final = tuple(f"spec.rules[].{name}" for name in RULE_FIELDS)


async def read_definitions(hub: Session, clusters_served: bool) -> tuple[Definition, ...]:
    """Returns the definitions of our kinds, and of Clusters unless another API server serves them."""
    read = await asyncio.gather(
        *(_definition(hub, each) for each in (FEDERATED_HPA, CRON_FEDERATED_HPA, CLUSTER))
    )
    *ours, clusters = read
    if clusters_served and clusters.problem is not None:
        return tuple(ours)  # Karmada serves Clusters without a CRD
    return tuple(read)


async def _definition(hub: Session, wanted: Any) -> Definition:
    kind, own = wanted.model.__name__, custom_resource_definition(wanted)
    name = own["metadata"]["name"]
    stored = await hub.get(resource_path(*CRDS, name=name), dict[str, Any])
    if isinstance(stored, Problem):
        return Definition(kind, stored)
    try:
        lost = lost_fields(own, stored)
        foreign = is_foreign(stored) if wanted is FEDERATED_HPA else set(_RULE_FIELDS) <= set(lost)
    except (AttributeError, TypeError, KeyError) as error:
        return Definition(kind, Problem(Cause.FAILED, f"its schema cannot be read: {type(error).__name__}"))
    return Definition(kind, None, tuple(hub.line(each) for each in lost), foreign)


def lost_fields(own: Mapping[str, Any], stored: Mapping[str, Any]) -> list[str]:
    """Returns the paths of our schema that a stored CRD drops, without paths below a dropped one."""
    schema = own["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    lost: list[str] = []
    for path in pruned_paths(stored, _paths(schema, "")):
        if not lost or not path.startswith((f"{lost[-1]}.", f"{lost[-1]}[]")):
            lost.append(path)
    return lost


def _paths(schema: Mapping[str, Any], prefix: str) -> Iterator[str]:
    """Yields the path of each field, parents first."""
    for name, field in (schema.get("properties") or {}).items():
        if not prefix and name in ("apiVersion", "kind", "metadata"):
            continue
        items = field.get("items")
        yield f"{prefix}{name}"
        if items is not None:
            yield from _paths(items, f"{prefix}{name}[].")
        else:
            yield from _paths(field, f"{prefix}{name}.")
