"""The finalizer of FederatedHPAs whose member HPAs must be removed before them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from controller.publish import FEDERATED_HPAS, FIELD_MANAGER
from fedhpa.api.errors import ApiError, Conflict
from fedhpa.api.member_hpas import FINALIZER
from fedhpa.kube import NOT_FOUND, ApiClient

TRIES: Final = 5


def has_finalizer(raw: Mapping[str, Any]) -> bool:
    """True if a FederatedHPA has the finalizer."""
    return FINALIZER in (raw["metadata"].get("finalizers") or ())


def is_deleted(raw: Mapping[str, Any]) -> bool:
    """True if a FederatedHPA is being deleted."""
    return bool(raw["metadata"].get("deletionTimestamp"))


async def set_finalizer(hub: ApiClient, raw: Mapping[str, Any], deadline: float, *, wanted: bool) -> bool:
    """Add the finalizer to the object read as `raw`, or remove it. Other finalizers stay.

    Returns False if the object was deleted, or created again, in between; then nothing is written. Raises
    Conflict after TRIES attempts, and ApiError if the hub refuses. The deadline applies to each call.
    """
    metadata = raw["metadata"]
    uid, path = metadata.get("uid"), FEDERATED_HPAS.path(metadata["namespace"], metadata["name"])
    for attempt in range(1, TRIES + 1):
        present = metadata.get("finalizers") or []
        if (FINALIZER in present) == wanted:
            return True
        if wanted and metadata.get("deletionTimestamp"):
            return False
        others = [each for each in present if each != FINALIZER]
        change = {
            "resourceVersion": metadata.get("resourceVersion", ""),
            "finalizers": [*others, FINALIZER] if wanted else others,
        }
        try:
            await hub.patch(path, {"metadata": change}, manager=FIELD_MANAGER, deadline=deadline)
        except Conflict:
            if attempt == TRIES:
                raise
        except ApiError as error:
            if error.status == NOT_FOUND:
                return False
            raise
        else:
            return True
        try:
            metadata = (await hub.get_json(path, deadline=deadline))["metadata"]
        except ApiError as error:
            if error.status == NOT_FOUND:
                return False
            raise
        if metadata.get("uid") != uid:
            return False
    return False
