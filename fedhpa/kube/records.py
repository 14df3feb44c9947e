"""The records that a reflector makes of items, and the listeners for their changes.

An unreadable item never hides the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from types import MappingProxyType
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec
import structlog

from fedhpa.api.json import InvalidJson, decode_json
from fedhpa.api.wire import ObjectMeta
from fedhpa.kube.supervision import report_failure

I = TypeVar("I")  # noqa: E741  # an item as decoded
T = TypeVar("T")  # the record made of it
Key = tuple[str, str]


class ObjectHead(msgspec.Struct, frozen=True):
    """The type of an object, and its metadata."""

    kind: str = ""
    apiVersion: str = ""
    metadata: ObjectMeta = ObjectMeta()


class ItemReader(Generic[T]):
    """Decodes items as `item` and makes records of them; the arguments are those of `Reflector`."""

    def __init__(
        self,
        item: type[I],
        make: Callable[[I], T | None],
        log: structlog.typing.FilteringBoundLogger,
        on_unreadable: Callable[[Key, str, str], None] | None,
    ) -> None:
        self._item: type[Any] = item
        self._make: Callable[[Any], T | None] = make
        self._log = log
        self._on_unreadable = on_unreadable
        self._unreadable: set[Key] = set()

    def decode(self, key: Key, raw: msgspec.Raw) -> T | None:
        """Returns the record of an item's text; None if the item is left out."""
        try:
            item = decode_json(raw, self._item)
        except InvalidJson as error:
            self._log.warning("object cannot be read", namespace=key[0], name=key[1], error=str(error))
            self._unreadable.add(key)
            self._tell_unreadable(key, raw, str(error))
            return None
        self._unreadable.discard(key)
        return self._record(key, item)

    def forget(self, key: Key) -> None:
        """Tell that an object is deleted, if it was unreadable."""
        if key in self._unreadable:
            self._unreadable.discard(key)
            self._tell_unreadable(key, None, "")

    def keep_only(self, keys: Set[Key]) -> None:
        """Tell that all other unreadable objects are deleted."""
        for key in self._unreadable - keys:
            self.forget(key)

    def keyed(self, item: Any) -> tuple[Key, T | None]:
        """Returns key and record of an item, which is decoded or, if it could not be, its text."""
        if not isinstance(item, msgspec.Raw):
            key = _key(item)
            return key, self._record(key, item)
        key = self._raw_key(item)
        return key, self.decode(key, item) if key[1] else None

    def _record(self, key: Key, item: Any) -> T | None:
        try:
            return self._make(item)
        # An object that makes `make` fail must not end the watch of all others.
        except Exception as error:
            self._log.warning(
                "object left out", namespace=key[0], name=key[1], error=f"{type(error).__name__}: {error}"
            )
            return None

    def _tell_unreadable(self, key: Key, raw: msgspec.Raw | None, reason: str) -> None:
        if self._on_unreadable is None:
            return
        try:
            self._on_unreadable(key, "" if raw is None else head_of(raw).metadata.uid, reason)
        # A listener must not end the watch of all objects.
        except Exception as error:
            report_failure("object-unreadable", error, namespace=key[0], name=key[1])

    def _raw_key(self, raw: msgspec.Raw) -> Key:
        try:
            metadata = head_of(raw).metadata
        except InvalidJson as error:
            self._log.warning("object without readable metadata left out", error=str(error))
            return ("", "")
        return metadata.namespace, metadata.name


def head_of(raw: msgspec.Raw) -> ObjectHead:
    """Returns the type and the metadata of an object's text. Raises InvalidJson."""
    return decode_json(raw, ObjectHead)


def _key(item: Any) -> Key:
    if isinstance(item, dict):
        metadata = item.get("metadata") or {}
        return metadata.get("namespace", ""), metadata.get("name", "")
    return item.metadata.namespace, item.metadata.name


# Is called with the key of a change, and the records before and after it: None where there is none.
Listener: TypeAlias = Callable[[Key, T | None, T | None], None]


class Store(Generic[T]):
    """Records by (namespace, name). Storing an equal record again is not one of its `changes`."""

    def __init__(self, log: structlog.typing.FilteringBoundLogger) -> None:
        self._log = log
        self._records: dict[Key, T] = {}
        self._listeners: list[Listener[T]] = []
        self.changes = 0
        self.view: Mapping[Key, T] = MappingProxyType(self._records)

    def subscribe(self, listener: Listener[T]) -> Callable[[], None]:
        """Call `listener` for each later change, in order. Returns the function that unsubscribes it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def put(self, key: Key, new: T | None) -> None:
        """Store a record; None removes it."""
        old = self._records.get(key)
        if old == new:
            return
        if new is None:
            del self._records[key]
        else:
            self._records[key] = new
        self.changes += 1
        for listener in tuple(self._listeners):
            try:
                listener(key, old, new)
            # A listener that raises must not keep the change from the others.
            except Exception:
                self._log.exception("listener failed", namespace=key[0], name=key[1])
