"""An ApiClient without a network, which keeps objects by path. For unit tests in virtual time."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from typing import Any

import msgspec
from multidict import CIMultiDict, CIMultiDictProxy

from fedhpa.api.errors import ApiError, Conflict
from fedhpa.kube.client import ApiClient
from fedhpa.kube.config import ApiConfig
from fedhpa.kube.responses import Response
from fedhpa.kube.transport import TIMEOUT


class MemoryApi(ApiClient):
    """Stores written objects. With `hang` every call hangs; with `fail` it gets that HTTP status.

    `refused` has HTTP statuses by (method, path). `date` is the server's time for the header of that name.
    """

    def __init__(self) -> None:
        super().__init__(ApiConfig(server="http://memory"))
        self.objects: dict[str, dict[str, Any]] = {}
        self.calls: list[tuple[str, str]] = []
        self.hang = False
        self.fail: int | None = None
        self.refused: dict[tuple[str, str], int] = {}
        self.date: Callable[[], str] | None = None
        self._version = 0

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        deadline: float | None = None,
        **_: object,
    ) -> Response:
        self.calls.append((method, path))
        if self.hang:
            await asyncio.sleep(10.0 if deadline is None else deadline)
            raise ApiError("no answer", status=0, reason=TIMEOUT)
        await asyncio.sleep(0.001)
        if self.fail is not None:
            raise ApiError("refused", status=self.fail)
        if (method, path) in self.refused:
            raise ApiError("refused", status=self.refused[method, path])
        sent = msgspec.json.decode(body) if body is not None else {}
        obj = getattr(self, f"_{method.lower()}")(path, sent)
        raw = msgspec.json.encode(obj)
        headers = CIMultiDict({"Date": self.date()} if self.date is not None else {})
        return Response(200, CIMultiDictProxy(headers), raw)

    def _get(self, path: str, _: dict[str, Any]) -> dict[str, Any]:
        if path not in self.objects:
            raise ApiError("not found", status=404, reason="NotFound")
        return copy.deepcopy(self.objects[path])

    def _post(self, path: str, sent: dict[str, Any]) -> dict[str, Any]:
        own = f"{path}/{sent['metadata']['name']}"
        if own in self.objects:
            raise Conflict("exists", status=409, reason="AlreadyExists")
        return self._store(own, sent)

    def _put(self, path: str, sent: dict[str, Any]) -> dict[str, Any]:
        current = self._get(path, {})
        if sent["metadata"].get("resourceVersion") != current["metadata"]["resourceVersion"]:
            raise Conflict("modified", status=409, reason="Conflict")
        return self._store(path, sent)

    def _delete(self, path: str, options: dict[str, Any]) -> dict[str, Any]:
        metadata = self._get(path, {})["metadata"]
        for field, value in options.get("preconditions", {}).items():
            if metadata.get(field) != value:
                raise Conflict("precondition failed", status=409, reason="Conflict")
        return self.objects.pop(path)

    def _patch(self, path: str, sent: dict[str, Any]) -> dict[str, Any]:
        return self._store(path, {**self._get(path, {}), **sent})

    def _store(self, path: str, obj: dict[str, Any]) -> dict[str, Any]:
        self._version += 1
        metadata = {**obj["metadata"], "resourceVersion": str(self._version)}
        self.objects[path] = {**obj, "metadata": metadata}
        return copy.deepcopy(self.objects[path])
