"""Serves the kinds of CustomResourceDefinitions."""

from collections.abc import Callable
from datetime import datetime

from testbed.embedded.api.types import Object
from testbed.embedded.objects.definitions import custom_schema
from testbed.embedded.objects.kinds import CRDS, Kind, Kinds
from testbed.embedded.storage.store import Change, Store


class CustomKinds:
    """Follows the CRDs of a store: registers their kinds and writes their status."""

    def __init__(self, store: Store, kinds: Kinds, now: Callable[[], datetime]) -> None:
        self._store = store
        self._kinds = kinds
        self._now = now
        store.subscribe(self._changed)

    def _changed(self, change: Change) -> None:
        if change.collection != CRDS:
            return
        crd = change.object
        if change.type == "DELETED":
            collection = (crd["spec"]["group"], crd["spec"]["names"]["plural"])
            for obj in self._store.list(collection):
                self._store.remove(collection, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
            self._kinds.set_custom(change.name, ())
            return
        self._kinds.set_custom(change.name, kinds_of(crd))
        current = self._store.find(CRDS, "", change.name)  # an earlier listener may have deleted it
        if current is not None:
            self._store.update(CRDS, {**current, "status": self._status(current)})

    def _status(self, crd: Object) -> Object:
        spec, old = crd["spec"], crd.get("status") or {}
        names = spec["names"]
        stored = next(version["name"] for version in spec["versions"] if version["storage"])
        versions = old.get("storedVersions") or []
        return {
            "conditions": old.get("conditions")
            or [
                self._condition("NamesAccepted", "NoConflicts", "no conflicts found"),
                self._condition(
                    "Established", "InitialNamesAccepted", "the initial names have been accepted"
                ),
            ],
            "acceptedNames": {
                "listKind": f"{names['kind']}List",
                "singular": names["kind"].lower(),
                **names,
            },
            "storedVersions": versions if stored in versions else [*versions, stored],
        }

    def _condition(self, type_: str, reason: str, message: str) -> Object:
        return {
            "type": type_,
            "status": "True",
            "lastTransitionTime": f"{self._now():%Y-%m-%dT%H:%M:%SZ}",
            "reason": reason,
            "message": message,
        }


def kinds_of(crd: Object) -> tuple[Kind, ...]:
    """Returns one kind for each served version of a CRD."""
    spec = crd["spec"]
    names = spec["names"]
    return tuple(
        Kind(
            spec["group"],
            version["name"],
            names["plural"],
            names["kind"],
            namespaced=spec["scope"] == "Namespaced",
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            subresources=frozenset(version.get("subresources") or ()),
            singular=names.get("singular") or names["kind"].lower(),
            unconditional=False,
            custom=True,
            schema=custom_schema((version.get("schema") or {}).get("openAPIV3Schema")),
            columns=tuple(version.get("additionalPrinterColumns") or ()),
            scale=(version.get("subresources") or {}).get("scale") or {},
        )
        for version in spec["versions"]
        if version["served"]
    )
