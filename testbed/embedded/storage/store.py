"""The objects of an API server, their versions and their history.

Callers keep the objects that they pass in, and receive copies.
"""

import random
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, cast

import msgspec

from testbed.embedded.api import statuses
from testbed.embedded.api.types import Object

# (group, plural), e.g. ("apps", "deployments"), ("", "pods").
Collection = tuple[str, str]
ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]
# (namespace, name); the namespace is "" for cluster-scoped objects.
Key = tuple[str, str]

Place = tuple[Collection, str, str]

NAMESPACES: Final = ("", "namespaces")
# Kubernetes counts generations of all custom kinds and of some built-in kinds.
_COUNTED: Final = frozenset({("", "pods"), ("apiextensions.k8s.io", "customresourcedefinitions")})
_UNCOUNTED_GROUPS: Final = frozenset(
    {"", "autoscaling", "coordination.k8s.io", "rbac.authorization.k8s.io", "apiregistration.k8s.io"}
)
# k8s.io/apiserver, storage/names: no vowels, and no 0, 1 and 3.
_SUFFIX: Final = "bcdfghjklmnpqrstvwxz2456789"
_DELETION: Final = ("deletionTimestamp", "deletionGracePeriodSeconds")


@dataclass(frozen=True)
class Change:
    """One write. `object` is the new object, or the deleted object with the version of the deletion.

    All listeners share the objects and must not change them.
    """

    collection: Collection
    type: ChangeType
    object: Object
    old: Object | None
    version: int

    @property
    def namespace(self) -> str:
        """The namespace of the object; "" for a cluster-scoped object."""
        return cast(str, self.object["metadata"].get("namespace", ""))

    @property
    def name(self) -> str:
        """The name of the object."""
        return cast(str, self.object["metadata"]["name"])


