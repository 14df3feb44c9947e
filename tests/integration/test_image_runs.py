"""The steps of the Dockerfile, without a daemon: an unprivileged user runs all commands from the result."""

from __future__ import annotations

import asyncio
import os
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from certs import CertificateAuthority
from testbed.stage import eventually, free_port
from tests.support.dockerfile import ROOT, instructions
from tests.support.nightly import only_at_night

COMMANDS = ("fedhpa", "fedhpa-controller", "fedhpa-metrics-adapter", "fedhpa-webhook")
PLACES = ("/src", "/opt/fedhpa", "/opt/build", "/opt/wheels")
SECONDS = 600


def unprivileged() -> dict[str, int]:
    """Arguments of subprocess for the user of the image, if this process may choose a user."""
    number = int(next(one.text for one in instructions() if one.name == "USER").partition(":")[0])
    return {"user": number, "group": number} if os.getuid() == 0 else {}


def interpreter() -> Path:
    """A Python that the unprivileged user can start too, because the tests' own may be in a closed home."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for candidate in (sys.executable, f"/usr/bin/{version}", f"/usr/local/bin/{version}"):
        path = Path(candidate).resolve()
        closed = any(not parent.stat().st_mode & 0o001 for parent in path.parents) if path.exists() else True
        if not closed or (path.exists() and not unprivileged()):
            return path
    pytest.skip(f"no {version} that other users can start")


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The result of the COPY and RUN lines of the Dockerfile, without write permission."""
    root = tmp_path_factory.mktemp("image")
    opened(root)
    tools = root / "tools"
    tools.mkdir()
    (tools / "python").symlink_to(interpreter())
    (tools / "pip").write_text(f'#!/bin/sh\nexec {sys.executable} -m pip "$@"\n', encoding="utf-8")
    (tools / "pip").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
    source = root / "src"
    source.mkdir()
    for one in instructions():
        if one.stage == 0 and one.name == "COPY":
            copy(one.text.split()[:-1], source / one.text.split()[-1])
        if one.stage == 0 and one.name == "RUN":
            line = one.text
            for place in PLACES:
                line = line.replace(place, f"{root}{place}")
            subprocess.run(["sh", "-ec", line], cwd=source, env=environment, check=True, timeout=SECONDS)
    installed = root / "opt" / "fedhpa"
    subprocess.run(["chmod", "-R", "a-w,a+rX", str(installed)], check=True)
    yield installed
    subprocess.run(["chmod", "-R", "u+w", str(installed)], check=True)


def opened(folder: Path) -> None:
    """Lets every user read the folder, which pytest makes for its own user alone."""
    subprocess.run(["chmod", "-R", "a+rX", str(folder)], check=True)
    for parent in folder.parents:
        if parent.name.startswith("pytest-") or parent.parent.name.startswith("pytest-"):
            parent.chmod(parent.stat().st_mode | 0o055)


def copy(sources: list[str], target: Path) -> None:
    for source in sources:
        found = ROOT / source
        if found.is_dir():
            shutil.copytree(found, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            place = target / found.name if target.is_dir() or len(sources) > 1 else target
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(found, place)


def environment_of(image: Path, tmp: Path) -> dict[str, str]:
    """The environment of a container: nothing of the shell that runs the tests."""
    return {"PATH": f"{image / 'bin'}:/usr/bin:/bin", "TZ": "UTC", "TMPDIR": str(tmp), "HOME": "/nonexistent"}


def run(image: Path, tmp: Path, *command: str) -> subprocess.CompletedProcess[str]:
    answer: subprocess.CompletedProcess[str] = subprocess.run(
        command,
        cwd="/",
        env=environment_of(image, tmp),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **unprivileged(),  # type: ignore[call-overload]
    )
    return answer


@only_at_night  # pip downloads everything that the lock file names
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("flag", ["--version", "--help"])
def test_commands_start(image: Path, tmp_path: Path, command: str, flag: str) -> None:
    """Each command of the image starts under its user and says its version and its help."""
    answer = run(image, tmp_path, str(image / "bin" / command), flag)

    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.strip()


@only_at_night
def test_the_tree_has_no_tests_and_no_pip(image: Path, tmp_path: Path) -> None:
    """The virtual environment has the locked packages and ours; nothing in it can be written by its user."""
    packages = {path.name for path in image.glob("lib/python3*/site-packages/*")}

    assert {"fedhpa", "webhook", "metrics_adapter", "controller", "certs", "aiohttp"} <= packages
    assert packages.isdisjoint({"tests", "testbed", "demo", "benchmarks", "pip", "setuptools", "pytest"})
    if unprivileged():
        assert run(image, tmp_path, "find", str(image), "-writable", "-not", "-type", "l").stdout == ""


@only_at_night
async def test_the_webhook_serves_from_a_tree_that_it_cannot_write(image: Path, tmp_path: Path) -> None:
    """The process is ready on its secure port, and writes nothing but its log."""
    authority = CertificateAuthority.create("image-test")
    authority.issue_server("webhook", dns=["localhost"], ips=["127.0.0.1"]).save(tmp_path / "tls")
    opened(tmp_path)
    port = free_port()
    command = [
        str(image / "bin" / "fedhpa-webhook"),
        f"--secure-port={port}",
        "--bind-address=127.0.0.1",
        f"--cert-dir={tmp_path / 'tls'}",
        "--metrics-bind-address=0",
        "--health-probe-bind-address=0",
    ]
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd="/",
        env=environment_of(image, tmp_path),
        stderr=subprocess.PIPE,
        **unprivileged(),  # type: ignore[arg-type]
    )
    try:
        context = ssl.create_default_context(cadata=authority.bundle_pem.decode())
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:

            async def ready() -> bool:
                assert process.returncode is None
                async with session.get(f"https://localhost:{port}/readyz") as response:
                    return response.status == 200

            await eventually(ready, what="the webhook is ready", seconds=60)
    finally:
        process.terminate()
        async with asyncio.timeout(60):
            _, log = await process.communicate()

    assert process.returncode == 0, log.decode()
