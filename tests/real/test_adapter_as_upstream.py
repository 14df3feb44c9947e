"""The metrics adapter answers as the servers of upstream: metrics-server and custom-metrics-apiserver.

The adapter has one member, which is a server of upstream. Both get the same requests. They may differ only
in the rows of docs/contributing/conformance.md.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml
from aiohttp import ClientSession
from yarl import URL

from fedhpa.kube import SYSTEM
from fedhpa.kube.transport import tcp_connector
from fedhpa.members.cluster import Access, Cluster, ClusterMeta
from fedhpa.members.lists import SharedLists
from fedhpa.members.member import Member
from metrics_adapter.members.discovery_cache import MetricDiscoveryCache
from metrics_adapter.members.source import MembersSource
from testbed.stage import eventually
from tests.support.adapter.application import DEADLINE, client_of
from tests.support.adapter.upstream_requests import CUSTOM, DOCUMENTS, EXTERNAL, WORLD, Request, requests

PAGE: Final = Path(__file__).parents[2] / "docs" / "contributing" / "conformance.md"
JSON: Final = "application/json"
YEAR: Final = 365 * 24 * 3600
YamlLoader: Final = yaml.CBaseLoader


class Answer(NamedTuple):
    """Status, media type, whether it is compressed and may be cached, and the decoded body."""

    status: int
    media: str
    compressed: bool
    caching: str
    body: Any

    @property
    def reason(self) -> str:
        return self.body.get("reason", "") if isinstance(self.body, dict) else ""


async def ask(session: ClientSession, server: URL, request: Request) -> Answer:
    """Returns the answer to the request, without what federation adds."""
    url = URL(f"{str(server).rstrip('/')}{request.path}", encoded=True)
    left_out = [name for name in ("Accept", "Accept-Encoding", "User-Agent") if name not in request.headers]
    async with session.request(
        request.method, url, headers=request.headers, skip_auto_headers=left_out, allow_redirects=False
    ) as response:
        body: Any = await response.read()
    compressed = response.headers.get("Content-Encoding") == "gzip"
    if compressed:
        body = gzip.decompress(body)
    media = response.headers.get("Content-Type", "").partition("; charset")[0]
    try:
        body = of_one_cluster(yaml.load(body, YamlLoader) if media.endswith("yaml") else json.loads(body))
    except ValueError:
        body = body.decode(errors="replace")
    return Answer(response.status, media, compressed, response.headers.get("Cache-Control", ""), body)


def of_one_cluster(found: Any) -> Any:
    """Returns a document without annotations and labels that name the cluster."""
    if isinstance(found, list):
        return [of_one_cluster(one) for one in found]
    if not isinstance(found, dict):
        return found
    kept = {key: of_one_cluster(one) for key, one in found.items()}
    if isinstance(kept.get("resources"), list):
        kept["resources"].sort(key=str)  # upstream lists them in any order
    if "metricLabels" in kept:
        kept["metricLabels"].pop("cluster", None)
    if (
        kept.get("annotations", {}).pop("resource.karmada.io/query-from-cluster", "")
        and not kept["annotations"]
    ):
        del kept["annotations"]
    return kept


Explains = Callable[[Request, Answer, Answer], bool]
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"


def of_values(request: Request) -> bool:
    return request.path.startswith((CUSTOM[:-1], EXTERNAL))


def is_document(request: Request) -> bool:
    return request.path in DOCUMENTS


def same(theirs: Answer, ours: Answer) -> bool:
    """True for two answers of one status and reason."""
    return (theirs.status, theirs.reason) == (ours.status, ours.reason)


def without_name(theirs: Answer, ours: Answer) -> bool:
    """True for two answers that say which metric is not found, where ours omits the object's name."""
    return same(theirs, ours) and theirs.body["message"].startswith(ours.body["message"])


