"""What follows from deletions: namespaces take what they hold with them, owners what they own.

Owned objects always go after their owner, in the background; orphaning and foreground deletion are not there.
"""

from testbed.embedded.api.types import Object
from testbed.embedded.objects.kinds import NAMESPACES
from testbed.embedded.storage.store import Change, Collection, Store

_Place = tuple[Collection, str, str]


class Lifecycle:
    """Follows the changes of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._alive: set[str] = set()
        # By the uid of an owner, what has it among its owners; by namespace, what is in it.
        self._owned: dict[str, set[_Place]] = {}
        self._held: dict[str, set[_Place]] = {}
        store.subscribe(self._notice)

    def _notice(self, change: Change) -> None:
        place = (change.collection, change.namespace, change.name)
        for owner in _owners(change.old):
            self._owned.get(owner, set()).discard(place)
        uid = change.object["metadata"]["uid"]
        if change.type != "DELETED":
            self._alive.add(uid)
            for owner in _owners(change.object):
                self._owned.setdefault(owner, set()).add(place)
            if change.namespace:
                self._held.setdefault(change.namespace, set()).add(place)
        else:
            self._held.get(change.namespace, set()).discard(place)
            self._alive.discard(uid)
            self._delete_owned(uid)
        if change.collection == NAMESPACES and "deletionTimestamp" in change.object["metadata"]:
            self._empty(change.name)
        elif change.type == "DELETED" and change.namespace:
            self._finalize(change.namespace)

    def _delete_owned(self, uid: str) -> None:
        for collection, namespace, name in sorted(self._owned.pop(uid, ())):
            obj = self._store.find(collection, namespace, name)
            if obj is not None and self._alive.isdisjoint(_owners(obj)):
                self._store.delete(collection, namespace, name)

    def _empty(self, namespace: str) -> None:
        for collection, _, name in sorted(self._held.get(namespace, ())):
            if self._store.find(collection, namespace, name) is not None:
                self._store.delete(collection, namespace, name)
        self._finalize(namespace)

    def _finalize(self, name: str) -> None:
        """Let a namespace go that is to be deleted and holds nothing any more."""
        namespace = self._store.find(NAMESPACES, "", name)
        if namespace is None or "deletionTimestamp" not in namespace["metadata"] or self._held.get(name):
            return
        if (namespace.get("spec") or {}).get("finalizers"):
            self._store.update(NAMESPACES, {**namespace, "spec": {"finalizers": []}})


def _owners(obj: Object | None) -> set[str]:
    references = ((obj or {}).get("metadata") or {}).get("ownerReferences") or ()
    return {reference.get("uid", "") for reference in references}
