"""Writes statuses and finalizers, with a resourceVersion, and only while leading."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from controller.cronfederatedhpa.objects import CronObject, ObjectsByTarget
from controller.cronfederatedhpa.scales import FIELD_MANAGER
from controller.cronfederatedhpa.targets import HUB_DEADLINE_SECONDS
from fedhpa.api.cronfederatedhpa import KIND
from fedhpa.api.errors import ApiError, Conflict, FedHPAError
from fedhpa.api.federatedhpa import API_VERSION
from fedhpa.kube import NOT_FOUND, ApiClient, Key, Resource, patch_status

CRON_FEDERATED_HPAS: Final = Resource(API_VERSION, KIND, "cronfederatedhpas", namespaced=True, scale=False)
# Stands on an object while one of its windows is open, so that a deletion restores the values first.
FINALIZER: Final = "autoscaling.karmada.io/fedhpa-cron-window"
TRIES: Final = 5
# The fields of the status that Karmada's CRD lacks.
OUR_FIELDS: Final = ("observedGeneration", "conditions")


class NotLeading(FedHPAError):
    """The Lease of this process ended, so it must not write."""


class ObjectWriter:
    """Writes objects of `objects`, and stores what the hub returns there. It may while `leads` is True."""

    def __init__(self, hub: ApiClient, objects: ObjectsByTarget, leads: Callable[[], bool]) -> None:
        self._hub = hub
        self._objects = objects
        self._leads = leads
        # True if the hub dropped fields of the last status that was written.
        self.hub_drops_fields = False

    def check_lease(self) -> None:
        """Raises NotLeading if another process may hold the Lease."""
        if not self._leads():
            raise NotLeading("the Lease is not held any more")

    async def patch_status(self, owner: CronObject, patch: Mapping[str, Any]) -> None:
        """Merges a patch into the status of an object. Raises ApiError if the hub refuses it."""

        async def write(version: str) -> Mapping[str, Any]:
            before = (self._objects.get(owner.key) or owner).raw.get("status") or {}
            stored = await patch_status(
                self._hub,
                _path(owner.key),
                dict(patch),
                resource_version=version,
                manager=FIELD_MANAGER,
                deadline=HUB_DEADLINE_SECONDS,
            )
            wanted = _merged(before, patch)
            kept = stored.get("status") or {}
            self.hub_drops_fields = any(
                wanted.get(name) is not None and name not in kept for name in OUR_FIELDS
            )
            # A status that lacks our fields would be written again and again.
            return {**stored, "status": wanted} if self.hub_drops_fields else stored

        await self._write(owner, write)

    async def set_finalizer(self, owner: CronObject, *, wanted: bool) -> None:
        """Adds or removes the finalizer of an object. Raises ApiError if the hub refuses it."""

        async def write(version: str) -> Mapping[str, Any]:
            latest = self._objects.get(owner.key) or owner
            others = [each for each in latest.cron.metadata.finalizers if each != FINALIZER]
            finalizers = [*others, FINALIZER] if wanted else others
            patch = {"metadata": {"resourceVersion": version, "finalizers": finalizers}}
            response = await self._hub.patch(
                _path(owner.key), patch, manager=FIELD_MANAGER, deadline=HUB_DEADLINE_SECONDS
            )
            return response.json()

        await self._write(owner, write)

    async def _write(self, owner: CronObject, write: Callable[[str], Awaitable[Mapping[str, Any]]]) -> None:
        """Makes one write with the newest resourceVersion. After a conflict the object is read again."""
        raw = (self._objects.get(owner.key) or owner).raw
        for attempt in range(1, TRIES + 1):
            self.check_lease()
            try:
                written = await write(str(raw["metadata"].get("resourceVersion", "")))
            except Conflict:
                if attempt == TRIES:
                    raise
            except ApiError as error:
                if error.status == NOT_FOUND:
                    return
                raise
            else:
                self._objects.put(CronObject.of(owner.key, written), written=True)
                return
            raw = await self._hub.get_json(_path(owner.key), deadline=HUB_DEADLINE_SECONDS)
            if raw["metadata"].get("uid") != owner.raw["metadata"].get("uid"):
                return
            self._objects.put(CronObject.of(owner.key, raw))


def _merged(old: Any, patch: Any) -> Any:
    """Returns a value after a JSON merge patch (RFC 7386)."""
    if not isinstance(patch, Mapping):
        return patch
    kept = dict(old) if isinstance(old, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            kept.pop(name, None)
        else:
            kept[name] = _merged(kept.get(name), value)
    return kept


def _path(key: Key) -> str:
    return CRON_FEDERATED_HPAS.path(*key)