# The first column of the table of the page, and which difference it explains, by what both answered.
EXPLAINED: Final[dict[str, Explains]] = {
    "protobuf": lambda q, theirs, ours: theirs.media == PROTOBUF,
    "refusals as YAML": lambda q, theirs, ours: (
        theirs.media == "application/yaml" and theirs.status >= 400 and ours.media == "application/json"
    ),
    "a path that is not served: the paths that are": lambda q, theirs, ours: (
        theirs.status == ours.status == 404 and "paths" in theirs.body
    ),
    "`/version` is that of Kubernetes' libraries": lambda q, theirs, ours: q.path == "/version",
    "OpenAPI documents of Go's types": lambda q, theirs, ours: (
        q.path.startswith("/openapi/") and ours.status == 200 and theirs.status in (200, 304)
    ),
    "the group `custom.metrics.k8s.io` has its first version only": lambda q, theirs, ours: (
        q.path in ("/apis", CUSTOM.rpartition("/")[0]) and theirs.status == ours.status == 200
    ),
    "documents: 406 without a known media type": lambda q, theirs, ours: (
        is_document(q) and theirs.status == 406 and ours.status == 200
    ),
    "a Table of values: 406": lambda q, theirs, ours: (
        of_values(q) and "as=Table" in q.accept and theirs.status == 406
    ),
    "metadata of values: 500, or a list without items": lambda q, theirs, ours: (
        of_values(q) and "as=Partial" in q.accept and ours.status == 406
    ),
    "`application/*`, and `as=` without `g=`: 406": lambda q, theirs, ours: (
        q.accept in ("application/*", "application/json;as=Table;v=v1") and theirs.status == 406
    ),
    "metadata of an empty list: `items: null`": lambda q, theirs, ours: (
        "as=Partial" in q.accept and theirs.body == {**ours.body, "items": None}
    ),
    "HEAD: 405": lambda q, theirs, ours: q.method == "HEAD" and theirs.status == 405,
    "an encoded slash: 404": lambda q, theirs, ours: "%2F" in q.path and ours.status == 400,
    "an empty namespace: all namespaces": lambda q, theirs, ours: "//" in q.path and ours.status == 404,
    "`namespaces/N/pods`: 400": lambda q, theirs, ours: (
        q.path.rstrip("/") == f"{CUSTOM}/namespaces/shop/pods" and (theirs.status, ours.status) == (400, 404)
    ),
    "an unknown path and another mistake: one of both": lambda q, theirs, ours: (
        {theirs.status, ours.status} <= {404, 405, 406} and theirs.status != ours.status
    ),
    "`fieldSelector` of external metrics has no effect": lambda q, theirs, ours: (
        q.path.startswith(EXTERNAL) and "fieldSelector=" in q.path and ours.status == 400
    ),
    "`fieldSelector==` selects all": lambda q, theirs, ours: (
        "fieldSelector==" in q.path and ours.status == 400
    ),
    "`metricLabelSelector` that is none: 500": lambda q, theirs, ours: (
        "metricLabelSelector" in q.path and (theirs.status, ours.status) == (500, 400)
    ),
    "`includeObject` that is unknown: 400": lambda q, theirs, ours: (
        "includeObject=Odd" in q.path and (theirs.status, ours.status) == (400, 200)
    ),
    "a metric that is not found: the object's name in the message": lambda q, theirs, ours: (
        of_values(q) and ours.status == 404 and without_name(theirs, ours)
    ),
    "the words of 400 and 406": lambda q, theirs, ours: ours.status in (400, 406) and same(theirs, ours),
}


