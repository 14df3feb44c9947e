"""The adapter serves no unauthenticated request, whatever its spelling, and never shows a credential."""

from __future__ import annotations

import io
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import structlog
from aiohttp import web
from yarl import URL

from fedhpa.serving.authorization import PROBE_USER
from fedhpa.serving.logs import configure_logs
from tests.support.adapter.process import (
    CONFIG_MAPS,
    JANE,
    PODS_PATH,
    Answer,
    Caller,
    Fleet,
    fleet_of_one,
    pod_metrics,
    until,
)
from tests.support.fake_responses import ACCESS_REVIEW, review
from tests.support.fakeapi import eventually

MEMBER_TOKEN = "eyJhbGciOiJSUzI1NiIsImtpZCI6Im0xIn0.bWVtYmVyLW9uZQ." + "s3cret" * 100
SERVED = [
    "/",
    "/apis",
    "/apis/metrics.k8s.io",
    "/apis/metrics.k8s.io/v1beta1",
    "/apis/custom.metrics.k8s.io/v1beta2",
    "/apis/external.metrics.k8s.io/v1beta1",
    "/openapi/v2",
    "/openapi/v3",
    "/openapi/v3/apis/metrics.k8s.io/v1beta1",
    "/version",
    "/metrics",
    "/nowhere",
]


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    async with fleet_of_one(tmp_path, pod_metrics("web", app="web"), token=MEMBER_TOKEN) as made:
        yield made


async def as_it_is(caller: Caller, target: str, headers: dict[str, str]) -> Answer:
    """Sends GET with an unencoded target and does not follow redirects."""
    url = URL(caller._base + target, encoded=True)
    async with caller._session.get(url, headers=headers, allow_redirects=False) as response:
        return Answer(response.status, response.headers, await response.read())


async def test_every_path_is_reviewed(fleet: Fleet) -> None:
    """Discovery, OpenAPI and the series reveal as much about a fleet as its metrics."""
    fleet.world.hub.denied.add("jane")
    async with fleet.world.adapter() as adapter, fleet.world.caller(adapter) as caller:
        found = [(await caller.call("GET", path, JANE)).status for path in SERVED]
        reviewed = [review["nonResourceAttributes"] for review in fleet.world.hub.reviews]

    assert found == [403] * len(SERVED)
    assert reviewed == [{"path": path, "verb": "get"} for path in SERVED]


REVIEWED = {
    "": ("list", ""),
    "?fieldSelector=metadata.name%3Dweb": ("list", "web"),
    "?fieldSelector=metadata.name%3D%3Dweb,metadata.namespace!%3Dx": ("list", "web"),
    "?fieldSelector=metadata.name!%3Dweb": ("list", ""),
    "?fieldSelector=metadata.name%3D..": ("list", ""),
    "?watch=yes": ("watch", ""),
    "?watch=false": ("list", ""),
}


async def test_a_list_of_one_name_is_reviewed_by_name(fleet: Fleet) -> None:
    """A right to one name allows to list that one. Any `watch` but false is a watch."""
    found = dict[str, tuple[str, str]]()
    async with fleet.world.adapter() as adapter, fleet.world.caller(adapter) as caller:
        for query in REVIEWED:
            # Reviews are cached for each user.
            await caller.call("GET", PODS_PATH + query, {"X-Remote-User": f"user{len(found)}"})
            attributes = fleet.world.hub.reviews[-1]["resourceAttributes"]
            found[query] = attributes["verb"], attributes.get("name", "")

    assert found == REVIEWED
    assert len(fleet.world.hub.reviews) == len(REVIEWED)


async def test_a_proxy_names_its_user_in_one_spelling(fleet: Fleet) -> None:
    """Only the headers that the hub published count; an invalid header line ends the request."""
    async with fleet.world.adapter() as adapter:
        for header, value in (
            ("X_Remote_User", "admin"),
            ("X-Remote-User ", "admin"),
            ("X-Remote-User", ""),
            ("X-Remote-Group", "system:masters"),
            ("X-Remote-Extra-User", "admin"),
            ("Impersonate-User", "admin"),
            ("X-Forwarded-User", "admin"),
        ):
            async with fleet.world.caller(adapter) as caller:
                answer = await caller.call("GET", PODS_PATH, {header: value})

            assert answer.status in (400, 401), header
    assert fleet.world.hub.reviews == []


