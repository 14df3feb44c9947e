"""Recordings of ScalingRecords for tests that reach no hub."""

from __future__ import annotations

from typing import Any, cast

from controller.federatedhpa.recording import Recording, Unstored
from controller.publish import FEDERATED_HPAS
from controller.scaling_records import RecordFile
from fedhpa.decision import MemoryState
from fedhpa.kube import ApiClient

RECORDS = ("fedhpa.io", "scalingrecords")
METADATA = {"namespace": "shop", "name": "web", "uid": "u1"}


def recording(state: MemoryState | None = None, at: float = float("-inf")) -> Recording:
    """Returns the recording of a record with this state; None: there is no record."""
    file = RecordFile.of(cast(ApiClient, None), FEDERATED_HPAS, METADATA, 1.0)
    found = Recording(file, stored=state, at=at)
    if state is not None:
        found.unstored = Unstored.of(state.history)
    return found


def recorded(server: Any, name: str = "federatedhpa.web", namespace: str = "shop") -> dict[str, Any]:
    """Returns the state in the record `name` on an embedded hub."""
    content = server.store.get(RECORDS, namespace, name)["status"]
    state: dict[str, Any] = content["state"]
    return state
