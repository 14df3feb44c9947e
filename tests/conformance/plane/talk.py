"""A conversation with an API server: requests, watches and kubectl, written down as they are answered."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any, Self, TypeVar

import aiohttp
from yarl import URL

from tests.conformance.plane.answers import (
    JSON,
    Answer,
    Object,
    Printed,
    Show,
    decoded,
    headers_of,
    lines_of,
    run,
    shown,
)
from tests.conformance.plane.normalise import Normaliser
from tests.conformance.plane.under_test import PlaneUnderTest

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"

T = TypeVar("T")

REQUEST_SECONDS = 60.0
EVENT_SECONDS = 60.0


class Talk:
    """One check's conversation; `entries` is its transcript. Use in `async with`.

    `namespace` is the check's own; it exists after `begin`, and is removed when the talk ends.
    """

    def __init__(self, plane: PlaneUnderTest, name: str) -> None:
        self.plane = plane
        self.entries: list[Object] = []
        self.names = Normaliser()
        self.namespace = f"conformance-{name}".replace("/", "-").replace("_", "-")[:63].rstrip("-")
        self._stack = AsyncExitStack()
        self._sessions: dict[ssl.SSLContext, aiohttp.ClientSession] = {}
        self.names.literal(self.namespace, "<namespace>")
        self.names.literal(plane.server, "https://<server>")
        self.names.literal(plane.server.partition("://")[2], "<server>")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await self._stack.aclose()
        finally:
            for session in self._sessions.values():
                await session.close()

    # ---- setting up, which is not written down

    async def begin(self, *, labels: Mapping[str, str] | None = None) -> str:
        """Make the check's namespace; its name."""
        body = {"metadata": {"name": self.namespace, "labels": dict(labels or {})}}
        await self.make("/api/v1/namespaces", body)
        return self.namespace

    async def make(self, collection: str, body: Object, *, keep: bool = False) -> Object:
        """Create an object; it is removed when the talk ends."""
        answer = await self.quietly("POST", collection, body)
        assert answer.status == 201, answer.json
        made: Object = answer.json
        if not keep:
            self.later(f"{collection}/{made['metadata']['name']}")
        return made

    def later(self, path: str) -> None:
        """Delete what is at the path when the talk ends."""
        self._stack.push_async_callback(self.quietly, "DELETE", path)

    async def entered(self, context: Any) -> Any:
        """Enter an asynchronous context that ends with the talk."""
        return await self._stack.enter_async_context(context)

    async def eventually(self, look: Callable[[], Awaitable[Any]]) -> Any:
        """The first answer of `look` that is true: servers notice roles and registrations in their own
        time.
        """
        async with asyncio.timeout(self.plane.patience):
            while not (found := await look()):  # noqa: ASYNC110  # another process has no event for it
                await asyncio.sleep(0.1)
        return found

    async def at_last(self, say: Callable[[], Awaitable[T]], holds: Callable[[T], bool]) -> T:
        """What `say` comes to when it is said until `holds` is true; only the last time is written down.

        For what a busy machine may be late for; if it never holds, the transcript and the check tell what
        there was in its place.
        """
        kept = len(self.entries)
        said: list[T] = []

        async def look() -> bool:
            del self.entries[kept:]
            said[:] = [await say()]
            return holds(said[0])

        await self.eventually(look)
        return said[0]

    # ---- saying something

    async def quietly(self, method: str, path: str, body: Any = None, **how: Any) -> Answer:
        """A request that is not written down; arguments as for `ask`."""
        return await self._request(method, path, body, **how)

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        user: str = "admin",
        token: str | None = None,
        content_type: str | None = None,
        accept: str | None = None,
        headers: Mapping[str, str] | None = None,
        raw: bytes | None = None,
        show: Show = None,
        say: Any = None,
    ) -> Answer:
        """A request as `user` (a field of PlaneUnderTest) or bearer of `token`, and its answer, written down.

        `say` is written down in place of a body that has the plane's own defaults in it.
        """
        answer = await self._request(
            method,
            path,
            body,
            user=user,
            token=token,
            content_type=content_type,
            accept=accept,
            headers=headers,
            raw=raw,
        )
        entry: Object = {"ask": f"{method} {path}"}
        for key, value in (("as", user if user != "admin" else None), ("type", content_type)):
            if value is not None:
                entry[key] = value
        entry |= {"accept": accept} if accept is not None else {}
        entry |= {"sent": say or body} if body is not None else {}
        entry |= {"code": answer.status, **headers_of(answer.headers)}
        if show != ():
            entry["body"] = shown(answer.json, show)
        self.note(entry)
        return answer

    async def get(self, path: str, **how: Any) -> Answer:
        """`ask` a GET."""
        return await self.ask("GET", path, **how)

    async def patch(self, path: str, body: Any, content_type: str = MERGE, **how: Any) -> Answer:
        """`ask` a PATCH."""
        return await self.ask("PATCH", path, body, content_type=content_type, **how)

    def note(self, entry: Any) -> None:
        """Write something into the transcript."""
        self.entries.append(self.names.json(entry))

    @contextmanager
    def unheard(self) -> Iterator[None]:
        """What is said meanwhile is not written down."""
        kept = len(self.entries)
        try:
            yield
        finally:
            del self.entries[kept:]

    async def _request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        user: str = "admin",
        token: str | None = None,
        content_type: str | None = None,
        accept: str | None = None,
        headers: Mapping[str, str] | None = None,
        raw: bytes | None = None,
    ) -> Answer:
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        sent = {"Accept": accept or JSON, **(headers or {})}
        if data is not None:
            sent["Content-Type"] = content_type or JSON
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        session = self._session("nobody" if token is not None else user)
        url = URL(self.plane.server + path, encoded=True)
        async with session.request(method, url, data=data, headers=sent, allow_redirects=False) as response:
            content = await response.read()
            return Answer(response.status, response.headers, decoded(content))

    def _session(self, user: str) -> aiohttp.ClientSession:
        context: ssl.SSLContext = getattr(self.plane, user)
        if context not in self._sessions:
            self._sessions[context] = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=context),
                timeout=aiohttp.ClientTimeout(total=REQUEST_SECONDS),
                skip_auto_headers=("User-Agent", "Content-Type"),
            )
        return self._sessions[context]

    # ---- watching

    @asynccontextmanager
    async def watching(
        self, path: str, *, accept: str = JSON, show: Show = None
    ) -> AsyncGenerator[Watch, None]:
        """An open watch of a path with its query, which has `watch=true`; accepted when this begins."""
        url = URL(self.plane.server + path, encoded=True)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=REQUEST_SECONDS)
        session = self._session("admin")
        async with session.get(url, headers={"Accept": accept}, timeout=timeout) as response:
            yield Watch(self, path, response, show)

    # ---- kubectl

    async def kubectl(
        self, *arguments: str, stdin: str | None = None, member: bool = False, show: bool = True
    ) -> Printed:
        """Run kubectl as the administrator, of the plane or of its member, and write down what it prints."""
        assert self.plane.kubectl is not None
        kubeconfig = self.plane.member_kubeconfig if member else self.plane.kubeconfig
        # The cache is by host and port, and ports come back in later runs with other planes behind them.
        flags = [f"--kubeconfig={kubeconfig}", f"--cache-dir={self.plane.folder / 'kubectl-cache'}"]
        printed = await run([str(self.plane.kubectl), *flags, *arguments], stdin)
        if show:
            entry: Object = {"kubectl": " ".join(arguments), "code": printed.code}
            self.note(entry | {"out": lines_of(printed.out), "err": lines_of(printed.err)})
        return printed


