"""Hostile input of a caller or in a pod's label affects neither other callers nor other members."""

from __future__ import annotations

import asyncio
import http.client
import io
import json
import resource
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from aiohttp.typedefs import Handler
from prometheus_client import generate_latest
from structlog.testing import capture_logs
from yarl import URL

from fedhpa.api.selectors import parse_selector
from fedhpa.kube import SYSTEM, Turns, decode_in_pieces, resources
from fedhpa.kube.client import ApiClient
from fedhpa.kube.config import ApiConfig
from fedhpa.members.member import Member
from metrics_adapter.members.resource_metrics import decode_list
from metrics_adapter.members.source import Gathered, MembersSource
from metrics_adapter.process import Adapter
from metrics_adapter.server.negotiation import media_ranges, warning_values
from tests.support.adapter.process import (
    JANE,
    PODS_PATH,
    Answer,
    Caller,
    Fleet,
    fleet_of_one,
    pod_metrics,
)
from tests.support.fake_responses import ACCESS_REVIEW, review
from tests.support.fakeapi import PATIENCE, eventually

API = "/apis/metrics.k8s.io/v1beta1"
CUSTOM_GROUP = "custom.metrics.k8s.io"
CUSTOM = f"/apis/{CUSTOM_GROUP}/v1beta2"
EXTERNAL = "/apis/external.metrics.k8s.io/v1beta1"
# Paths that the adapter reads on its own schedule.
OF_DISCOVERY = {"/readyz", API, f"/apis/{CUSTOM_GROUP}", EXTERNAL}


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    async with fleet_of_one(tmp_path, pod_metrics("web", app="web", size="9" * 4301)) as made:
        yield made


async def get(caller: Caller, target: str, headers: dict[str, str] | None = None) -> Answer:
    """Sends GET with an unencoded target."""
    url = URL(caller._base + target, encoded=True)
    async with caller._session.get(url, headers=JANE if headers is None else headers) as response:
        return Answer(response.status, response.headers, await response.read())