async def test_impersonation_is_refused(fleet: Fleet) -> None:
    """A caller that asks to act as another user must not be answered as itself."""
    async with fleet.world.adapter() as adapter, fleet.world.caller(adapter) as caller:
        for header in ("Impersonate-User", "impersonate-group", "Impersonate-Uid", "Impersonate-Extra-Team"):
            answer = await caller.call("GET", PODS_PATH, {**JANE, header: "joe"})

            assert (answer.status, answer.json["reason"]) == (403, "Forbidden"), header
            assert "impersonation is not supported" in answer.json["message"]
    assert fleet.world.hub.reviews == []


async def test_of_repeated_headers_the_first_user_counts(fleet: Fleet) -> None:
    """As in Go, the first user counts and groups add up, so the hub and the adapter see the same user."""
    async with fleet.world.adapter() as adapter, fleet.world.caller(adapter) as caller:
        url = caller._base + PODS_PATH
        headers = [("X-Remote-User", "jane"), ("X-Remote-User", "admin"), ("X-Remote-Group", "a")]
        more = [("X-Remote-Group", "b"), ("X-Remote-Extra-Team%2Fx", "1")]
        async with caller._session.get(url, headers=[*headers, *more]) as response:
            assert response.status == 200

        (review,) = fleet.world.hub.reviews
        assert (review["user"], review["groups"]) == ("jane", ["a", "b", "system:authenticated"])
        assert review["extra"] == {"team/x": ["1"]}


async def test_remote_headers_of_a_user_do_not_count(fleet: Fleet) -> None:
    """A client's certificate or token proves its user; claimed groups and extras are dropped."""
    claims = {**JANE, "X-Remote-Group": "system:masters", "X-Remote-Extra-a": "b", "X-Remote-Uid": "1"}
    fleet.world.hub.users["good"] = {"username": "joe"}
    async with (
        fleet.world.adapter() as adapter,
        fleet.world.caller(adapter, authority=fleet.world.clients, name="joe") as known,
        fleet.world.caller(adapter, name="not-the-front-proxy") as strange,
        fleet.world.caller(adapter, certificate=False) as bearer,
    ):
        assert (await known.call("GET", PODS_PATH, claims)).status == 200
        assert (await strange.call("GET", PODS_PATH, claims)).status == 401
        with_token = {**claims, "Authorization": "Bearer good"}
        assert (await bearer.call("GET", "/version", with_token)).status == 200

        for review in fleet.world.hub.reviews:
            assert review["user"] == "joe"
            assert review["groups"] == ["system:authenticated"]
            assert not {"extra", "uid"} & set(review)


async def test_removed_front_proxy_names_take_effect(fleet: Fleet) -> None:
    """A front proxy whose name the hub removes no longer authenticates users, also on an open connection."""
    name = "extension-apiserver-authentication"
    async with (
        fleet.world.adapter() as adapter,
        fleet.world.caller(adapter) as old,
        fleet.world.caller(adapter, name="another-proxy") as new,
    ):
        assert [(await caller.call("GET", PODS_PATH, JANE)).status for caller in (old, new)] == [200, 401]

        published = fleet.world.hub.find(CONFIG_MAPS, name, "kube-system")
        assert published is not None
        published["data"]["requestheader-allowed-names"] = '["another-proxy"]'
        fleet.world.hub.put(CONFIG_MAPS, published)

        async def swapped() -> bool:
            found = [(await caller.call("GET", PODS_PATH, JANE)).status for caller in (old, new)]
            return found == [401, 200]

        await until(swapped)


async def test_an_open_path_opens_no_other(fleet: Fleet) -> None:
    """Unauthenticated requests get no metrics, also not by a detour over the paths of probes."""
    async with fleet.world.adapter() as adapter, fleet.world.caller(adapter, certificate=False) as caller:
        before = len(fleet.member.seen)
        for target in (
            f"/healthz/..{PODS_PATH}",
            f"/healthz/%2e%2e{PODS_PATH}",
            f"/healthz%2f..{PODS_PATH}",
            f"/healthz/..;{PODS_PATH}",
            f"/livez/{PODS_PATH}",
            f"//healthz{PODS_PATH}",
            f"/readyz?x={PODS_PATH}#{PODS_PATH}",
        ):
            answer = await as_it_is(caller, target, JANE)

            assert answer.status in (200, 400, 401, 404), target
            assert b"items" not in answer.body
        # The adapter probes each API of a member on its own schedule.
        assert not any("/pods" in seen.path for seen in fleet.member.seen[before:])


# The answer to a review, and the status that the caller gets.
NO_PERMISSIONS: dict[str, tuple[object, int]] = {
    "nothing": ({}, 500),
    "no-kind": ({"status": {"allowed": True}}, 500),
    "no-verdict": (review(ACCESS_REVIEW, {}), 403),
    "both": (review(ACCESS_REVIEW, {"allowed": True, "denied": True}), 403),
    "no-boolean": (review(ACCESS_REVIEW, {"allowed": "true"}), 500),
    "no-object": ([], 500),
}


