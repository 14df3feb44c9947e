"""CustomResourceDefinitions: each makes kinds, which are served as soon as it is there."""

from collections.abc import Callable
from datetime import datetime

from testbed.embedded.api.types import Object
from testbed.embedded.objects.definitions import custom_schema
from testbed.embedded.objects.kinds import CRDS, Kind, Kinds
from testbed.embedded.storage.store import Change, Store


class CustomKinds:
    """Keeps the custom kinds, and the status of their definitions, as the store has them."""

    def __init__(self, store: Store, kinds: Kinds, now: Callable[[], datetime]) -> None:
        self._store = store
        self._kinds = kinds
        self._now = now
        store.subscribe(self._notice)

    def _notice(self, change: Change) -> None:
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
        present = self._store.find(CRDS, "", change.name)  # somebody else may have heard of it sooner
        if present is not None:
            self._store.update(CRDS, {**present, "status": self._status(present)})

    def _status(self, crd: Object) -> Object:
        spec = crd["spec"]
        names = spec["names"]
        given = {"listKind": f"{names['kind']}List", "singular": names["kind"].lower(), **names}
        stored = next(version["name"] for version in spec["versions"] if version["storage"])
        old = crd.get("status") or {}
        conditions = old.get("conditions") or [
            _condition("NamesAccepted", "NoConflicts", "no conflicts found", self._now()),
            _condition(
                "Established", "InitialNamesAccepted", "the initial names have been accepted", self._now()
            ),
        ]
        versions = old.get("storedVersions") or []
        return {
            "conditions": conditions,
            "acceptedNames": given,
            "storedVersions": versions if stored in versions else [*versions, stored],
        }


def kinds_of(crd: Object) -> tuple[Kind, ...]:
    """The kinds that a definition serves, one for each served version."""
    spec = crd["spec"]
    names = spec["names"]
    found = []
    for version in spec["versions"]:
        subresources = version.get("subresources") or {}
        if version["served"]:
            kind = Kind(
                spec["group"],
                version["name"],
                names["plural"],
                names["kind"],
                namespaced=spec["scope"] == "Namespaced",
                short_names=tuple(names.get("shortNames") or ()),
                categories=tuple(names.get("categories") or ()),
                subresources=frozenset(subresources),
                singular=names.get("singular") or names["kind"].lower(),
                unconditional=False,
                custom=True,
                storage=version["storage"],
                schema=custom_schema((version.get("schema") or {}).get("openAPIV3Schema")),
                columns=tuple(version.get("additionalPrinterColumns") or ()),
                scale=subresources.get("scale") or {},
            )
            found.append(kind)
    return tuple(found)


def _condition(type_: str, reason: str, message: str, now: datetime) -> Object:
    return {
        "type": type_,
        "status": "True",
        "lastTransitionTime": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "reason": reason,
        "message": message,
    }
