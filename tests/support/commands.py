"""Runs the `fedhpa` command in this process, in a thread of it if the test serves the hub, or as a process.

A new process costs most of a second.
"""

from __future__ import annotations

import asyncio
import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from subprocess import CompletedProcess
from typing import NamedTuple
from unittest.mock import patch

from fedhpa.cli.main import run
from testbed.real.assets import find_program
from testbed.stage.kubeconfig import write_kubeconfig
from tests.support.fakeapi import FakeApi


class Ran(NamedTuple):
    """The exit code and output of a process."""

    code: int | None
    out: str
    err: str


def fedhpa(*arguments: str, stdin: str = "") -> CompletedProcess[str]:
    """Runs the command in this process, with pipes as its streams; returns output and exit code."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2))
    given = io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")
    with redirect_stdout(out), redirect_stderr(err), patch("sys.stdin", given):
        code = run(list(arguments))
    return CompletedProcess(["fedhpa", *arguments], code, *(_text(stream) for stream in (out, err)))


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    return bytes(stream.buffer.getvalue()).decode()  # type: ignore[attr-defined]  # the buffer is a BytesIO


def kubeconfig(hub: FakeApi, folder: Path) -> Path:
    """Writes a kubeconfig for the hub; returns its path."""
    authority, user = hub.ca_pem.encode(), {"token": "t"}
    return write_kubeconfig(folder / "kubeconfig", hub.url, authority, user, namespace="shop")


async def fedhpa_thread(*arguments: str) -> Ran:
    """Runs the command in a thread of this process, whose loop goes on serving. Nothing else may print."""
    done = await asyncio.to_thread(fedhpa, *arguments)
    return Ran(done.returncode, done.stdout, done.stderr)


async def fedhpa_process(*arguments: str) -> Ran:
    """Runs the command in another process, and kills it after two minutes."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "fedhpa.cli.main", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(120):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return Ran(process.returncode, out.decode(), err.decode())


async def pasted(command: str, folder: Path, programs: Path | None = None) -> None:
    """Runs a command in bash, as a person pastes it, with the real kubectl. Fails unless it succeeds.

    `programs` is the folder with kubectl and with other programs that the command needs.
    """
    if programs is None:
        kubectl = find_program("kubectl")
        assert kubectl is not None
        programs = kubectl.parent
    process = await asyncio.create_subprocess_exec(
        "bash",
        *("-ec", f"set -o pipefail\n{command}"),
        env={"PATH": f"{Path(sys.executable).parent}:{programs}:/usr/bin:/bin", "HOME": str(folder)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(120):
        out, _ = await process.communicate()
    assert process.returncode == 0, (command, out.decode()[-2000:])
