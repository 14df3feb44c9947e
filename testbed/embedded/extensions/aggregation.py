"""Aggregated APIs: what they add to discovery, and requests passed on to them in their users' names.

After k8s.io/kube-aggregator 0.36, apiserver.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from testbed.embedded.api.types import Object, User
from testbed.embedded.extensions.availability import API_SERVICES, available
from testbed.embedded.extensions.outgoing import Outgoing, Unreachable, words
from testbed.embedded.storage.store import Store

OPENAPI: Final = "/openapi/v3"
NOT_PASSED_ON: Final = frozenset(
    {
        *("host", "connection", "keep-alive", "transfer-encoding"),
        *("authorization", "impersonate-user", "impersonate-group", "impersonate-uid"),
    }
)


class Aggregator:
    """The APIServices of one plane that name a Service."""

    def __init__(self, store: Store, outgoing: Outgoing) -> None:
        self._store = store
        self._outgoing = outgoing

    def handler(self, path: str) -> Callable[[web.Request, User], Awaitable[web.StreamResponse]] | None:
        """Who answers the path: the server behind the APIService of its group and version, if any."""
        parts = path.removeprefix(OPENAPI).split("/")
        if len(parts) < 4 or parts[1] != "apis":
            return None
        service = self._store.find(API_SERVICES, "", f"{parts[3]}.{parts[2]}")
        return partial(self._proxy, service) if service and service["spec"].get("service") else None

    async def _proxy(self, service: Object, request: web.Request, user: User) -> web.StreamResponse:
        if available(service).get("status") != "True":
            return _unavailable("service unavailable")
        response: web.StreamResponse | None = None
        try:
            base = self._outgoing.resolve(service["spec"]["service"])
            headers = {**_kept(request.headers), **_forwarded(request, base)}
            data = request.content if request.can_read_body else None
            call = self._outgoing.aggregated(
                service, base + request.raw_path, user, request.method, headers, data
            )
            async with call as answer:
                response = web.StreamResponse(status=answer.status, headers=_kept(answer.headers))
                await response.prepare(request)
                async for chunk in answer.content.iter_any():
                    await response.write(chunk)
                await response.write_eof()
                return response
        except (aiohttp.ClientError, OSError, ValueError, Unreachable) as error:
            if response is None:
                return _unavailable(f"error trying to reach service: {words(error)}")
            if request.transport is not None:  # in the middle of an answer there is no other way to say it
                request.transport.abort()
            return response


def _kept(headers: Mapping[str, str]) -> CIMultiDict[str]:
    return CIMultiDict((k, v) for k, v in headers.items() if k.lower() not in NOT_PASSED_ON)


def _forwarded(request: web.Request, base: str) -> dict[str, str]:
    scheme, _, host = base.partition("://")
    return {
        "X-Forwarded-For": request.remote or "",
        "X-Forwarded-Uri": request.rel_url.raw_path,
        "X-Forwarded-Host": host,
        "X-Forwarded-Proto": scheme,
    }


def _unavailable(text: str) -> web.Response:
    return web.Response(status=503, text=f"{text}\n", headers={"X-Content-Type-Options": "nosniff"})
