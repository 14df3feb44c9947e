"""Whether aggregated APIs answer: the Available conditions of APIServices, kept true.

After k8s.io/kube-aggregator 0.36, controllers/status.
"""

import asyncio
import datetime as dt
from collections.abc import Callable

import aiohttp
import msgspec

from fedhpa.serving.authentication import utc_now
from testbed.embedded.api.types import Object, User
from testbed.embedded.extensions.outgoing import SERVICES, Outgoing, Unreachable, words
from testbed.embedded.storage.store import Change, Collection, Store

API_SERVICES: Collection = ("apiregistration.k8s.io", "apiservices")
# kube-aggregator too gives up after 5 s, but looks every 30 s only: longer than a person should wait here.
CHECK_SECONDS, EVERY_SECONDS = 5.0, 1.0
CHECKER = User("system:kube-aggregator", ("system:masters",))


class _Listed(msgspec.Struct):
    resources: list[Object] = []


_DECODE = msgspec.json.Decoder(_Listed).decode


class Availability:
    """Looks at every APIService, in `async with`: now and then, and when one of them or a Service changes."""

    def __init__(
        self,
        store: Store,
        outgoing: Outgoing,
        *,
        now: Callable[[], dt.datetime] = utc_now,
        every_seconds: float = EVERY_SECONDS,
    ) -> None:
        self._store = store
        self._outgoing = outgoing
        self._now = now
        self._every_seconds = every_seconds
        self._changed = asyncio.Event()
        self._resources: dict[str, list[Object]] = {}

    def resources(self, name: str) -> list[Object] | None:
        """What the server behind an APIService said that it serves; None if it never did."""
        return self._resources.get(name)

    async def __aenter__(self) -> "Availability":
        self._unsubscribe = self._store.subscribe(self._notice)
        self._task = asyncio.create_task(self._watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._unsubscribe()
        self._task.cancel()
        await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.result()  # what ended it before its time

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
                async with asyncio.timeout(self._every_seconds):
                    await self._changed.wait()
            except TimeoutError:
                pass

    async def _check(self, service: Object) -> None:
        reason, message = "Local", "Local APIServices are always available"
        if service["spec"].get("service"):
            reason, message = await self._ask(service)
        self._say(service["metadata"]["name"], reason, message)

    async def _ask(self, service: Object) -> tuple[str, str]:
        """Reason and message of the condition."""
        spec = service["spec"]
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
                status, body = answer.status, await answer.read()
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return "FailedDiscoveryCheck", f'{failing}Get "{url}": {words(error)}'
        if not 200 <= status < 300:
            return "FailedDiscoveryCheck", f"{failing}bad status from {url}: {status}"
        self._resources[service["metadata"]["name"]] = _resources(body)
        return "Passed", "all checks passed"

    def _say(self, name: str, reason: str, message: str) -> None:
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


def _resources(body: bytes) -> list[Object]:
    """Of a list that can be read; nobody makes a server unavailable for another."""
    try:
        return list(_DECODE(body).resources)
    except msgspec.DecodeError:
        return []


def available(service: Object) -> Object:
    """The Available condition of an APIService, {} if it has none yet."""
    conditions = (service.get("status") or {}).get("conditions") or ()
    return next((c for c in conditions if c["type"] == "Available"), {})
