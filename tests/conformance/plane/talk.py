"""A conversation with an API server: requests, watches and kubectl commands, recorded with their answers."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import aiohttp
from multidict import CIMultiDictProxy
from yarl import URL

from tests.conformance.plane.normalise import Normaliser
from tests.conformance.plane.under_test import PlaneUnderTest

JSON = "application/json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
# The recorded headers: those that clients act on.
HEADERS = ("Content-Type", "Warning", "Location", "Retry-After", "Allow", "WWW-Authenticate")
# Deadlines of a request, of an event and of a kubectl command.
SECONDS = 60.0

Object = dict[str, Any]
# The recorded part of a body: all of it, the values at dotted paths, or the result of a function.
Show = tuple[str, ...] | Callable[[Any], Any] | None
T = TypeVar("T")


@dataclass(frozen=True)
class Answer:
    """An HTTP answer; `json` is the decoded body, or its text if it is not JSON."""

    status: int
    headers: CIMultiDictProxy[str]
    json: Any


@dataclass(frozen=True)
class Printed:
    """The output of kubectl."""

    code: int
    out: str
    err: str


class Talk:
    """The conversation of one check in `async with`; `entries` is its transcript.

    `namespace` is the check's namespace. It exists after `begin`, and is deleted at the end.
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

    # -- preparation, which is not recorded ------------------------------------------------------------

    async def begin(self, *, labels: Mapping[str, str] | None = None) -> str:
        """Create the check's namespace and return its name.

        A check that is repeated waits until the namespace of its first attempt is deleted.
        """
        body = {"metadata": {"name": self.namespace, "labels": dict(labels or {})}}

        async def created() -> bool:
            answer = await self.quietly("POST", "/api/v1/namespaces", body)
            assert answer.status in (201, 409), answer.json
            return answer.status == 201

        await self.eventually(created)
        self.later(f"/api/v1/namespaces/{self.namespace}")
        return self.namespace

    async def make(self, collection: str, body: Object, *, keep: bool = False) -> Object:
        """Create an object; unless `keep` is true, the end of the talk deletes it."""
        answer = await self.quietly("POST", collection, body)
        assert answer.status == 201, answer.json
        made: Object = answer.json
        if not keep:
            self.later(f"{collection}/{made['metadata']['name']}")
        return made

    def later(self, path: str) -> None:
        """Delete the object at the path when the talk ends."""
        self._stack.push_async_callback(self.quietly, "DELETE", path)

    async def entered(self, context: Any) -> Any:
        """Enter an asynchronous context that ends with the talk."""
        return await self._stack.enter_async_context(context)

    async def eventually(self, poll: Callable[[], Awaitable[Any]]) -> Any:
        """Returns the first true result of `poll`; a real server applies some changes asynchronously."""
        async with asyncio.timeout(self.plane.patience):
            while not (found := await poll()):  # noqa: ASYNC110  # another process has no event for it
                await asyncio.sleep(0.1)
        return found

    async def at_last(self, say: Callable[[], Awaitable[T]], holds: Callable[[T], bool]) -> T:
        """Repeats `say` until `holds` is true for its result; the transcript keeps the last attempt."""
        kept = len(self.entries)
        results: list[T] = []

        async def poll() -> bool:
            del self.entries[kept:]
            results[:] = [await say()]
            return holds(results[0])

        await self.eventually(poll)
        return results[0]

    async def quietly(
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
    ) -> Answer:
        """A request that is not recorded; arguments as for `ask`."""
        data = None if body is None else json.dumps(body).encode()
        sent = {"Accept": accept or JSON, **(headers or {})}
        if data is not None:
            sent["Content-Type"] = content_type or JSON
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        session = self._session("nobody" if token is not None else user)
        url = URL(self.plane.server + path, encoded=True)
        async with session.request(method, url, data=data, headers=sent, allow_redirects=False) as response:
            content = await response.read()
        try:
            decoded = json.loads(content)
        except ValueError:
            decoded = content.decode(errors="replace")
        return Answer(response.status, response.headers, decoded)

    def _session(self, user: str) -> aiohttp.ClientSession:
        context: ssl.SSLContext = getattr(self.plane, user)
        if context not in self._sessions:
            self._sessions[context] = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=context),
                timeout=aiohttp.ClientTimeout(total=SECONDS),
                skip_auto_headers=("User-Agent", "Content-Type"),
            )
        return self._sessions[context]

    # -- recorded requests -----------------------------------------------------------------------------

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        user: str = "admin",
        content_type: str | None = None,
        accept: str | None = None,
        show: Show = None,
        say: Any = None,
        **more: Any,
    ) -> Answer:
        """A recorded request as `user` (a field of PlaneUnderTest) or with a bearer `token`.

        `say` is recorded in place of a body that contains the plane's own defaults.
        """
        answer = await self.quietly(
            method, path, body, user=user, content_type=content_type, accept=accept, **more
        )
        entry: Object = {"ask": f"{method} {path}"}
        for key, value in (("as", user if user != "admin" else None), ("type", content_type)):
            if value is not None:
                entry[key] = value
        entry |= {"accept": accept} if accept is not None else {}
        entry |= {"sent": say or body} if body is not None else {}
        entry |= {"code": answer.status, **_headers(answer.headers)}
        if show != ():
            entry["body"] = _shown(answer.json, show)
        self.note(entry)
        return answer

    async def get(self, path: str, **how: Any) -> Answer:
        """A recorded GET."""
        return await self.ask("GET", path, **how)

    async def patch(self, path: str, body: Any, content_type: str = MERGE, **how: Any) -> Answer:
        """A recorded PATCH."""
        return await self.ask("PATCH", path, body, content_type=content_type, **how)

    def note(self, entry: Any) -> None:
        """Add an entry to the transcript."""
        self.entries.append(self.names.json(entry))

    @contextmanager
    def unrecorded(self) -> Iterator[None]:
        """Drops the entries of the block."""
        kept = len(self.entries)
        try:
            yield
        finally:
            del self.entries[kept:]

    @asynccontextmanager
    async def watching(
        self, path: str, *, accept: str = JSON, show: Show = None
    ) -> AsyncGenerator[Watch, None]:
        """An open watch; the query of the path has `watch=true`."""
        url = URL(self.plane.server + path, encoded=True)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=SECONDS)
        session = self._session("admin")
        async with session.get(url, headers={"Accept": accept}, timeout=timeout) as response:
            yield Watch(self, path, response, show)

    async def kubectl(
        self, *arguments: str, stdin: str | None = None, member: bool = False, show: bool = True
    ) -> Printed:
        """Run kubectl as the administrator of the plane or of its member; recorded if `show` is true."""
        assert self.plane.kubectl is not None
        kubeconfig = self.plane.member_kubeconfig if member else self.plane.kubeconfig
        # kubectl caches by host and port, and another plane may get the same port later.
        flags = [f"--kubeconfig={kubeconfig}", f"--cache-dir={self.plane.folder / 'kubectl-cache'}"]
        printed = await _run([str(self.plane.kubectl), *flags, *arguments], stdin)
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
        """Returns and records the next `count` events."""
        async with asyncio.timeout(SECONDS):
            found = [await self._next() for _ in range(count)]
        events = [event for event in found if event is not None]
        self._note(events)
        return events

    async def rest(self) -> list[Object]:
        """Returns and records all events until the server ends the watch."""
        events = []
        async with asyncio.timeout(SECONDS):
            while (event := await self._next()) is not None:
                events.append(event)
        self._note(events, ended=True)
        return events

    async def _next(self) -> Object | None:
        line = await self._response.content.readline()
        return json.loads(line) if line else None

    def _note(self, events: Sequence[Object], **more: Any) -> None:
        shown = [{**event, "object": _shown(event["object"], self._show)} for event in events]
        entry = {"ask": f"GET {self._path}", "code": self._response.status}
        self._talk.note({**entry, **_headers(self._response.headers), "events": shown, **more})


def lines_of(text: str) -> list[str]:
    """Returns the lines without client-go's log lines."""
    return [line.rstrip() for line in text.splitlines() if not re.match(r"[IWE]\d{4} ", line)]


def _headers(headers: CIMultiDictProxy[str]) -> Object:
    """Returns the recorded headers; nothing for an answer with plain JSON and no other header."""
    found = {name: headers.getall(name) for name in HEADERS if name in headers}
    return {} if found == {"Content-Type": [JSON]} else {"headers": found}


def _shown(body: Any, show: Show) -> Any:
    """Returns the recorded part of a body; a Status is recorded completely."""
    failed = isinstance(body, dict) and body.get("kind") == "Status"
    if show is None or failed or not isinstance(body, dict):
        return body
    if callable(show):
        return show(body)
    return {path: _at(body, path) for path in show}


def _at(body: Any, path: str) -> Any:
    for key in path.split("."):
        body = body.get(key) if isinstance(body, dict) else None
    return body


async def _run(command: Sequence[str], stdin: str | None) -> Printed:
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(SECONDS):
            out, err = await process.communicate((stdin or "").encode())
    except BaseException:
        process.kill()
        await process.wait()
        raise
    return Printed(process.returncode or 0, out.decode(), err.decode())