class Watch:
    """The events of an open watch."""

    def __init__(self, talk: Talk, path: str, response: aiohttp.ClientResponse, show: Show) -> None:
        self._talk = talk
        self._path = path
        self._response = response
        self._show = show

    async def events(self, count: int) -> list[Object]:
        """The next `count` events, written down."""
        async with asyncio.timeout(EVENT_SECONDS):
            found = [await self._next() for _ in range(count)]
        events = [event for event in found if event is not None]
        self._note(events)
        return events

    async def rest(self, *, seconds: float = EVENT_SECONDS) -> list[Object]:
        """All events until the server ends the watch, written down."""
        events = []
        async with asyncio.timeout(seconds):
            while (event := await self._next()) is not None:
                events.append(event)
        self._note(events, ended=True)
        return events

    async def _next(self) -> Object | None:
        line = await self._response.content.readline()
        if not line:
            return None
        event: Object = json.loads(line)
        return event

    def _note(self, events: Sequence[Object], **more: Any) -> None:
        told = [{**event, "object": shown(event["object"], self._show)} for event in events]
        entry = {"ask": f"GET {self._path}", "code": self._response.status}
        self._talk.note({**entry, **headers_of(self._response.headers), "events": told, **more})


__all__ = ["JSON_PATCH", "MERGE", "STRATEGIC", "TABLE", "Answer", "Object", "Printed", "Talk", "Watch"]
