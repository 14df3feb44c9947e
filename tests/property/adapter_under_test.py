"""The adapter's application behind its listener, with raw bytes from clients and from members."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from fedhpa.kube import SYSTEM
from fedhpa.kube.client import ApiClient
from fedhpa.kube.config import ApiConfig
from fedhpa.kube.responses import Response
from fedhpa.kube.transport import tcp_connector
from fedhpa.members.cluster import Access, Cluster, ClusterMeta
from fedhpa.members.lists import SharedLists
from fedhpa.members.member import Member
from fedhpa.serving.authentication import (
    Authenticator,
    PeerAuthenticator,
    RequestHeader,
    TokenReviewer,
    Trust,
    User,
)
from fedhpa.serving.authorization import AccessReviewStatus, Attributes, Authorizer, Guard
from fedhpa.serving.fairness import Limits
from fedhpa.serving.health import Health
from fedhpa.serving.listener import served
from fedhpa.serving.peers import Peers
from metrics_adapter.adapter_series import Telemetry
from metrics_adapter.members.discovery_cache import MetricDiscoveryCache
from metrics_adapter.members.source import MembersSource
from metrics_adapter.server.application import build_application
from metrics_adapter.server.caller_limits import CallerLimits

# A timeout in seconds that only a busy machine needs.
HANG_SECONDS = 30.0
MEMBERS = ("m1", "m2")
LONG_TEXT = 4096

# The bytes that a member sends: always the same, or by the requested target.
Sends = bytes | Callable[[str], bytes]


class RawMember:
    """A member that sends the given bytes and closes the connection. It records the requests."""

    def __init__(self) -> None:
        self.answer: Sends = b""
        self.asked: list[str] = []
        self._server: asyncio.Server | None = None

    async def start(self) -> str:
        """Starts the listener and returns its URL."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            target = head.split(b" ")[1].decode()
            self.asked.append(target)
            writer.write(self.answer if isinstance(self.answer, bytes) else self.answer(target))
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


def http(body: bytes, status: int = 200, headers: bytes = b"") -> bytes:
    """Returns a well-formed HTTP response of a member."""
    head = b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n" % (status, len(body))
    return head + b"Connection: close\r\n" + headers + b"\r\n" + body


