"""The objects, their versions, and what happened to them: etcd with the API machinery's rules on top.

Objects handed in may be used again by who did so, objects handed out by `get`, `find`, `list` and the writes
are copies. Those of a `Change` are shared by everybody who listens: read only.
"""

import builtins
import random
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, cast

import msgspec

from playground import refusals
from playground.pipeline import Object

# (group, plural), e.g. ("apps", "deployments"), ("", "pods").
Collection = tuple[str, str]
# (namespace, name); namespace "" for what is in none.
Key = tuple[str, str]
ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]

_NAMESPACES: Collection = ("", "namespaces")
_DEPLOYMENTS: Collection = ("apps", "deployments")
# Kubernetes counts no generations for these.
UNCOUNTED: frozenset[Collection] = frozenset(
    {
        *(("", plural) for plural in ("namespaces", "services", "secrets", "configmaps", "serviceaccounts")),
        *(("", plural) for plural in ("events", "nodes")),
        *(
            ("rbac.authorization.k8s.io", plural)
            for plural in ("roles", "rolebindings", "clusterroles", "clusterrolebindings")
        ),
        ("autoscaling", "horizontalpodautoscalers"),
        ("coordination.k8s.io", "leases"),
        ("apiregistration.k8s.io", "apiservices"),
    }
)
# k8s.io/apiserver, storage/names: no vowels, no 0, 1 and 3.
_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"
_LONGEST_PREFIX = 58
_GENERATED_TRIES = 8


@dataclass(frozen=True)
class Change:
    """One write. `object` is what is there now, or what was there last, with the version of the write."""

    collection: Collection
    type: ChangeType
    object: Object
    old: Object | None
    version: int

    @property
    def namespace(self) -> str:
        """Of the object; "" if it is in none."""
        return cast(str, self.object["metadata"].get("namespace", ""))

    @property
    def name(self) -> str:
        """Of the object."""
        return cast(str, self.object["metadata"]["name"])


