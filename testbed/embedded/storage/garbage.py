"""Cascading deletion: objects of a deleted namespace and of a deleted owner are deleted.

A namespace stays Terminating until it is empty. Owned objects are always deleted in the background.
"""

from testbed.embedded.api.types import Object
from testbed.embedded.storage.store import NAMESPACES, Change, Collection, Store

_Place = tuple[Collection, str, str]


class GarbageCollector:
    """Follows the changes of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._alive: set[str] = set()
        # The objects of an owner by its uid, and those of a namespace by its name.
        self._dependents: dict[str, set[_Place]] = {}
        store.subscribe(self._changed)

    def _changed(self, change: Change) -> None:
        place = (change.collection, change.namespace, change.name)
        uid = change.object["metadata"]["uid"]
        for owner in _owners(change.old):
            self._dependents.get(owner, set()).discard(place)
        if change.type != "DELETED":
            self._alive.add(uid)
            for owner in _owners(change.object):
                self._dependents.setdefault(owner, set()).add(place)
        else:
            self._alive.discard(uid)
            self._delete(uid)
        if change.collection == NAMESPACES and "deletionTimestamp" in change.object["metadata"]:
            self._delete(change.name)
            self._finalize(change.name)
        elif change.type == "DELETED" and change.namespace:
            self._finalize(change.namespace)

    def _delete(self, owner: str) -> None:
        for collection, namespace, name in sorted(self._dependents.get(owner, ())):
            obj = self._store.find(collection, namespace, name)
            if obj is not None and (owner == namespace or self._alive.isdisjoint(_owners(obj))):
                self._store.delete(collection, namespace, name)

    def _finalize(self, name: str) -> None:
        """Remove the finalizer of a Terminating namespace that is empty."""
        namespace = self._store.find(NAMESPACES, "", name)
        deleted = namespace is not None and "deletionTimestamp" in namespace["metadata"]
        if namespace and deleted and not self._dependents.get(name) and namespace["spec"].get("finalizers"):
            self._store.update(NAMESPACES, {**namespace, "spec": {"finalizers": []}})


def _owners(obj: Object | None) -> set[str]:
    """Returns the uids of an object's owners and its namespace."""
    metadata = (obj or {}).get("metadata") or {}
    owners = {reference.get("uid", "") for reference in metadata.get("ownerReferences") or ()}
    return owners | ({metadata["namespace"]} if metadata.get("namespace") else set())