@dataclass
class Answered:
    """A response of the adapter."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes
    reviewed: list[Attributes] = field(default_factory=list)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def warnings(self) -> list[str]:
        return [value for name, value in self.headers if name == "warning"]


class _Hub(ApiClient):
    """A hub that allows everything and knows no token."""

    async def post(self, path: str, body: Any, **_: Any) -> Response:
        msgspec.json.encode(body)  # The header as it would be sent.
        return Response(201, CIMultiDictProxy(CIMultiDict()), b'{"status":{"allowed":true}}')


class _Anybody(Authenticator):
    """Every client counts as a front proxy. A client that names no user and has no token is still a user."""

    async def user(self, request: web.Request) -> User | None:
        return RequestHeader(b"").user(request.headers) or await super().user(request) or User("fuzz")


class _Noting(Authorizer):
    """A reviewer that records the reviews."""

    def __init__(self, hub: ApiClient) -> None:
        super().__init__(hub, allowed_seconds=0.0, clock=SYSTEM.monotonic)
        self.asked: list[Attributes] = []

    async def verdict(self, user: User, attributes: Attributes) -> AccessReviewStatus:
        self.asked.append(attributes)
        return await super().verdict(user, attributes)


class Target:
    """The running adapter and its members."""

    def __init__(self, port: int, members: dict[str, tuple[RawMember, Member]], hub: _Noting) -> None:
        self._port = port
        self._members = members
        self._hub = hub

    def members_answer(self, *answers: Sends) -> None:
        """Sets the bytes that each member sends from now on, and forgets earlier ones."""
        for (stub, member), answer in zip(self._members.values(), answers, strict=True):
            stub.answer = answer
            stub.asked.clear()
            member.client.breaker.success()
            member.client._groups.clear()

    @property
    def asked(self) -> list[str]:
        """Returns the targets of all requests to members."""
        return [target for stub, _ in self._members.values() for target in stub.asked]

    async def send(self, request: bytes) -> Answered:
        """Returns the response to these bytes. Raises TimeoutError if none comes."""
        self._hub.asked.clear()
        async with asyncio.timeout(HANG_SECONDS):
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=2**24)
            try:
                writer.write(request)
                answer = await _read_answer(reader, request.startswith(b"HEAD "))
            finally:
                writer.close()
        answer.reviewed = list(self._hub.asked)
        return answer

    async def get(self, target: str, headers: bytes = b"") -> Answered:
        """Sends a GET of a target without normalising it."""
        return await self.send(b"GET " + target.encode() + b" HTTP/1.1\r\nHost: x\r\n" + headers + b"\r\n")


async def _read_answer(reader: asyncio.StreamReader, is_head: bool) -> Answered:
    while True:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
        status = int(first.split(" ")[1])
        if status != 100:
            break
    headers = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    if is_head:
        return Answered(status, headers, b"")
    if dict(headers).get("transfer-encoding") == "chunked":
        return Answered(status, headers, await _read_chunked(reader))
    return Answered(status, headers, await reader.readexactly(int(dict(headers)["content-length"])))


async def _read_chunked(reader: asyncio.StreamReader) -> bytes:
    found = b""
    while True:
        size = int(await reader.readuntil(b"\r\n"), 16)
        found += (await reader.readexactly(size + 2))[:size]
        if not size:
            return found


@asynccontextmanager
async def target() -> AsyncIterator[Target]:
    """Starts the adapter over two members, served on a socket."""

    async def nothing() -> None:
        """There is no Secret to read again."""

    async with AsyncExitStack() as stack:
        stubs: dict[str, tuple[RawMember, Member]] = {}
        members: dict[str, Member] = {}
        for name in MEMBERS:
            stub = RawMember()
            url = await stub.start()
            stack.push_async_callback(stub.stop)
            member = members[name] = Member(
                Cluster(metadata=ClusterMeta(name=name)),
                reread=nothing,
                deadline=HANG_SECONDS / 3,
                connector=tcp_connector,
                clock=SYSTEM.monotonic,
                wall=SYSTEM.wall,
            )
            await member.observe(member.cluster, Access(url, "member-token", None, None, ()))
            stack.push_async_callback(member.client.close)
            stubs[name] = stub, member
        lists = await stack.enter_async_context(SharedLists(clock=SYSTEM.monotonic))
        source = MembersSource(lambda: members, lists, max_age=0.0, clock=SYSTEM.monotonic)
        peers = PeerAuthenticator(Trust(), SYSTEM.wall)
        api = _Hub(ApiConfig(server="http://hub.invalid"))
        hub = _Noting(api)
        callers = CallerLimits(Limits(100, 100), CollectorRegistry(), clock=SYSTEM.monotonic)
        anybody = _Anybody(lambda: peers, TokenReviewer(api, clock=SYSTEM.monotonic))
        guard = Guard(
            anybody, hub, ("/healthz", "/livez", "/readyz"), callers.fairness, clock=SYSTEM.monotonic
        )
        telemetry = Telemetry(lambda: members)
        catalogue = MetricDiscoveryCache(source, clock=SYSTEM.monotonic)
        application = build_application(
            source, guard, Health(), telemetry, discovery_cache=catalogue, limits=callers
        )
        port = await stack.enter_async_context(served(application, ("127.0.0.1", 0), Peers(), grace=0.5))
        yield Target(port, stubs, hub)


@contextmanager
def running_target() -> Iterator[tuple[asyncio.Runner, Target]]:
    """Starts it with its own event loop, because hypothesis runs only plain functions."""
    with asyncio.Runner() as runner:
        context = target()
        made = runner.run(context.__aenter__())
        try:
            yield runner, made
        finally:
            runner.run(context.__aexit__(None, None, None))


@contextmanager
def nothing_goes_wrong() -> Iterator[None]:
    """Checks that no error is logged and that no log line has a member's token."""
    records: list[logging.LogRecord] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    handler = Keep(logging.WARNING)
    logging.getLogger().addHandler(handler)
    try:
        with capture_logs() as entries:
            yield
    finally:
        logging.getLogger().removeHandler(handler)
    wrong = [entry for entry in entries if entry["log_level"] in ("error", "critical") or "exc_info" in entry]

    assert (wrong, [record.getMessage() for record in records]) == ([], [])
    assert "member-token" not in str(entries)
    assert all(len(str(value)) <= LONG_TEXT for entry in entries for value in entry.values())