async def test_what_the_hub_does_not_allow_is_denied(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty or unreadable review is not a permission, and an unreadable one is repeated."""
    serve = fleet.world.hub._serve
    asked: list[str] = []

    async def reviewing(request: web.Request) -> web.StreamResponse:
        if not request.path.endswith("/subjectaccessreviews"):
            return await serve(request)
        user = (await request.json())["spec"]["user"]
        if user == PROBE_USER:
            return web.json_response(review(ACCESS_REVIEW, {"allowed": False}))
        asked.append(user)
        return web.json_response(NO_PERMISSIONS[user][0])

    monkeypatch.setattr(fleet.world.hub, "_serve", reviewing)
    async with fleet.world.adapter() as adapter, fleet.world.caller(adapter) as caller:
        for user, (_, status) in NO_PERMISSIONS.items():
            found = [(await caller.call("GET", PODS_PATH, {"X-Remote-User": user})).status for _ in range(2)]

            assert found == [status] * 2, user
            assert asked.count(user) == (1 if status == 403 else 2)


async def test_the_length_of_a_selector_is_bounded(fleet: Fleet) -> None:
    """A selector of nine hundred values is accepted; one that is longer than a header may be is refused."""
    async with fleet.world.adapter() as adapter, fleet.world.caller(adapter) as caller:
        values = ",".join(f"a{number}" for number in range(900))
        longer = ",".join(f"a{number}" for number in range(16_000))
        read = await as_it_is(caller, f"{PODS_PATH}?labelSelector=app%20in%20({values})", JANE)
        endless = await as_it_is(caller, f"{PODS_PATH}?labelSelector=app%20in%20({longer})", JANE)

    assert (read.status, endless.status) == (200, 431)
    assert endless.json["kind"] == "Status"


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """Captures the log of a process with -v=4."""
    root = logging.getLogger()
    before = structlog.get_config(), root.handlers, root.level
    stream = io.StringIO()
    configure_logs("json", 4, stream)
    yield stream
    structlog.configure(**before[0])
    root.handlers, root.level = before[1], before[2]


@pytest.mark.parametrize("cut", [0, 430], ids=["whole", "cut"])
async def test_credentials_are_never_shown(fleet: Fleet, log: io.StringIO, cut: int) -> None:
    """Neither the debug log nor a response has credentials, even if a failing member quotes them."""
    quoted = "x" * cut + f' bad header "Authorization: Bearer {MEMBER_TOKEN}"'
    serve = fleet.member._serve
    failure = 500

    async def quoting(request: web.Request) -> web.StreamResponse:
        if "metrics.k8s.io" not in request.path:
            return await serve(request)
        body = {"kind": "Status", "message": quoted, "reason": MEMBER_TOKEN, "code": failure}
        return web.json_response(body, status=failure, headers={"X-Echo": MEMBER_TOKEN})

    fleet.member._serve = quoting  # type: ignore[method-assign]  # a member that is not well
    said: list[str] = []
    async with (
        fleet.world.adapter("--audit-log-path=-") as adapter,
        fleet.world.caller(adapter) as caller,
        fleet.world.caller(adapter, certificate=False) as bearer,
    ):
        configure_logs("json", 4, log)
        paths = [PODS_PATH, "/apis/custom.metrics.k8s.io/v1beta2/namespaces/a/pods/*/m"]
        paths.append("/apis/external.metrics.k8s.io/v1beta1/namespaces/a/m")
        for status in (400, 403, 404, 409, 500, 503):
            failure = status
            for path in paths:
                answer = await caller.call("GET", path, {**JANE, "Authorization": "Bearer caller-token"})
                said.append(f"{answer.headers} {answer.body!r}")
        (await bearer.get(PODS_PATH, Authorization="Bearer another-caller-token"))
        fleet.member.token = "rotated"

        async def refused() -> bool:
            answer = await caller.call("GET", PODS_PATH, JANE)
            said.append(f"{answer.headers} {answer.body!r}")
            return b"refuses our token" in answer.body

        await until(refused)
        await fleet.member.stop()
        await eventually(lambda: "cannot connect" in log.getvalue(), 30.0)
        await fleet.world.hub.stop()
        await eventually(lambda: "readiness check failed" in log.getvalue(), 30.0)

    everything = log.getvalue() + "".join(said)
    assert "(redacted)" in everything
    assert '"event": "request"' in everything
    for secret in (MEMBER_TOKEN[:20], "s3cret", "caller-token", "hub-token", "rotated", "PRIVATE KEY"):
        assert secret not in everything
