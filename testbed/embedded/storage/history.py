"""What happened to the objects of a store, and who is told of it."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, cast

from testbed.embedded.api import statuses as refusals
from testbed.embedded.api.types import Object

# (group, plural), e.g. ("apps", "deployments"), ("", "pods").
Collection = tuple[str, str]
ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]


@dataclass(frozen=True)
class Change:
    """One write. `object` is what is there now, or what was there last, with the version of the write.

    The objects are shared by everybody who listens: read only.
    """

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


class History:
    """The newest `remembered` changes, and those who listen."""

    def __init__(self, remembered: int) -> None:
        self._changes: deque[Change] = deque()
        self._remembered = remembered
        self._forgotten = 0  # the newest version of which nothing is remembered
        self._listeners: dict[object, Callable[[Change], None]] = {}
        self._untold: deque[Change] = deque()
        self._telling = False

    def subscribe(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        """Call `listener` for each change from now on, in order; gives the function that ends it.

        A listener may write: what it writes is told when everybody has heard of what came before.
        """
        token = object()
        self._listeners[token] = listener

        def unsubscribe() -> None:
            self._listeners.pop(token, None)

        return unsubscribe

    def since(self, version: int) -> list[Change]:
        """What happened after a version. Refusal Expired if that is forgotten."""
        if version < self._forgotten:
            raise refusals.expired(f"too old resource version: {version} ({self._forgotten})")
        return [change for change in self._changes if change.version > version]

    def forget(self, version: int) -> None:
        """Everything up to a version."""
        self._changes.clear()
        self._forgotten = version

    def add(self, change: Change) -> None:
        """Remember a change and tell everybody."""
        self._changes.append(change)
        if len(self._changes) > self._remembered:
            self._forgotten = self._changes.popleft().version
        self._untold.append(change)
        if self._telling:
            return
        self._telling = True
        try:
            while self._untold:
                told = self._untold.popleft()
                for listener in list(self._listeners.values()):
                    listener(told)
        finally:
            self._telling = False
