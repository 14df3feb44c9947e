"""The `fedhpa` command, in the test's own process or, where it talks to servers of the test, in another.

Starting Python for each call costs most of a second.
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
from testbed.stage.kubeconfig import write_kubeconfig
from tests.support.fakeapi import FakeApi


class Ran(NamedTuple):
    """How a process ended."""

    code: int | None
    out: str
    err: str


def fedhpa(*arguments: str, stdin: str = "") -> CompletedProcess[str]:
    """What the command prints, and its exit code; its streams are pipes, as far as it can see."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2))
    given = io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")
    with redirect_stdout(out), redirect_stderr(err), patch("sys.stdin", given):
        code = run(list(arguments))
    return CompletedProcess(["fedhpa", *arguments], code, *(_text(stream) for stream in (out, err)))


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    return bytes(stream.buffer.getvalue()).decode()  # type: ignore[attr-defined]  # the buffer is a BytesIO


def kubeconfig(hub: FakeApi, folder: Path) -> Path:
    """A file by which the command finds the hub."""
    authority, user = hub.ca_pem.encode(), {"token": "t"}
    return write_kubeconfig(folder / "kubeconfig", hub.url, authority, user, namespace="shop")


async def fedhpa_process(*arguments: str) -> Ran:
    """Run the command beside the test's servers; it is ended if it does not end."""
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
