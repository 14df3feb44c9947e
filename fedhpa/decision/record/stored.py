"""The content of a ScalingRecord of a FederatedHPA: the memory, and the decision that left it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fedhpa.api.errors import InvalidObject
from fedhpa.api.json import InvalidJson, convert_json
from fedhpa.api.scaling_record import check_version
from fedhpa.assignment import Seconds
from fedhpa.decision.memory import VERSION, MemoryState
from fedhpa.decision.model import Decision, StatusCondition
from fedhpa.decision.record.decision import compact_decision, decode_compact
from fedhpa.decision.settings import ControllerSettings, stored_settings

JSON = object

# The decision is left out of a larger content; the memory never is.
MAX_BYTES: Final = 64 * 1024


class StoredRecord(msgspec.Struct, frozen=True):
    """The memory, and the compact form of the decision that left it; it is empty if it was too large.

    `time` is that of the decision, in POSIX seconds. `hubAhead` is by how many seconds the hub's clock was
    ahead of the clock that all times in the record are of.
    """

    version: int = 0
    time: Seconds = 0.0
    state: MemoryState = MemoryState()
    decision: dict[str, Any] = {}
    hubAhead: float = 0.0

    @property
    def propagation(self) -> str:
        """The controller's --propagation, "" if unknown."""
        return str(self.decision.get("propagation") or "")

    @property
    def settings(self) -> ControllerSettings:
        """The controller's settings. One that is absent or unreadable has its default."""
        return stored_settings(self.decision.get("controller"))

    def last_decision(self, conditions: tuple[StatusCondition, ...] = ()) -> Decision | None:
        """Returns the decision without status, events and shares; None without one.

        `conditions` are those of the object's status. Raises InvalidObject if it cannot be read.
        """
        return decode_compact(self.decision, self.state, conditions) if self.decision else None


def encode_stored(memory: MemoryState, decision: Decision) -> dict[str, JSON]:
    """Returns the content with this memory and, unless it would be too large, the decision."""
    state = msgspec.to_builtins(memory)
    content: dict[str, JSON] = {"version": VERSION, "time": decision.now, "state": state}
    whole = {**content, "decision": compact_decision(decision)}
    return whole if len(msgspec.json.encode(whole)) <= MAX_BYTES else content


def decode_stored(content: Mapping[str, JSON]) -> StoredRecord:
    """Returns the content of a record. Raises UnknownVersion, or InvalidObject if it cannot be read."""
    check_version(content, VERSION)
    try:
        return convert_json(content, StoredRecord)
    except InvalidJson as error:
        raise InvalidObject(f"it cannot be read: {error}") from error
