"""Records by key, and who is told when they change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Generic, Literal, TypeVar

import structlog

T = TypeVar("T")  # a record
Key = tuple[str, str]


@dataclass(frozen=True)
class Change(Generic[T]):
    """One difference in the store: `old` is None for ADDED, `new` is None for DELETED."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    key: Key
    old: T | None
    new: T | None


class Store(Generic[T]):
    """(namespace, name) -> record. A record that is put again unchanged is no change."""

    def __init__(self, log: structlog.typing.FilteringBoundLogger) -> None:
        self._log = log
        self._records: dict[Key, T] = {}
        self._listeners: list[Callable[[Change[T]], None]] = []
        self.view: Mapping[Key, T] = MappingProxyType(self._records)

    def subscribe(self, listener: Callable[[Change[T]], None]) -> Callable[[], None]:
        """Call `listener` for each change from now on, in order; gives the function that ends it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def replace(self, records: Iterable[tuple[Key, T | None]]) -> None:
        """Hold these records and no others."""
        gone = set(self._records)
        for key, record in records:
            gone.discard(key)
            self.put(key, record)
        for key in gone:
            self.put(key, None)

    def put(self, key: Key, new: T | None) -> None:
        """Hold `new` under the key; None removes it."""
        old = self._records.get(key)
        if new is None:
            if old is None:
                return
            del self._records[key]
            self._notify(Change("DELETED", key, old, None))
        elif old is None:
            self._records[key] = new
            self._notify(Change("ADDED", key, None, new))
        elif old != new:
            self._records[key] = new
            self._notify(Change("MODIFIED", key, old, new))

    def _notify(self, change: Change[T]) -> None:
        for listener in tuple(self._listeners):
            try:
                listener(change)
            # A listener's fault is not the store's: the others still hear of the change.
            except Exception:
                self._log.exception("listener failed", namespace=change.key[0], name=change.key[1])
