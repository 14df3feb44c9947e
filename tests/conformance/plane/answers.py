"""What comes back from an API server and from kubectl, and what of it is written down."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from multidict import CIMultiDictProxy

Object = dict[str, Any]
# Of a body: everything, the values at these dotted paths, or what a function makes of it.
Show = tuple[str, ...] | Callable[[Any], Any] | None

JSON = "application/json"
# Of the headers, those that clients act on.
HEADERS = ("Content-Type", "Warning", "Location", "Retry-After", "Allow", "WWW-Authenticate")
KUBECTL_SECONDS = 60.0


@dataclass(frozen=True)
class Answer:
    """What came back: `json` is the decoded body, or its text if it is no JSON."""

    status: int
    headers: CIMultiDictProxy[str]
    json: Any


@dataclass(frozen=True)
class Printed:
    """What kubectl printed."""

    code: int
    out: str
    err: str


def headers_of(headers: CIMultiDictProxy[str]) -> Object:
    """The headers that matter; none said means plain JSON and nothing else."""
    found = {name: headers.getall(name) for name in HEADERS if name in headers}
    return {} if found == {"Content-Type": [JSON]} else {"headers": found}


def decoded(content: bytes) -> Any:
    """The JSON, or the text if it is none."""
    try:
        return json.loads(content)
    except ValueError:
        return content.decode(errors="replace")


def shown(body: Any, show: Show) -> Any:
    """What is written down of a body; a Status is, whole."""
    failed = isinstance(body, dict) and body.get("kind") == "Status"
    if show is None or failed or not isinstance(body, dict):
        return body
    if callable(show):
        return show(body)
    return {path: _at(body, path) for path in show}


def _at(body: Any, path: str) -> Any:
    for key in path.split("."):
        body = body.get(key) if isinstance(body, dict) else None
    return body


def lines_of(text: str) -> list[str]:
    """The lines; not those that client-go logs."""
    return [line.rstrip() for line in text.splitlines() if not re.match(r"[IWE]\d{4} ", line)]


async def run(command: Sequence[str], stdin: str | None) -> Printed:
    """Run a program to its end."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(KUBECTL_SECONDS):
            out, err = await process.communicate((stdin or "").encode())
    except BaseException:
        process.kill()
        await process.wait()
        raise
    return Printed(process.returncode or 0, out.decode(), err.decode())
