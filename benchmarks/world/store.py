"""The objects of one emulated API server, with versions and watches."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

Object = dict[str, Any]
Key = tuple[str, str]
Schema = Mapping[str, Any]

# A watch from before the oldest of so many changes is answered with 410, as after a compaction.
REMEMBERED: Final = 10_000


class Refused(Exception):
    """A request that the server refuses, with the HTTP status and the reason of its answer."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind that is served at a plural of a version. `scale` is where its replicas are."""

    version: str
    plural: str
    kind: str
    namespaced: bool = True
    scale: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """One change of an object: its watch event and its encoded state."""

    number: int
    type: str
    object: Object
    body: bytes


Watcher = Callable[[Change], None]


@dataclass
class Collection:
    """The objects of one kind by (namespace, name), each with its encoded state."""

    kind: Kind
    objects: dict[Key, Object] = field(default_factory=dict)
    bodies: dict[Key, bytes] = field(default_factory=dict)
    changes: deque[Change] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    watchers: dict[int, Watcher] = field(default_factory=dict)


class Store:
    """All collections of one API server. `stamp` returns the present time as the API writes it."""

    def __init__(self, kinds: Mapping[tuple[str, str], Kind], stamp: Callable[[], str]) -> None:
        self.number = 1
        self.stamp = stamp
        # Before so many of the next PUTs, another client changes the object.
        self.races = 0
        # The structural schemas of the kinds whose spec may have no other fields, by version and plural.
        self.schemas: dict[tuple[str, str], Schema] = {}
        self._collections = {place: Collection(kind) for place, kind in kinds.items()}
        self._uids = itertools.count(1)
        self._watchers = itertools.count(1)

    def collection(self, version: str, plural: str) -> Collection:
        """Returns a collection. Raises Refused for a kind that is not served."""
        found = self._collections.get((version, plural))
        if found is None:
            raise Refused(
                404, "NotFound", f"the server could not find the requested resource ({plural}.{version})"
            )
        return found

    def find(self, version: str, plural: str, name: str, namespace: str = "") -> Object | None:
        """Returns an object; None if it is absent. The caller must not change it."""
        return self.collection(version, plural).objects.get((namespace, name))

    def all(self, version: str, plural: str) -> list[Object]:
        """Returns all objects of a kind. The caller must not change them."""
        return list(self.collection(version, plural).objects.values())

    def create(self, version: str, plural: str, given: Object) -> Object:
        """Stores a new object. Raises Refused if there is one of that name, or if its spec is invalid."""
        collection = self.collection(version, plural)
        self._check_spec(version, plural, given)
        meta = dict(given.get("metadata") or {})
        if "name" not in meta:
            meta["name"] = f"{meta.get('generateName', '')}{next(self._uids):x}"
        key = (meta.get("namespace", "") if collection.kind.namespaced else "", meta["name"])
        if key in collection.objects:
            raise Refused(409, "AlreadyExists", f'{plural} "{key[1]}" already exists')
        meta |= {"uid": f"uid-{next(self._uids)}", "generation": 1, "creationTimestamp": self.stamp()}
        made = {**given, "apiVersion": version, "kind": collection.kind.kind, "metadata": meta}
        return self._put(collection, key, made, "ADDED")

    def replace(self, version: str, plural: str, given: Object, *, part: str = "") -> Object:
        """Stores another state; `part` is "status" or "" for all but the status.

        Raises Refused if the object is absent, has another version than the given one, or if its spec is
        invalid.
        """
        collection = self.collection(version, plural)
        meta = given["metadata"]
        key = (meta.get("namespace", "") if collection.kind.namespaced else "", meta["name"])
        old = self._existing(collection, key)
        version_given = meta.get("resourceVersion")
        if version_given and version_given != old["metadata"]["resourceVersion"]:
            raise Refused(409, "Conflict", f'{plural} "{key[1]}": the object has been modified')
        if part == "status":
            new = {**old, "metadata": dict(old["metadata"]), "status": given.get("status")}
        else:
            self._check_spec(version, plural, given)
            new = {**given, "apiVersion": version, "kind": collection.kind.kind, "status": old.get("status")}
            kept = {name: old["metadata"][name] for name in ("uid", "creationTimestamp", "generation")}
            if "deletionTimestamp" in old["metadata"]:
                kept["deletionTimestamp"] = old["metadata"]["deletionTimestamp"]
            new["metadata"] = {**meta, **kept}
            new["metadata"]["generation"] += new.get("spec") != old.get("spec")
        if _content(new) == _content(old):
            return old
        if "deletionTimestamp" in new["metadata"] and not new["metadata"].get("finalizers"):
            return self._remove(collection, key, new)
        return self._put(collection, key, new, "MODIFIED")

    def race(self, version: str, plural: str, found: Object) -> Object:
        """Changes an object as another client does just before a PUT, if one is due; returns its state."""
        if not self.races:
            return found
        self.races -= 1
        annotations = {**(found["metadata"].get("annotations") or {}), "other-client": str(self.number)}
        return self.set(
            version, plural, {**found, "metadata": {**found["metadata"], "annotations": annotations}}
        )

    def set(self, version: str, plural: str, given: Object) -> Object:
        """Stores an object as it is, with its status, as the emulated controllers do."""
        collection = self.collection(version, plural)
        meta = given["metadata"]
        key = (meta.get("namespace", "") if collection.kind.namespaced else "", meta["name"])
        old = collection.objects.get(key)
        if old is None:
            # Ties are decided by the uid of an object, so one with a given uid shifts no other's.
            uid = meta.get("uid") or f"uid-{next(self._uids)}"
            kept = {"uid": uid, "generation": 1, "creationTimestamp": self.stamp()}
        else:
            kept = {name: old["metadata"][name] for name in ("uid", "generation", "creationTimestamp")}
        made = {"apiVersion": version, "kind": collection.kind.kind, **given, "metadata": {**kept, **meta}}
        return self._put(collection, key, made, "ADDED" if old is None else "MODIFIED")

    def remove(self, version: str, plural: str, name: str, namespace: str = "") -> None:
        """Removes an object, whatever its finalizers are."""
        collection = self.collection(version, plural)
        self._remove(collection, (namespace, name), self._existing(collection, (namespace, name)))

    def delete(self, version: str, plural: str, name: str, namespace: str, only: Mapping[str, str]) -> Object:
        """Removes an object, or marks it as deleted if it has finalizers. `only` are preconditions."""
        collection = self.collection(version, plural)
        key = (namespace, name)
        old = self._existing(collection, key)
        if any(old["metadata"].get(field) != value for field, value in only.items()):
            raise Refused(409, "Conflict", f'{plural} "{name}": the preconditions are not met')
        if not old["metadata"].get("finalizers"):
            return self._remove(collection, key, old)
        if "deletionTimestamp" in old["metadata"]:
            return old
        marked = {**old, "metadata": {**old["metadata"], "deletionTimestamp": self.stamp()}}
        return self._put(collection, key, marked, "MODIFIED")

    def follow(self, collection: Collection, since: int, watcher: Watcher) -> Callable[[], None]:
        """Calls `watcher` with each change after version `since`; returns the function that ends it."""
        if (
            collection.changes
            and len(collection.changes) == REMEMBERED
            and collection.changes[0].number > since + 1
        ):
            raise Refused(410, "Expired", f"too old resource version: {since} ({self.number})")
        for change in tuple(collection.changes):
            if change.number > since:
                watcher(change)
        number = next(self._watchers)
        collection.watchers[number] = watcher
        return lambda: collection.watchers.pop(number, None) and None

    def versions(self) -> Iterator[Kind]:
        """Yields all kinds that are served."""
        return (one.kind for one in self._collections.values())

    def _check_spec(self, version: str, plural: str, given: Object) -> None:
        """Raises Refused for unknown fields, as an API server does with fieldValidation=Strict."""
        schema = self.schemas.get((version, plural))
        if schema is None:
            return
        unknown = unknown_fields(schema["properties"]["spec"], given.get("spec"), "spec")
        if listed := ", ".join(f'unknown field "{path}"' for path in unknown):
            raise Refused(400, "BadRequest", f"strict decoding error: {listed}")

    def _existing(self, collection: Collection, key: Key) -> Object:
        found = collection.objects.get(key)
        if found is None:
            plural, group = collection.kind.plural, collection.kind.version.rpartition("/")[0]
            raise Refused(404, "NotFound", f'{plural}{group and "."}{group} "{key[1]}" not found')
        return found

    def _put(self, collection: Collection, key: Key, new: Object, type_: str) -> Object:
        self.number += 1
        new["metadata"]["resourceVersion"] = str(self.number)
        body = collection.bodies[key] = msgspec.json.encode(new)
        collection.objects[key] = new
        self._tell(collection, Change(self.number, type_, new, body))
        return new

    def _remove(self, collection: Collection, key: Key, last: Object) -> Object:
        self.number += 1
        last = {**last, "metadata": {**last["metadata"], "resourceVersion": str(self.number)}}
        del collection.objects[key], collection.bodies[key]
        self._tell(collection, Change(self.number, "DELETED", last, msgspec.json.encode(last)))
        return last

    def _tell(self, collection: Collection, change: Change) -> None:
        collection.changes.append(change)
        for watcher in tuple(collection.watchers.values()):
            watcher(change)


def _content(stored: Object) -> Object:
    """Returns an object without what every write changes."""
    meta = {k: v for k, v in stored["metadata"].items() if k not in ("resourceVersion", "managedFields")}
    return {**stored, "metadata": meta}


def unknown_fields(schema: Schema, value: Any, path: str) -> Iterator[str]:
    """Yields the paths of the fields that a structural schema does not have."""
    if "x-kubernetes-preserve-unknown-fields" in schema:
        return
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from unknown_fields(schema.get("items", {}), item, f"{path}[{index}]")
    elif isinstance(value, dict):
        known, others = schema.get("properties", {}), schema.get("additionalProperties")
        for name, item in value.items():
            part = known.get(name, others)
            if part is None:
                yield f"{path}.{name}"
            else:
                yield from unknown_fields(part, item, f"{path}.{name}")