class Store:
    """All objects of one API server. `now` is the clock of creation and deletion times."""

    def __init__(self, now: Callable[[], datetime], *, history: int = 4096) -> None:
        self.version = 1
        self._now = now
        self._objects: dict[Collection, dict[Key, Object]] = {}
        # The newest changes, as many as `history`.
        self._changes: deque[Change] = deque()
        self._size = history
        self._compacted = 0  # the newest version whose change is no longer kept
        self._listeners: dict[object, Callable[[Change], None]] = {}
        self._pending: deque[Change] = deque()
        self._notifying = False

    def subscribe(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        """Call `listener` for each change from now on, in order; returns the function that unsubscribes.

        A listener may write. Its writes reach the listeners after the current change did.
        """
        token = object()
        self._listeners[token] = listener

        def unsubscribe() -> None:
            self._listeners.pop(token, None)

        return unsubscribe

    def since(self, version: int) -> list[Change]:
        """Returns the changes after a version. Raises StatusError Expired if they are not kept."""
        if version < self._compacted:
            raise statuses.expired(f"too old resource version: {version} ({self._compacted})")
        return [change for change in self._changes if change.version > version]

    def _add(self, change: Change) -> None:
        """Keep a change and notify the listeners."""
        self._changes.append(change)
        if len(self._changes) > self._size:
            self._compacted = self._changes.popleft().version
        self._pending.append(change)
        if self._notifying:
            return
        self._notifying = True
        try:
            while self._pending:
                current = self._pending.popleft()
                for listener in list(self._listeners.values()):
                    listener(current)
        finally:
            self._notifying = False

    def get(self, collection: Collection, namespace: str, name: str) -> Object:
        """Returns the object. Raises StatusError NotFound."""
        return _copy(self._require(collection, namespace, name))

    def find(self, collection: Collection, namespace: str, name: str) -> Object | None:
        """Returns the object, or None."""
        found = self._objects.get(collection, {}).get((namespace, name))
        return None if found is None else _copy(found)

    def list(self, collection: Collection, namespace: str = "") -> list[Object]:
        """Returns the objects of a collection, or of one namespace of it, in etcd's order."""
        objects = self._objects.get(collection, {})
        found = sorted(objects.items(), key=lambda item: "/".join(item[0]))
        return [_copy(obj) for key, obj in found if namespace in ("", key[0])]

    def identify(self, collection: Collection, metadata: Object) -> None:
        """Write the server's own fields into the metadata of a new object."""
        for field in (*_DELETION, "selfLink"):
            metadata.pop(field, None)
        metadata["uid"] = str(uuid.uuid4())
        metadata["creationTimestamp"] = self._time()
        if _has_generation(collection):
            metadata["generation"] = 1

    def create(
        self, collection: Collection, obj: Object, *, identified: bool = False, dry_run: bool = False
    ) -> Object:
        """Store a new object. Raises StatusError AlreadyExists.

        `identified`: the object went through `identify` before. `dry_run`, here and below: return the object
        without storing it.
        """
        obj = _copy(obj)
        metadata = obj.setdefault("metadata", {})
        namespace = metadata.get("namespace", "")
        if not metadata.get("name"):
            metadata["name"] = self.free_name(collection, namespace, metadata["generateName"])
        old = self._objects.setdefault(collection, {}).get((namespace, metadata["name"]))
        if old is not None:
            being_deleted = "deletionTimestamp" in old["metadata"]
            raise statuses.already_exists(*collection, metadata["name"], being_deleted=being_deleted)
        if not identified:
            self.identify(collection, metadata)
        return self._write(collection, "ADDED", obj, None, dry_run)

    def update(self, collection: Collection, obj: Object, *, dry_run: bool = False) -> Object:
        """Replace an object. Raises StatusError NotFound, or Conflict for an old resourceVersion.

        The server's own fields (uid, times, generation) stay. An unchanged object keeps its version. An
        object that is being deleted is removed with its last finalizer.
        """
        obj = _copy(obj)
        metadata = obj["metadata"]
        old = self._require(collection, metadata.get("namespace", ""), metadata["name"])
        kept = old["metadata"]
        if metadata.get("resourceVersion") not in (None, "", kept["resourceVersion"]):
            raise statuses.conflict(*collection, kept["name"])
        for field in ("uid", "creationTimestamp", "resourceVersion", "generation", *_DELETION):
            metadata.pop(field, None)
            if field in kept:
                metadata[field] = kept[field]
        if obj == old:
            return obj
        count_generation(collection, obj, old)
        if "deletionTimestamp" in metadata and not _has_finalizers(collection, obj):
            self._write(collection, "DELETED", _copy(old), old, dry_run)
            return obj
        return self._write(collection, "MODIFIED", obj, old, dry_run)

    def delete(self, collection: Collection, namespace: str, name: str, *, dry_run: bool = False) -> Object:
        """Remove an object, or mark it as deleted if it has finalizers; returns the last state.

        Raises StatusError NotFound.
        """
        old = self._require(collection, namespace, name)
        obj = _copy(old)
        metadata = obj["metadata"]
        if not _has_finalizers(collection, obj):
            return self._write(collection, "DELETED", obj, old, dry_run)
        if "deletionTimestamp" in metadata:
            return obj
        metadata |= {"deletionTimestamp": self._time(), "deletionGracePeriodSeconds": 0}
        if "generation" in metadata:
            metadata["generation"] += 1
        if collection == NAMESPACES:
            obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
        return self._write(collection, "MODIFIED", obj, old, dry_run)

    def remove(self, collection: Collection, namespace: str, name: str) -> None:
        """Remove an object regardless of its finalizers; an absent object is not an error."""
        old = self._objects.get(collection, {}).get((namespace, name))
        if old is not None:
            self._write(collection, "DELETED", _copy(old), old, dry_run=False)

    def free_name(self, collection: Collection, namespace: str, prefix: str) -> str:
        """Returns an unused name with the prefix."""
        while True:
            name = prefix + "".join(random.choices(_SUFFIX, k=5))
            if (namespace, name) not in self._objects.get(collection, {}):
                return name

    def compact(self) -> None:
        """Forget the history, as etcd's compaction does."""
        self.version += 1
        self._changes.clear()
        self._compacted = self.version

    def _require(self, collection: Collection, namespace: str, name: str) -> Object:
        found = self._objects.get(collection, {}).get((namespace, name))
        if found is None:
            raise statuses.not_found(*collection, name)
        return found

    def _write(
        self, collection: Collection, kind: ChangeType, obj: Object, old: Object | None, dry_run: bool
    ) -> Object:
        if dry_run:
            return obj
        self.version += 1
        metadata = obj["metadata"]
        metadata["resourceVersion"] = str(self.version)
        key = (metadata.get("namespace", ""), metadata["name"])
        if kind == "DELETED":
            del self._objects[collection][key]
        else:
            self._objects[collection][key] = obj
        self._add(Change(collection, kind, obj, old, self.version))
        return _copy(obj)

    def _time(self) -> str:
        return self._now().strftime("%Y-%m-%dT%H:%M:%SZ")


def count_generation(collection: Collection, obj: Object, old: Object) -> None:
    """Increment the generation if anything but metadata and status changed."""
    if _has_generation(collection) and "generation" in old["metadata"]:
        changed = any(obj.get(key) != old.get(key) for key in {*obj, *old} - {"metadata", "status"})
        obj["metadata"]["generation"] = old["metadata"]["generation"] + changed


def _has_generation(collection: Collection) -> bool:
    return collection in _COUNTED or collection[0] not in _UNCOUNTED_GROUPS


def _has_finalizers(collection: Collection, obj: Object) -> bool:
    """True if the object has finalizers; a namespace also has one in its spec."""
    in_spec = obj["spec"].get("finalizers") if collection == NAMESPACES and "spec" in obj else None
    return bool(obj["metadata"].get("finalizers") or in_spec)


def _copy(obj: Object) -> Object:
    """Copies JSON data in a tenth of the time of `copy.deepcopy`."""
    return cast(Object, msgspec.json.decode(msgspec.json.encode(obj)))


class GarbageCollector:
    """Cascading deletion: objects of a deleted namespace and of a deleted owner are deleted.

    A namespace stays Terminating until it is empty. Owned objects are always deleted in the background.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._alive: set[str] = set()
        # The objects of an owner by its uid, and those of a namespace by its name.
        self._dependents: dict[str, set[Place]] = {}
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
