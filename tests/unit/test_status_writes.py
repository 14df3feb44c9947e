"""A status is written on the object that is known, and read anew only after a conflict."""

from __future__ import annotations

from typing import Any

import pytest

from controller.publish import FEDERATED_HPAS, write_status
from fedhpa.api.errors import Conflict
from fedhpa.kube import ApiClient, ApiConfig
from fedhpa.kube.resources import TRIES

STATUS = {"currentReplicas": 3}


def known(version: str = "1", uid: str = "a") -> dict[str, Any]:
    return {"metadata": {"namespace": "shop", "name": "web", "uid": uid, "resourceVersion": version}}


class Answer:
    def __init__(self, body: dict[str, Any]) -> None:
        self._body = body

    def json(self) -> dict[str, Any]:
        return self._body


class Hub(ApiClient):
    """A hub with one object, which counts its requests."""

    def __init__(self, stored: dict[str, Any]) -> None:
        super().__init__(ApiConfig(server="http://memory"))
        self.stored = stored
        self.requests: list[str] = []

    async def get_json(self, path: str, **_: Any) -> Any:
        self.requests.append("GET")
        return self.stored

    async def put(self, path: str, body: Any, **_: Any) -> Any:
        self.requests.append("PUT")
        assert path.endswith("/status")
        metadata = self.stored["metadata"]
        if (body["metadata"]["resourceVersion"], body["metadata"]["uid"]) != (
            metadata["resourceVersion"],
            metadata["uid"],
        ):
            raise Conflict("changed", status=409)
        self.stored = body
        return Answer(body)


async def write(hub: Hub) -> Any:
    return await write_status(hub, FEDERATED_HPAS, known(), STATUS, 3.0)


async def test_a_known_object_is_not_read() -> None:
    """One request is enough while nobody else wrote."""
    hub = Hub(known())

    assert (await write(hub))["status"] == STATUS
    assert hub.requests == ["PUT"]


async def test_an_object_that_changed_is_read_anew() -> None:
    """Another one's change is kept, and the status is written once more."""
    hub = Hub(known("2") | {"spec": {"maxReplicas": 9}})

    assert (await write(hub))["status"] == STATUS
    assert hub.requests == ["PUT", "GET", "PUT"]
    assert hub.stored["spec"] == {"maxReplicas": 9}


async def test_an_object_that_was_created_again_keeps_its_status() -> None:
    """The status of the former one is not its own."""
    hub = Hub(known("7", uid="b"))

    assert await write(hub) is None
    assert hub.requests == ["PUT", "GET"]
    assert "status" not in hub.stored


async def test_the_last_conflict_is_raised() -> None:
    """A hub that refuses each write ends in an error, not in a loop."""

    class Busy(Hub):
        async def get_json(self, path: str, **_: Any) -> Any:
            self.requests.append("GET")
            return known("0")

    hub = Busy(known("9"))
    with pytest.raises(Conflict):
        await write(hub)
    assert hub.requests.count("PUT") == TRIES
