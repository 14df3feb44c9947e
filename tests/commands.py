"""The `fedhpa` command in the test's own process: starting Python for each call costs most of a second."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from subprocess import CompletedProcess
from unittest.mock import patch

from fedhpa.cli.main import run


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