@asynccontextmanager
async def both(assets: Path, folder: Path) -> AsyncIterator[tuple[ClientSession, URL, URL]]:
    """Starts the server of upstream, and the adapter over it; returns their addresses."""
    known = folder / "world.json"
    known.write_text(json.dumps(WORLD))
    process = await asyncio.create_subprocess_exec(
        assets / "upstream-adapters",
        f"--world={known}",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )

    async def nothing() -> None:
        """There is no Secret to read again."""

    try:
        async with AsyncExitStack() as stack:
            assert process.stdout is not None
            upstream = URL(f"http://127.0.0.1:{int(await process.stdout.readline())}")
            session = await stack.enter_async_context(ClientSession(auto_decompress=False))

            async def is_ready() -> bool:
                return (await ask(session, upstream, Request("GET", "/readyz"))).status == 200

            await eventually(is_ready, what="the server of upstream", seconds=DEADLINE)
            member = Member(
                Cluster(metadata=ClusterMeta(name="m1")),
                deadline=DEADLINE,
                reread=nothing,
                connector=tcp_connector,
                clock=SYSTEM.monotonic,
                wall=SYSTEM.wall,
            )
            await member.observe(member.cluster, Access(str(upstream), "token", None, None, ()))
            stack.push_async_callback(member.client.close)
            lists = await stack.enter_async_context(SharedLists(clock=SYSTEM.monotonic))
            source = MembersSource(lambda: {"m1": member}, lists, max_age=DEADLINE, clock=SYSTEM.monotonic)
            metrics = MetricDiscoveryCache(source, clock=SYSTEM.monotonic)
            await metrics.refresh()
            client = await stack.enter_async_context(client_of(source, metrics))
            yield session, upstream, client.make_url("/")
    finally:
        process.terminate()
        await process.wait()


async def test_each_difference_from_upstream_has_a_reason(assets: Path, tmp_path: Path) -> None:
    """Each difference is one row of the table, and each row is a difference that exists."""
    seen: Counter[str] = Counter()
    unexplained = []
    async with both(assets, tmp_path) as (session, upstream, ours):
        for request in requests():
            theirs, answer = await ask(session, upstream, request), await ask(session, ours, request)
            if theirs == answer:
                continue
            why = next((row for row, explains in EXPLAINED.items() if explains(request, theirs, answer)), "")
            seen[why] += 1
            if not why:
                unexplained.append((request, theirs, answer))

    assert unexplained == []
    assert set(seen) == set(EXPLAINED)
    table = PAGE.read_text(encoding="utf-8").partition("## The metrics adapter and upstream servers")[2]
    rows = re.findall(r"^\| (.+?) \| .+ \| .+ \|$", table.partition("These are not")[0], re.MULTILINE)
    assert rows == ["upstream", *EXPLAINED]


async def test_documents_are_revalidated_as_upstream(assets: Path, tmp_path: Path) -> None:
    """Each has an ETag, 304 for a client that sends it back, and the same caching at the URL of its hash."""
    aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    version = f"/openapi/v3{CUSTOM}"
    documents = [("/openapi/v2", JSON), ("/openapi/v3", JSON), (version, JSON), ("/apis", aggregated)]
    async with both(assets, tmp_path) as (session, *servers):

        async def seen(server: URL, path: str, **headers: str) -> tuple[int, str, str]:
            url = URL(f"{str(server).rstrip('/')}{path}", encoded=True)
            async with session.get(url, headers=headers) as response:
                await response.read()
                caching = response.headers.get("Cache-Control", "").replace(f", max-age={YEAR}", "")
                return response.status, response.headers.get("ETag", ""), caching

        async def revalidated(server: URL) -> list[object]:
            found: list[object] = []
            for path, accept in documents:
                status, tag, _ = await seen(server, path, Accept=accept)
                same = await seen(server, path, Accept=accept, **{"If-None-Match": tag})
                other = await seen(server, path, Accept=accept, **{"If-None-Match": '"other"'})
                found.append((path, status, bool(tag), same[0], other[:2] == (200, tag)))
            async with session.get(server.with_path("/openapi/v3"), headers={"Accept": JSON}) as response:
                listed = json.loads(await response.read())["paths"]
            url = listed[version.removeprefix("/openapi/v3/")]["serverRelativeURL"]
            _, tag, _ = await seen(server, version, Accept=JSON)
            found.append(
                (url == f"{version}?hash={tag.strip(chr(34))}", (await seen(server, url, Accept=JSON))[::2])
            )
            return found

        theirs, ours = await revalidated(servers[0]), await revalidated(servers[1])

    assert ours == theirs
