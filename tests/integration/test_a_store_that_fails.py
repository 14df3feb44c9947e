"""A metrics store that hangs, lies or breaks costs at most a deadline, and never becomes a number."""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from certs import CertificateAuthority
from fedhpa.api.errors import MetricsUnavailable
from fedhpa.kube import SYSTEM
from fedhpa.members.lists import CALLER_QUOTA
from metrics_adapter.prometheus import client as store_client
from metrics_adapter.prometheus import store as module
from metrics_adapter.prometheus.access import StoreAccess, StoreUnavailable
from metrics_adapter.prometheus.queries import InstantQuery
from metrics_adapter.prometheus.store import (
    COOLDOWN_SECONDS,
    FAILURES,
    MAX_CONCURRENT,
    MetricsStore,
    StoreBusy,
)
from tests.support.adapter.metrics_store import (
    DEADLINE,
    EXTERNAL,
    FakeStore,
    Raw,
    failing,
    secret,
    series,
    store_of,
    store_world,
    vector,
)
from tests.support.fakeapi import eventually

UP = InstantQuery("up")
WELL = vector(series("1", cluster="member1", namespace="shop"))
TRICKLE = [Raw(b"HTTP/1.1 200 OK\r\nX-Long: "), *[Raw(b"x"), 0.05] * 2000]
SLOW_BODY = [Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n"), *[Raw(b" "), 0.05] * 2000]


def threads() -> int:
    """Returns the threads that still query a store."""
    return sum(thread.name.startswith("store") for thread in threading.enumerate())


@pytest.mark.parametrize(
    "answer", [[None], TRICKLE, SLOW_BODY], ids=["silent", "trickling head", "trickling body"]
)
async def test_a_store_that_hangs_costs_a_deadline_and_no_thread(answer: list[Any]) -> None:
    """More queries than threads hang. All end by their deadline, and later queries are answered."""
    clock = [0.0]
    async with FakeStore() as fake:
        fake.answer = lambda query: answer if "hang" in query else WELL
        access = StoreAccess(fake.url)
        async with MetricsStore(
            access, deadline=1.0, max_age=0.0, clock=lambda: clock[0], wall=SYSTEM.wall
        ) as store:
            hanging = [store.query(InstantQuery(f"hang_{number}")) for number in range(MAX_CONCURRENT + 2)]
            failed = await asyncio.gather(*hanging, return_exceptions=True)
            clock[0] += 2 * COOLDOWN_SECONDS
            store._deadline = 60.0  # A slow machine may need the time.
            found = await store.query(UP)

            assert {"no answer within 1 s"} == {str(error) for error in failed[:MAX_CONCURRENT]}
            assert {StoreUnavailable} == {type(error) for error in failed[:MAX_CONCURRENT]}
            # On a slow machine, which starts threads one by one, the last query may get the first one's slot.
            assert {type(error) for error in failed[MAX_CONCURRENT:]} <= {StoreBusy, StoreUnavailable}
            assert len(found.series) == 1
    await eventually(lambda: threads() == 0, within=30.0)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (failing("500 Internal Server Error", b"<html>"), "HTTP 500"),
        (failing("503 X", b'{"status":"error","errorType":"timeout","error":"slow"}'), "503: timeout: slow"),
        (failing("422 X", b'{"errorType":"execution","error":"a\\nb"}'), "HTTP 422: execution: a b"),
        (failing("302 Found", Location="http://169.254.169.254/"), "(HTTP 302), which is not followed"),
        (failing("200 OK", b"x" * 60, Content_Encoding="gzip"), "compressed"),
        (b"<html>hello</html>", "its answer cannot be read"),
        (b'{"status":"success"}', "it answered success"),
        (b'{"status":"error","error":"no"}', "it answered error: no"),
        (b'{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}', "gives a scalar"),
        (b'{"status":"success","data":{"resultType":"matrix","result":[]}}', "gives a matrix"),
        (b'{"status":"success","data":{"resultType":"vector","result":{}}}', "its answer cannot be read"),
        (Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n" + WELL[:50]), "incomplete"),
        (Raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n" + WELL[:5]), "incomplete"),
        (Raw(b"SSH-2.0-OpenSSH_9.2\r\n\r\n"), ""),
        (Raw(b""), ""),
    ],
)  # fmt: skip
async def test_what_is_no_answer_says_what_it_is(answer: bytes, said: str) -> None:
    """Each fault is an error with a reason in one line, and a 503 for the client."""
    async with store_world() as world:
        world.fake.answer = lambda _: answer
        status, body, _ = await world.get(f"{EXTERNAL}/shop/queue_depth")

        assert status == 503
        assert said.lower() in body["message"].lower()
        assert body["message"].startswith("no member cluster answered: the metrics store: ")
        assert "\n" not in body["message"]


async def test_a_redirect_is_not_followed() -> None:
    """The target of the redirect receives no request."""
    async with FakeStore() as elsewhere, FakeStore() as fake, store_of(fake) as store:
        fake.answer = lambda _: failing("307 X", Location=f"{elsewhere.url}/api/v1/query")
        with pytest.raises(StoreUnavailable, match="not followed"):
            await store.query(UP)

        assert elsewhere.queries == []


async def test_an_answer_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection is cut beyond the limit."""
    monkeypatch.setattr(store_client, "MAX_RESULT_BYTES", 100_000)
    endless = [Raw(b"HTTP/1.1 200 OK\r\n\r\n"), *[Raw(b" " * 10_000)] * 1000]
    async with FakeStore() as fake, store_of(fake) as store:
        fake.answer = lambda _: endless
        with pytest.raises(MetricsUnavailable, match="narrow the query"):
            await store.query(UP)


async def test_a_store_that_fails_is_left_alone_for_a_while() -> None:
    """After some failures in a row no query is sent until the pause is over. Then one query is tried."""
    clock = [0.0]
    async with FakeStore() as fake:
        fake.answer = lambda _: failing("502 Bad Gateway")
        async with store_of(fake, clock=lambda: clock[0]) as store:
            for number in range(FAILURES + 3):
                with pytest.raises(StoreUnavailable, match="HTTP 502"):
                    await store.query(InstantQuery(f"q{number}"))
            asked = len(fake.queries)
            clock[0] += COOLDOWN_SECONDS + 0.1
            fake.answer = lambda _: WELL
            await store.query(UP)
            await store.query(InstantQuery("other"))

            assert asked == FAILURES
            assert [*fake.queries[asked:]] == ["up", "other"]


async def test_who_may_not_ask_does_not_keep_others_from_trying() -> None:
    """A caller over its limit does not use up the trial after a pause."""
    clock = [0.0]

    def enough() -> None:
        raise PermissionError

    async with FakeStore() as fake:
        fake.answer = lambda _: failing("502 Bad Gateway")
        async with store_of(fake, clock=lambda: clock[0]) as store:
            for number in range(FAILURES):
                with pytest.raises(StoreUnavailable):
                    await store.query(InstantQuery(f"q{number}"))
            clock[0] += COOLDOWN_SECONDS + 0.1
            fake.answer = lambda _: WELL
            token = CALLER_QUOTA.set(enough)
            with pytest.raises(PermissionError):
                await store.query(UP)
            CALLER_QUOTA.reset(token)

            assert len((await store.query(UP)).series) == 1


async def test_our_own_queue_is_no_fault_of_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """Queries that wait too long for a slot say so, and the store still receives queries."""
    monkeypatch.setattr(module, "MAX_CONCURRENT", 1)
    async with FakeStore() as fake, store_of(fake) as store:
        fake.answer = lambda _: [None]
        hanging = asyncio.ensure_future(store.query(InstantQuery("hanging")))
        await eventually(lambda: len(fake.queries) == 1)
        store._deadline = 0.2  # The queries that wait for the one slot.
        waited = await asyncio.gather(
            *(store.query(InstantQuery(f"q{number}")) for number in range(FAILURES)), return_exceptions=True
        )
        fake.answer = lambda _: WELL
        fetching = store._results._entries[InstantQuery("hanging")].flight
        assert fetching is not None
        fetching.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hanging
        store._deadline = DEADLINE

        assert {StoreBusy} == {type(error) for error in waited}
        assert len((await store.query(UP)).series) == 1


async def test_a_thousand_who_wait_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Further queries are refused at once, also if all of them arrive in the same moment."""
    monkeypatch.setattr(module, "MAX_WAITING", 3)
    async with FakeStore() as fake, store_of(fake) as store:
        fake.answer = lambda _: WELL
        asked = await asyncio.gather(
            *(store.query(InstantQuery(f"q{number}")) for number in range(5)), return_exceptions=True
        )

        assert [isinstance(one, MetricsUnavailable) for one in asked] == [False] * 3 + [True] * 2
        assert len(fake.queries) == 3


@pytest.mark.parametrize("status", [401, 403, 404, 407, 429])
async def test_who_is_refused_whatever_it_asks_leaves_the_store_alone(status: int) -> None:
    """An expired token or a wrong path is reported for all queries, and the store gets a pause."""
    async with FakeStore() as fake, store_of(fake) as store:
        fake.answer = lambda _: failing(f"{status} No")
        with capture_logs() as logs:
            for number in range(FAILURES + 2):
                with pytest.raises(StoreUnavailable, match=f"HTTP {status}"):
                    await store.query(InstantQuery(f"q{number}"))

        assert len(fake.queries) == FAILURES
        assert [entry["reason"] for entry in logs] == [f"HTTP {status}"]


async def test_what_is_remembered_of_a_failure_is_small() -> None:
    """A cached error does not reference the result that caused it."""
    async with FakeStore() as fake, store_of(fake, max_age=60.0) as store:
        fake.answer = lambda _: b"[" * 200_000
        for _ in range(2):
            with pytest.raises(MetricsUnavailable, match="its answer cannot be read") as refused:
                await store.query(UP)

        assert (refused.value.__cause__, refused.value.__context__) == (None, None)
        assert len(fake.queries) == 1


async def test_a_token_that_the_store_quotes_is_passed_on_to_nobody(tmp_path: Path) -> None:
    """Proxies quote requests that they refuse, and callers must not see the adapter's secrets."""
    token = "a-token-of-some-length.and-more"
    file = secret(tmp_path, token)
    async with FakeStore() as fake, store_of(fake, token_file=file) as store:
        body = f'{{"error":"no such token: {token}."}}'.encode()
        fake.answer = lambda _: failing("400 Bad Request", body)
        with pytest.raises(MetricsUnavailable) as refused:
            await store.query(UP)
        fake.answer = lambda _: vector(warnings=[f"Bearer {token} is slow"])
        answer = await store.query(UP)

        assert str(refused.value) == "HTTP 400: no such token: (redacted)"
        assert answer.warnings == ("Bearer (redacted) is slow",)


async def test_a_wrong_query_is_no_reason_to_leave_the_store_alone() -> None:
    """The store's error is about the query, so the circuit breaker stays closed."""
    async with FakeStore() as fake, store_of(fake) as store:
        fake.answer = lambda query: WELL if query == "up" else failing("400 X", b'{"error":"parse error"}')
        for number in range(FAILURES + 1):
            with pytest.raises(MetricsUnavailable, match="parse error"):
                await store.query(InstantQuery(f"q{number}"))

        assert len((await store.query(UP)).series) == 1


async def test_a_failure_is_shared_for_a_moment() -> None:
    """A thousand callers of the same query do not all retry at once."""
    async with FakeStore() as fake, store_of(fake, max_age=60.0) as store:
        fake.answer = lambda _: failing("500 X")
        for _ in range(5):
            with pytest.raises(StoreUnavailable):
                await store.query(UP)

        assert len(fake.queries) == 1


async def test_the_store_is_told_who_asks_and_logs_are_not(tmp_path: Path) -> None:
    """The store receives token, tenant and timeout, and a changed token is used at once. No error shows the
    token.
    """
    file = secret(tmp_path, "hush-1")
    with capture_logs() as logs:
        async with FakeStore() as fake, store_of(fake, token_file=file, tenant="team-a") as store:
            await store.query(UP)
            secret(tmp_path, "hush-2")
            fake.answer = lambda _: failing("401 Unauthorized")
            with pytest.raises(MetricsUnavailable) as refused:
                await store.query(UP)
            fake.answer = lambda _: failing("500 Error")
            with pytest.raises(StoreUnavailable) as broken:
                await store.query(UP)

    first, second, _ = fake.heads
    assert "Authorization: Bearer hush-1\r\n" in first
    assert "X-Scope-OrgID: team-a\r\n" in first
    assert "Authorization: Bearer hush-2\r\n" in second
    assert fake.parameters[0] == {"query": "up", "timeout": f"{DEADLINE:g}"}
    assert "hush" not in f"{refused.value} {broken.value} {logs}"


async def test_basic_authentication(tmp_path: Path) -> None:
    """User and password are sent as RFC 7617 says."""
    file = secret(tmp_path, "open sesame")
    async with FakeStore() as fake, store_of(fake, username="aladdin", password_file=file) as store:
        await store.query(UP)

    assert "Authorization: Basic YWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n" in fake.heads[0]


async def test_a_secret_that_cannot_be_read_names_its_file(tmp_path: Path) -> None:
    """No request is sent without it."""
    file = secret(tmp_path, "hush")
    async with FakeStore() as fake, store_of(fake, token_file=file) as store:
        Path(file).unlink()  # noqa: ASYNC240 - a file of this test, on a disk of this machine
        with capture_logs() as logs, pytest.raises(StoreUnavailable, match=f"cannot read {file}"):
            await store.query(UP)

        assert fake.queries == []
        assert [file in entry["reason"] for entry in logs] == [True]


async def test_the_environment_sends_nobody_astray(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Proxies and .netrc of the environment are ignored."""
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login x password stolen\n", encoding="utf-8")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    async with FakeStore() as fake, store_of(fake) as store:
        await store.query(UP)

    assert "Authorization" not in fake.heads[0]


async def test_a_store_that_is_not_there() -> None:
    """The error for a closed port is readable."""
    async with MetricsStore(
        StoreAccess("http://127.0.0.1:1"),
        deadline=DEADLINE,
        max_age=0.0,
        clock=SYSTEM.monotonic,
        wall=SYSTEM.wall,
    ) as store:
        with pytest.raises(StoreUnavailable, match=r"^Connection refused$"):
            await store.query(UP)


class TlsStore(FakeStore):
    """A fake store behind TLS."""

    def __init__(self, folder: Path, authority: CertificateAuthority) -> None:
        super().__init__()
        authority.issue_server("store", dns=["localhost"], ips=["127.0.0.1"]).save(folder)
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.context.load_cert_chain(folder / "tls.crt", folder / "tls.key")

    @property
    def url(self) -> str:
        return super().url.replace("http:", "https:")


async def test_the_ca_file_alone_vouches_for_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store is trusted if a CA of the file signed its certificate, and file changes are followed."""
    right, wrong = (CertificateAuthority.create(name) for name in ("right-ca", "wrong-ca"))
    fake = TlsStore(tmp_path, right)
    serve: Callable[..., Any] = asyncio.start_server
    monkeypatch.setattr(asyncio, "start_server", lambda *args: serve(*args, ssl=fake.context))
    file = tmp_path / "ca.crt"
    file.write_bytes(right.bundle_pem)
    async with fake, store_of(fake, ca_file=str(file)) as store:
        fake.answer = lambda _: WELL
        known = await store.query(UP)
        file.write_bytes(wrong.bundle_pem)
        with pytest.raises(StoreUnavailable, match="certificate verify failed"):
            await store.query(UP)

        assert len(known.series) == 1
        assert len(fake.queries) == 1


async def test_a_store_that_hangs_in_the_handshake_costs_a_deadline(tmp_path: Path) -> None:
    """A port that accepts connections and sends nothing fails in the handshake."""
    async with FakeStore() as fake:
        url = fake.url.replace("http:", "https:")
        async with MetricsStore(
            StoreAccess(url), deadline=0.5, max_age=0.0, clock=SYSTEM.monotonic, wall=SYSTEM.wall
        ) as store:
            started = time.monotonic()
            with pytest.raises(StoreUnavailable, match=r"no answer within 0\.5 s"):
                await store.query(UP)

            assert time.monotonic() - started < 30.0
    await eventually(lambda: threads() == 0, within=30.0)


async def test_leaving_ends_what_is_under_way() -> None:
    """A process that stops does not wait for a store."""
    async with FakeStore() as fake:
        fake.answer = lambda _: [None]
        async with store_of(fake, deadline=60.0) as store:
            waiting = asyncio.ensure_future(store.query(UP))
            await eventually(lambda: len(fake.queries) == 1, within=30.0)
        with pytest.raises(asyncio.CancelledError):
            await waiting
    await eventually(lambda: threads() == 0, within=30.0)