def resident_bytes() -> int:
    """Returns the bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def series(adapter: Adapter, name: str) -> dict[str, float]:
    """Returns the samples of a series by their labels."""
    found = {}
    for line in generate_latest(adapter.telemetry.registry).decode().splitlines():
        if line.startswith(f"{name}{{"):
            labels, _, value = line.removeprefix(name).rpartition(" ")
            found[labels] = float(value)
    return found


NO_NAMES = {
    f"{API}/namespaces/{'n' * 64}/pods": 404,
    f"{API}/namespaces/shop/pods/{'p' * 254}": 404,
    f"{API}/nodes/{'n' * 6000}": 404,
    f"{CUSTOM}/namespaces/shop/pods/{'p' * 254}/m": 404,
    f"{CUSTOM}/namespaces/shop/pods/*/{'m' * 513}": 404,
    f"{CUSTOM}/namespaces/shop/{'r' * 318}/x/m": 404,
    f"{EXTERNAL}/namespaces/shop/{'m' * 513}": 404,
    f"{API}/namespaces/shop/pods/a%2Fb": 400,
    f"{API}/namespaces/shop%2Fpods%2Fa/pods": 400,
    f"{CUSTOM}/namespaces/shop/pods/a%2fb/m": 400,
    f"{EXTERNAL}/namespaces/shop/a%2Fb": 400,
    f"{CUSTOM}/namespaces/shop/Namespaces/other/m": 404,
    f"{CUSTOM}/namespaces/shop/namespaces./other/m": 404,
    f"{CUSTOM}/Namespaces/other/m": 404,
    f"{CUSTOM}/namespaces/shop/namespace/other/m": 404,
}


async def test_names_that_no_object_has_reach_no_member(fleet: Fleet) -> None:
    """They are refused before the adapter stores or reviews any part of them."""
    async with fleet.world.adapter() as adapter, fleet.world.caller(adapter) as caller:
        await get(caller, PODS_PATH)
        kept = resources._cached_path.cache_info().currsize
        before = {seen.path for seen in fleet.member.seen}
        answers = {target: await get(caller, target) for target in NO_NAMES}
        asked = {seen.path for seen in fleet.member.seen} - before - OF_DISCOVERY

    assert {target: answer.status for target, answer in answers.items()} == NO_NAMES
    assert {answer.json["kind"] for answer in answers.values()} == {"Status"}
    assert resources._cached_path.cache_info().currsize == kept
    assert asked == set()


async def test_the_longest_names_are_served(fleet: Fleet) -> None:
    """Names of 63 and 253 bytes exist in Kubernetes."""
    async with fleet.world.adapter() as adapter, fleet.world.caller(adapter) as caller:
        listed = await get(caller, f"{API}/namespaces/{'n' * 63}/pods")
        one = await get(caller, f"{API}/namespaces/shop/pods/{'p' * 253}")

    assert (listed.status, one.status) == (200, 404)
    assert "p" * 253 in one.json["message"]


async def test_numbers_and_selectors_that_are_too_large_are_no_errors_of_ours(fleet: Fleet) -> None:
    """A label with 4,301 digits, which Python refuses to read, selects nothing. A larger selector than the
    bounds allow is the caller's mistake, so the status is 400.
    """
    paths = (PODS_PATH, f"{CUSTOM}/namespaces/shop/pods/*/m", f"{EXTERNAL}/namespaces/shop/m")
    async with fleet.world.adapter() as adapter, fleet.world.caller(adapter) as caller:
        for selector in ("size%3E5", "size%3C5"):
            answer = await get(caller, f"{PODS_PATH}?labelSelector={selector}")

            assert (answer.status, answer.json["items"], answer.warnings) == (200, [], [])
        for selector in (
            "size%3E" + "9" * 4301,
            ",".join(["!a"] * 101),
            "a%20in%20(" + ",".join(["b"] * 1001) + ")",
        ):
            for path in paths:
                answer = await get(caller, f"{path}?labelSelector={selector}")

                assert answer.status == 400, (path, selector[:20])
                assert "selector" in answer.json["message"] or "integer" in answer.json["message"]


async def test_refusals_are_counted(fleet: Fleet) -> None:
    """401, 403, 429, 400, 404 and 500 are counted with what was requested."""
    hub = fleet.world.hub
    hub.denied.add("denied")
    async with (
        fleet.world.adapter("--max-user-requests-inflight=1") as adapter,
        fleet.world.caller(adapter) as caller,
    ):
        await get(caller, PODS_PATH)
        await get(caller, PODS_PATH, {})
        await get(caller, PODS_PATH, {"X-Remote-User": "denied"})
        await get(caller, f"{PODS_PATH}?labelSelector=(")
        await get(caller, f"{API}/namespaces/shop/pods/a%2Fb")
        await get(caller, f"{API}/nothing")
        release = await blocked_review(fleet)
        blocked = asyncio.ensure_future(get(caller, f"{PODS_PATH}?cluster=a", {"X-Remote-User": "slow"}))
        await release.started.wait()
        await get(caller, PODS_PATH, {"X-Remote-User": "slow"})
        release.status = 500
        release.go.set()
        await blocked
        counted = series(adapter, "fedhpa_adapter_requests_total")

    codes: dict[str, float] = {}
    for labels, value in counted.items():
        code = labels.partition('code="')[2][:3]
        codes[code] = codes.get(code, 0) + value
        assert 'resource="pods"' in labels or 'resource="other"' in labels
    assert codes == {"200": 1, "401": 1, "403": 1, "400": 2, "404": 1, "429": 1, "500": 1}


class Release:
    """Holds an access review until the test releases it."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.go = asyncio.Event()
        self.status = 200