class Store:
    """All objects of one API server. `now` is the clock of creation and deletion times."""

    def __init__(self, now: Callable[[], datetime], *, history: int = 4096) -> None:
        self.version = 1
        self._now = now
        self._objects: dict[Collection, dict[Key, Object]] = {}
        self._history: deque[Change] = deque()
        self._remembered = history
        self._forgotten = 0  # the newest version of which nothing is remembered
        self._listeners: dict[object, Callable[[Change], None]] = {}
        self._untold: deque[Change] = deque()
        self._telling = False

    def get(self, collection: Collection, namespace: str, name: str) -> Object:
        """The object. Refusal NotFound."""
        found = self.find(collection, namespace, name)
        if found is None:
            raise refusals.not_found(*collection, name)
        return found

    def find(self, collection: Collection, namespace: str, name: str) -> Object | None:
        """The object, or None."""
        found = self._objects.get(collection, {}).get((namespace, name))
        return None if found is None else _copy(found)

    def list(self, collection: Collection, namespace: str = "") -> list[Object]:
        """The objects of a collection, of one namespace if one is given, by namespace and name."""
        objects = self._objects.get(collection, {})
        return [_copy(obj) for key, obj in sorted(objects.items(), key=_order) if namespace in ("", key[0])]

    def at(self, collection: Collection, version: int, namespace: str = "") -> builtins.list[Object]:
        """The objects of a collection as they were at a version. Refusal Expired if that is forgotten."""
        objects = dict(self._objects.get(collection, {}))
        for change in reversed(self.since(version)):
            if change.collection == collection:
                if change.old is None:
                    del objects[change.namespace, change.name]
                else:
                    objects[change.namespace, change.name] = change.old
        return [_copy(obj) for key, obj in sorted(objects.items(), key=_order) if namespace in ("", key[0])]

    def identify(self, collection: Collection, metadata: Object) -> None:
        """Write into the metadata of a new object what the server decides."""
        metadata["uid"] = str(uuid.uuid4())
        metadata["creationTimestamp"] = self._time()
        for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
            metadata.pop(field, None)
        if collection not in UNCOUNTED:
            metadata["generation"] = 1

    def create(
        self, collection: Collection, obj: Object, *, identified: bool = False, dry_run: bool = False
    ) -> Object:
        """Store a new object. Refusal AlreadyExists; the name may come from generateName.

        `identified`: the object went through `identify` already.

        With `dry_run`, here and below, it is only said what would be stored.
        """
        obj = _copy(obj)
        metadata = obj.setdefault("metadata", {})
        objects = self._objects.setdefault(collection, {})
        namespace = metadata.get("namespace", "")
        if not metadata.get("name"):
            metadata["name"] = self.free_name(collection, namespace, metadata["generateName"])
        there = objects.get((namespace, metadata["name"]))
        if there is not None:
            being_deleted = "deletionTimestamp" in there["metadata"]
            raise refusals.already_exists(*collection, metadata["name"], being_deleted=being_deleted)
        if not identified:
            self.identify(collection, metadata)
        return self._write(collection, "ADDED", obj, None, dry_run=dry_run)

    def update(
        self, collection: Collection, obj: Object, *, bump_generation: bool = True, dry_run: bool = False
    ) -> Object:
        """Replace an object. Refusal NotFound, or Conflict if `metadata.resourceVersion` is given and old.

        What the server alone decides stays (uid, times, generation). Nothing changed is no new version. An
        object that is being deleted goes with its last finalizer. `bump_generation`: whether a change of
        anything but metadata and status counts up.
        """
        obj = _copy(obj)
        metadata = obj["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        old = self._objects.get(collection, {}).get((namespace, name))
        if old is None:
            raise refusals.not_found(*collection, name)
        kept = old["metadata"]
        self._check(collection, kept, metadata.get("uid"), metadata.get("resourceVersion"))
        for field in ("uid", "creationTimestamp", "resourceVersion", "generation"):
            _keep(metadata, kept, field)
        for field in ("deletionTimestamp", "deletionGracePeriodSeconds"):
            _keep(metadata, kept, field)
        if obj == old:
            return obj
        if bump_generation:
            count_generation(collection, obj, old)
        if "deletionTimestamp" in metadata and not _held(collection, obj):
            self._write(collection, "DELETED", _copy(old), old, dry_run=dry_run)
            return obj
        return self._write(collection, "MODIFIED", obj, old, dry_run=dry_run)

    def delete(
        self,
        collection: Collection,
        namespace: str,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        dry_run: bool = False,
    ) -> Object:
        """Remove an object, or begin to if it has finalizers. Refusal NotFound or Conflict.

        Gives the object as it was last: with a deletionTimestamp if it is still there.
        """
        old = self._objects.get(collection, {}).get((namespace, name))
        if old is None:
            raise refusals.not_found(*collection, name)
        self._check(collection, old["metadata"], uid, resource_version)
        obj = _copy(old)
        metadata = obj["metadata"]
        if not _held(collection, obj):
            return self._write(collection, "DELETED", obj, old, dry_run=dry_run)
        if "deletionTimestamp" in metadata:
            return obj
        metadata["deletionTimestamp"] = self._time()
        metadata["deletionGracePeriodSeconds"] = 0
        if "generation" in metadata:
            metadata["generation"] += 1
        if collection == _NAMESPACES:
            obj.setdefault("status", {})["phase"] = "Terminating"
        return self._write(collection, "MODIFIED", obj, old, dry_run=dry_run)

    def remove(self, collection: Collection, obj: Object) -> None:
        """Remove an object whatever its finalizers; nothing if it is gone."""
        if self.find(collection, obj["metadata"].get("namespace", ""), obj["metadata"]["name"]) is not None:
            self._write(collection, "DELETED", obj, obj, dry_run=False)

    def subscribe(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        """Call `listener` for each change from now on, in order; gives the function that ends it.

        A listener may write: what it writes is told when everybody has heard of what came before.
        """
        token = object()
        self._listeners[token] = listener

        def unsubscribe() -> None:
            self._listeners.pop(token, None)

        return unsubscribe

    def since(self, version: int) -> builtins.list[Change]:
        """What happened after a version. Refusal Expired if that is forgotten."""
        if version < self._forgotten:
            raise refusals.expired(f"too old resource version: {version} ({self._forgotten})")
        return [change for change in self._history if change.version > version]

    def free_name(self, collection: Collection, namespace: str, prefix: str) -> str:
        """A name that begins so and is not taken, but for bad luck."""
        objects = self._objects.get(collection, {})
        for _ in range(_GENERATED_TRIES):
            name = prefix[:_LONGEST_PREFIX] + "".join(random.choices(_SUFFIX, k=5))
            if (namespace, name) not in objects:
                break
        return name

    def compact(self) -> None:
        """Forget what happened."""
        self._history.clear()
        self.version += 1
        self._forgotten = self.version

    def _check(
        self, collection: Collection, stored: Object, uid: str | None, resource_version: str | None
    ) -> None:
        for field, asked in (("uid", uid), ("resourceVersion", resource_version)):
            if asked and asked != stored[field]:
                raise refusals.conflict(
                    *collection, stored["name"], _PRECONDITION[field](asked, stored[field])
                )

    def _write(
        self,
        collection: Collection,
        kind: ChangeType,
        obj: Object,
        old: Object | None,
        *,
        dry_run: bool,
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
        change = Change(collection, kind, obj, old, self.version)
        self._history.append(change)
        if len(self._history) > self._remembered:
            self._forgotten = self._history.popleft().version
        self._untold.append(change)
        self._tell()
        return _copy(obj)

    def _tell(self) -> None:
        if self._telling:
            return
        self._telling = True
        try:
            while self._untold:
                change = self._untold.popleft()
                for listener in list(self._listeners.values()):
                    listener(change)
        finally:
            self._telling = False

    def _time(self) -> str:
        return self._now().strftime("%Y-%m-%dT%H:%M:%SZ")


_PRECONDITION: dict[str, Callable[[str, str], str]] = {
    "uid": lambda asked, stored: (
        f"Precondition failed: UID in precondition: {asked}, UID in object meta: {stored}"
    ),
    "resourceVersion": lambda _asked, _stored: refusals.MODIFIED,
}


def _copy(obj: Object) -> Object:
    """A copy of what is JSON, in a tenth of the time of `copy.deepcopy`."""
    return cast(Object, msgspec.json.decode(msgspec.json.encode(obj)))


def _held(collection: Collection, obj: Object) -> bool:
    """Whether finalizers keep an object; a namespace has one in its spec, too."""
    of_spec = obj["spec"].get("finalizers") if collection == _NAMESPACES and "spec" in obj else None
    return bool(obj["metadata"].get("finalizers") or of_spec)


def _keep(metadata: Object, kept: Object, field: str) -> None:
    metadata.pop(field, None)
    if field in kept:
        metadata[field] = kept[field]


def count_generation(collection: Collection, obj: Object, old: Object) -> None:
    """One generation more if something else changed than metadata and status."""
    if "generation" in old["metadata"] and collection not in UNCOUNTED:
        changed = _wanted(collection, obj) != _wanted(collection, old)
        obj["metadata"]["generation"] = old["metadata"]["generation"] + changed


def _wanted(collection: Collection, obj: Object) -> dict[str, Any]:
    wanted = {key: value for key, value in obj.items() if key not in ("metadata", "status")}
    if collection == _DEPLOYMENTS:  # Deployments alone count their annotations, too
        wanted["annotations"] = obj["metadata"].get("annotations")
    return wanted


def _order(item: tuple[Key, Object]) -> str:
    """How etcd orders the objects of a collection."""
    return "/".join(item[0])
