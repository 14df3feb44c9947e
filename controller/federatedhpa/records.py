"""The status fields that a hub drops: kept in an annotation, and put back into each object that was read.

The answer to a write of a status shows if the hub has dropped status.decision. Only then the annotation is
written, right after the status.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controller.publish import FEDERATED_HPAS, write_record, write_status
from fedhpa.api.record_annotation import recorded_text
from fedhpa.decision import record_text, with_record
from fedhpa.kube import ApiClient, Key

Object = Mapping[str, Any]


@dataclass(frozen=True)
class _Dropped:
    """A status as it was written to the object `uid`, and as the hub stored it."""

    uid: str
    written: Object
    stored: Object


class StatusRecords:
    """Writes statuses, and completes objects by what the hub dropped of their statuses."""

    def __init__(self, hub: ApiClient) -> None:
        self._hub = hub
        self._dropped: dict[Key, _Dropped] = {}

    def forget(self, key: Key) -> None:
        """Drop what is known of a deleted object."""
        self._dropped.pop(key, None)

    def complete(self, key: Key, raw: Object) -> Object:
        """Returns the object with its whole status.

        The fields that the hub dropped are those of the last write, or after a restart of the annotation.
        """
        dropped = self._dropped.get(key)
        if dropped is None or dropped.uid != raw["metadata"].get("uid", ""):
            return with_record(raw)
        status = raw.get("status") or {}
        if "decision" in status:
            return raw
        # The hub may drop fields inside of those that it keeps, too.
        whole = dropped.written if status == dropped.stored else {**dropped.written, **status}
        return {**raw, "status": whole}

    async def write(
        self, key: Key, raw: Object, status: Object, deadline: float, *, unless_newer: bool = False
    ) -> None:
        """Write the status of the object read as `raw`, and its record if the hub drops fields.

        `deadline` applies to each call. Raises ApiError if the hub refuses.
        """
        stored = await write_status(
            self._hub, FEDERATED_HPAS, raw, status, deadline, unless_newer=unless_newer
        )
        if stored is None:
            return
        metadata, kept = stored["metadata"], stored.get("status") or {}
        uid = metadata.get("uid", "")
        drops = "decision" not in kept
        text = record_text(uid, status) if drops else ""
        if text != recorded_text(metadata):
            await write_record(self._hub, FEDERATED_HPAS, stored, text, deadline)
        if drops:
            self._dropped[key] = _Dropped(uid, status, kept)
        else:
            self._dropped.pop(key, None)