async def blocked_review(fleet: Fleet) -> Release:
    """Makes the hub hold all access reviews."""
    release = Release()
    serve: Handler = fleet.world.hub._serve

    async def hold(request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/subjectaccessreviews"):
            release.started.set()
            await release.go.wait()
            return web.json_response(review(ACCESS_REVIEW, {}), status=release.status)
        return await serve(request)

    fleet.world.hub._serve = hold  # type: ignore[method-assign]  # a slow hub
    return release


async def test_a_caller_cannot_make_a_member_look_down(fleet: Fleet) -> None:
    """A member that refuses an invalid request counts as up, and the answer still names it."""
    fleet.member.faults.status[f"{API}/namespaces/odd"] = 414
    async with fleet.world.adapter() as adapter, fleet.world.caller(adapter) as caller:
        with capture_logs() as logs:
            answer = await get(caller, f"{API}/namespaces/odd/pods")
        up = series(adapter, "fedhpa_adapter_member_up")
        missing = series(adapter, "fedhpa_adapter_member_missing_total")

    assert answer.status == 503
    assert up == {'{cluster="member1"}': 1.0}
    assert missing == {'{api="metrics.k8s.io",cluster="member1"}': 1.0}
    assert [entry["event"] for entry in logs if entry["log_level"] == "warning"] == []


@pytest.mark.parametrize("fault", ["hang", "status", "body"])
async def test_a_request_that_fails_a_member_leaves_it_up(fleet: Fleet, fault: str) -> None:
    """One namespace whose metrics hang, fail or are spoiled is no reason to call the member down."""
    odd = f"{API}/namespaces/odd"
    {
        "hang": lambda: fleet.member.faults.hang.add(odd),
        "status": lambda: fleet.member.faults.status.update({odd: 500}),
        "body": lambda: fleet.member.faults.body.update({odd: b"{}"}),
    }[fault]()
    async with (
        fleet.world.adapter("--member-deadline=300ms") as adapter,
        fleet.world.caller(adapter) as caller,
    ):
        await eventually(lambda: adapter.telemetry._probes, PATIENCE)
        answers = [await get(caller, f"{odd}/pods") for _ in range(4)]
        up = series(adapter, "fedhpa_adapter_member_up")
        await adapter._probes.probe_due()
        later = series(adapter, "fedhpa_adapter_member_up")

    assert [answer.status for answer in answers] == [503] * 4
    assert up == later == {'{cluster="member1"}': 1.0}


class Broken(Exception):
    """An unexpected error."""


async def test_an_unexpected_error_of_one_member_costs_only_its_answer(fleet: Fleet) -> None:
    """The other members are served, and the answer and one log line name the member."""
    async with fleet.world.adapter() as adapter:
        members = adapter._registry.members
        source = MembersSource(
            lambda: {**members, "other": members["member1"]},
            adapter._lists,
            max_age=0,
            clock=SYSTEM.monotonic,
        )
        calls = 0

        async def request(_: Member) -> str:
            nonlocal calls
            calls += 1
            if calls == 1:
                raise Broken("what is this")
            return "well"

        with capture_logs() as logs:
            gathered: Gathered[str] = await source.gather("metrics.k8s.io/v1beta1", request, lambda _: True)

    assert gathered.answers == ["well"]
    (reason,) = gathered.missing.values()
    assert "Broken: what is this" in reason
    assert [entry["cluster"] for entry in logs if entry["event"] == "task failed"] == ["member1"]


def test_at_most_ten_members_are_named() -> None:
    """Python's http.client refuses more than a hundred headers."""
    gathered: Gathered[str] = Gathered(
        (), {f"m{number:03}": "no answer" for number in range(130)}, ["a note"]
    )
    values = warning_values(gathered.warnings())
    head = "".join(f"Warning: {value}\r\n" for value in values).encode()

    assert len(http.client.parse_headers(io.BytesIO(head + b"\r\n")).get_all("Warning") or []) == 12
    assert values[9] == '299 - "m009 did not answer: no answer"'
    assert values[10] == '299 - "and 120 more members did not answer"'
    assert values[11] == '299 - "and 1 more warnings"'


async def test_our_own_client_reads_a_hub_that_names_all_members() -> None:
    """With --metrics-via=hub the adapter on the hub may be an older one."""

    async def serve(_: web.Request) -> web.Response:
        headers = [("Warning", f'299 - "m{number} did not answer"') for number in range(500)]
        return web.json_response({"items": []}, headers=headers)

    application = web.Application()
    application.router.add_get("/", serve)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        async with ApiClient(ApiConfig(server=f"http://{host}:{port}")) as client:
            response = await client.request("GET", "/")
    finally:
        await runner.cleanup()

    assert json.loads(response.body) == {"items": []}


async def test_a_selector_over_many_pods_lets_other_requests_run() -> None:
    """20,000 pods times 100 terms take a second; others run at least every hundredth of it."""
    pods = [pod_metrics(f"web-{number}", app="web") for number in range(20_000)]
    listed = {"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "items": pods}
    body = json.dumps(listed, separators=(",", ":")).encode()
    pieces = await decode_in_pieces([body], lambda piece: decode_list(piece, "m1"))
    items = await pieces[0].joined(pieces, Turns())
    selector = parse_selector(",".join(f"!a{number}" for number in range(100)))
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    selected = await items.select(selector)
    task.cancel()
    await asyncio.wait([task])

    assert selected is not None
    assert len(selected) == 20_000
    assert turns > 10


def test_few_entries_of_an_accept_header_are_read() -> None:
    """An Accept header of 30 kB would cost as much as hundreds of requests."""
    assert len(media_ranges("a/b," * 10_000)) == 32


async def test_names_of_60_kb_leave_nothing(fleet: Fleet) -> None:
    """25,000 of them once took the process from 93 MB to 2.85 GB, so 400 would take 45 MB."""
    async with fleet.world.adapter() as adapter:
        application = adapter.server._application
        before = resident_bytes()
        statuses = set()
        for number in range(400):
            request = make_mocked_request("GET", f"{API}/namespaces/shop/pods/{number:060000d}")
            statuses.add((await application._handle(request)).status)

        assert statuses == {404}
        assert resident_bytes() - before < 24 * 2**20
