"""Ten minutes of members that join, leave, change, hang and send invalid data.

The adapter keeps its memory, tasks and sockets. In the suite it takes some seconds, which check the
responses.
"""

from __future__ import annotations

import asyncio
import json
import signal
import ssl
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from testbed.stage.ports import free_port
from tests.support.adapter.churn import Churn
from tests.support.adapter.process import AdapterWorld, until, world
from tests.support.nightly import NIGHT, NIGHTLY

pytestmark = NIGHT

MEMBERS = tuple(f"m{number}" for number in range(6))
SECONDS = 600.0 if NIGHTLY else 1.5
# The caches are bounded and fill for some minutes: 4,096 reviews, as many selectors, and the answers of two
# minutes. A leak also grows in the second half.
SAMPLES = 10 if NIGHTLY else 2
# Pools look for connections that were idle for 75 s once in 75 s, so the last one closes after 150 s.
CALM_SECONDS = 160.0 if NIGHTLY else 0.0
GROWTH_KB = 16 * 1024
SPARE = 8


@dataclass(frozen=True)
class Size:
    """The memory, tasks and sockets of the process."""

    resident_kb: int
    sockets: int
    tasks: dict[str, int]

    @property
    def total_tasks(self) -> int:
        return sum(self.tasks.values())


class Watched:
    """The adapter in its own process."""

    def __init__(
        self, process: asyncio.subprocess.Process, told: Path, port: int, context: ssl.SSLContext
    ) -> None:
        self._process = process
        self._told = told
        self._port = port
        self._context = context

    def session(self) -> aiohttp.ClientSession:
        """Opens a caller's session with the front proxy's certificate and its own connections."""
        connector = aiohttp.TCPConnector(ssl=self._context)
        return aiohttp.ClientSession(f"https://127.0.0.1:{self._port}", connector=connector)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Opens one connection with the same certificate."""
        return await asyncio.open_connection("127.0.0.1", self._port, ssl=self._context)

    async def ready(self) -> bool:
        try:
            async with self.session() as session, session.get("/readyz") as response:
                return response.status == 200
        except (aiohttp.ClientError, OSError):
            return False

    async def size(self) -> Size:
        """Returns the current size."""
        self._told.unlink(missing_ok=True)
        self._process.send_signal(signal.SIGUSR1)

        async def told() -> bool:
            return self._told.exists()

        await until(told)
        proc = Path(f"/proc/{self._process.pid}")
        lines = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
        links = [path.readlink() for path in (proc / "fd").iterdir() if path.is_symlink()]
        sockets = sum(str(link).startswith("socket:") for link in links)
        return Size(int(lines["VmRSS"].split()[0]), sockets, json.loads(self._told.read_text()))


@asynccontextmanager
async def watched(made: AdapterWorld) -> AsyncIterator[Watched]:
    """Starts the process and waits until it is ready. Its log is in the folder of the world."""
    port = free_port()
    told = made.folder / "told"
    own = ("--secure-port", "--metrics-max-age", "--member-deadline")
    flags = [flag for flag in made.flags() if not flag.startswith(own)]
    # A short deadline, because members hang.
    flags += [f"--secure-port={port}", "--metrics-max-age=1s", "--member-deadline=500ms", "--user-qps=10"]
    log = (made.folder / "log").open("wb")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.support.adapter.task_counts", str(told), *flags, stderr=log
    )
    try:
        context = ssl.create_default_context(cadata=made.serving.bundle_pem.decode())
        made.proxies.issue_client("front-proxy-client").save(made.folder / "proxy")
        context.load_cert_chain(made.folder / "proxy" / "tls.crt", made.folder / "proxy" / "tls.key")
        running = Watched(process, told, port, context)
        await until(running.ready)
        yield running
        process.terminate()
        async with asyncio.timeout(60):
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        log.close()


async def churn_for(churn: Churn, seconds: float) -> None:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        await churn.round()


async def test_it_keeps_its_size_through_churn(tmp_path: Path) -> None:
    """Memory grows by less than 16 MiB in the second half, tasks and sockets stay, and no error is logged."""
    async with world(tmp_path) as made, watched(made) as adapter:
        churn = Churn(made.hub, adapter, seed=7)
        try:
            await churn.start(MEMBERS)
            sizes = []
            for _ in range(SAMPLES):
                await churn_for(churn, SECONDS / SAMPLES)
                sizes.append(await adapter.size())
            await churn.calm()
            await asyncio.sleep(CALM_SECONDS)  # Idle connections are closed in real time.
            calm = await adapter.size()
        finally:
            await churn.stop()
    log = (tmp_path / "log").read_text()
    sys.stdout.write(f"answers {dict(churn.answers)}, happened {dict(churn.happened)}\n")
    sys.stdout.write(f"resident, kB: {[size.resident_kb for size in sizes]}, then {calm}\n")

    assert set(churn.answers) <= {200, 400, 404, 406, 409, 429, 503}
    # uvloop logs this with a traceback if the peer closes the connection during the TLS handshake.
    assert log.count("Traceback") == log.count("Fatal error on SSL protocol")
    assert "unexpectedly" not in log
    if NIGHTLY:
        assert sizes[-1].resident_kb - sizes[SAMPLES // 2 - 1].resident_kb < GROWTH_KB
        assert calm.sockets <= 5 * len(MEMBERS) + SPARE
        assert calm.total_tasks <= sizes[0].total_tasks + SPARE
