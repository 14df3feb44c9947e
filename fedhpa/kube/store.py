"""The records of a reflector, and the listeners for their changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Generic, Literal, TypeVar

import structlog

T = TypeVar("T")  # a record
Key = tuple[str, str]


@dataclass(frozen=True)
class Change(Generic[T]):
    """A change of one record: `old` is None for ADDED, `new` is None for DELETED."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    key: Key
    old: T | None
    new: T | None


class Store(Generic[T]):
    """Records by (namespace, name). Storing an equal record again is not one of its `changes`."""

    def __init__(self, log: structlog.typing.FilteringBoundLogger) -> None:
        self._log = log
        self._records: dict[Key, T] = {}
        self._listeners: list[Callable[[Change[T]], None]] = []
        self.changes = 0
        self.view: Mapping[Key, T] = MappingProxyType(self._records)

    def subscribe(self, listener: Callable[[Change[T]], None]) -> Callable[[], None]:
        """Call `listener` for each later change, in order. Returns the function that unsubscribes it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def put(self, key: Key, new: T | None) -> None:
        """Store a record; None removes it."""
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
        self.changes += 1
        for listener in tuple(self._listeners):
            try:
                listener(change)
            # A listener that raises must not keep the change from the others.
            except Exception:
                self._log.exception("listener failed", namespace=change.key[0], name=change.key[1])
