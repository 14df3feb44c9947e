"""Aggregated APIs: proxies their requests, and keeps the Available conditions of APIServices.

Follows k8s.io/kube-aggregator 0.36.
"""

import asyncio
import datetime as dt
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from testbed.embedded.api.types import Handler, Object, User
from testbed.embedded.clock import utc_now
from testbed.embedded.extensions.outgoing import SERVICES, Outgoing, Unreachable, go_words
from testbed.embedded.objects.kinds import API_SERVICES
from testbed.embedded.storage.store import Change, Store

# kube-aggregator also gives up after 5 s, but it checks every 30 s.
CHECK_SECONDS, EVERY_SECONDS = 5.0, 1.0
CHECKER = User("system:kube-aggregator", ("system:masters",))
_NOT_FORWARDED: Final = frozenset(
    {
        *("host", "connection", "keep-alive", "transfer-encoding", "content-length"),
        "authorization",
    }
)


class Aggregator:
    """Serves the paths of APIServices that name a Service."""

    def __init__(self, store: Store, outgoing: Outgoing) -> None:
        self._store = store
        self._outgoing = outgoing

    def handler(self, path: str) -> Handler | None:
        """Returns the proxy for the group and version of the path, or None."""
        parts = path.split("/")
        if len(parts) < 4 or parts[1] != "apis":
            return None
        service = self._store.find(API_SERVICES, "", f"{parts[3]}.{parts[2]}")
        return partial(self._proxy, service) if service and service["spec"].get("service") else None

    async def _proxy(self, service: Object, request: web.Request, user: User) -> web.StreamResponse:
        if available(service).get("status") != "True":
            return _unavailable("service unavailable")
        try:
            url = self._outgoing.resolve(service["spec"]["service"]) + request.raw_path
            headers, data = _forwarded(request.headers), await request.read()
            call = self._outgoing.aggregated(service, url, user, request.method, headers, data)
            async with call as answer:
                body, headers = await answer.read(), _forwarded(answer.headers)
                return web.Response(body=body, status=answer.status, headers=headers)
        except (aiohttp.ClientError, OSError, ValueError, Unreachable) as error:
            return _unavailable(f"error trying to reach service: {go_words(error)}")


def _forwarded(headers: Mapping[str, str]) -> CIMultiDict[str]:
    return CIMultiDict((k, v) for k, v in headers.items() if k.lower() not in _NOT_FORWARDED)


def _unavailable(text: str) -> web.Response:
    return web.Response(status=503, text=f"{text}\n", headers={"X-Content-Type-Options": "nosniff"})


class Availability:
    """Checks every APIService in `async with`: periodically, and when an APIService or a Service changes."""

    def __init__(self, store: Store, outgoing: Outgoing, *, now: Callable[[], dt.datetime] = utc_now) -> None:
        self._store = store
        self._outgoing = outgoing
        self._now = now
        self._changed = asyncio.Event()

    async def __aenter__(self) -> "Availability":
        self._unsubscribe = self._store.subscribe(self._notice)
        self._task = asyncio.create_task(self._watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._unsubscribe()
        self._task.cancel()
        await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.result()  # raises the error that ended the task

    def _notice(self, change: Change) -> None:
        if change.collection in (API_SERVICES, SERVICES):
            self._changed.set()

    async def _watch(self) -> None:
        while True:
            self._changed.clear()
            async with asyncio.TaskGroup() as group:
                for service in self._store.list(API_SERVICES):
                    group.create_task(self._check(service))
            try:
                async with asyncio.timeout(EVERY_SECONDS):
                    await self._changed.wait()
            except TimeoutError:
                pass

    async def _check(self, service: Object) -> None:
        reason, message = "Local", "Local APIServices are always available"
        if service["spec"].get("service"):
            reason, message = await self._probe(service["spec"], service)
        self._record(service["metadata"]["name"], reason, message)

    async def _probe(self, spec: Object, service: Object) -> tuple[str, str]:
        """Returns the reason and the message of the condition."""
        reference = spec["service"]
        namespace, name = reference["namespace"], reference["name"]
        if self._store.find(SERVICES, namespace, name) is None:
            return "ServiceNotFound", f'service/{name} in "{namespace}" is not present'
        try:
            url = self._outgoing.resolve(reference) + f"/apis/{spec['group']}/{spec['version']}"
        except Unreachable as error:
            return "FailedDiscoveryCheck", str(error)
        failing = f"failing or missing response from {url}: "
        try:
            call = self._outgoing.aggregated(service, url, CHECKER)
            async with asyncio.timeout(CHECK_SECONDS), call as answer:
                await answer.read()
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return "FailedDiscoveryCheck", f'{failing}Get "{url}": {go_words(error)}'
        if not 200 <= answer.status < 300:
            return "FailedDiscoveryCheck", f"{failing}bad status from {url}: {answer.status}"
        return "Passed", "all checks passed"

    def _record(self, name: str, reason: str, message: str) -> None:
        service = self._store.find(API_SERVICES, "", name)
        if service is None:
            return
        status = "True" if reason in ("Passed", "Local") else "False"
        old, since = available(service), f"{self._now():%Y-%m-%dT%H:%M:%SZ}"
        if old.get("status") == status:
            since = old["lastTransitionTime"]
        condition = {"lastTransitionTime": since, "message": message, "reason": reason}
        condition |= {"status": status, "type": "Available"}
        if condition != old:
            self._store.update(API_SERVICES, {**service, "status": {"conditions": [condition]}})


def available(service: Object) -> Object:
    """Returns the Available condition of an APIService, or {}."""
    conditions = (service.get("status") or {}).get("conditions") or ()
    return next((c for c in conditions if c["type"] == "Available"), {})
