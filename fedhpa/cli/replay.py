"""`fedhpa replay` decides recorded scenarios again, without a cluster.

The format is described in docs/reference/decision-record.md.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from fedhpa.api.errors import ConfigError, InvalidObject
from fedhpa.cli.options import JsonOrText


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("replay")(replay)


def replay(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Files with scenarios; - reads standard input.")
    ],
    output: Annotated[
        JsonOrText | None,
        typer.Option(
            "-o",
            "--output",
            help="Output format; json has a decision per line. If not set, text on a terminal, else json.",
        ),
    ] = None,
) -> None:
    """Decide recorded scenarios again, without a cluster.

    A file holds one JSON object, a JSON array or JSON lines. Exits 2 if a scenario is unreadable; the other
    scenarios are still answered.
    """
    as_text = output is JsonOrText.TEXT or (output is None and sys.stdout.isatty())
    readable = True
    for file in files:
        try:
            data = _read(file)
        except ConfigError as error:
            print(f"fedhpa: {error}", file=sys.stderr)
            readable = False
            continue
        for scenario in split(data):
            line, ok = answer(scenario, as_text=as_text)
            readable = readable and ok
            sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
    if not readable:
        raise typer.Exit(2)


def answer(raw: bytes | msgspec.Raw, *, as_text: bool = False) -> tuple[bytes, bool]:
    """Returns the decision on one scenario, with a newline, and True if the scenario is readable."""
    from fedhpa.decision import decide, decode_scenario, scenario_name, to_line, to_text

    try:
        scenario = decode_scenario(raw)
    except InvalidObject as error:
        name = scenario_name(raw)
        if as_text:
            return f"{name or 'scenario'}: cannot be read: {error}\n".encode(), False
        return msgspec.json.encode({"name": name, "error": str(error)}) + b"\n", False
    decision = decide(scenario.snapshot, scenario.history, scenario.now, scenario.settings)
    if as_text:
        return to_text(decision, scenario.name).encode(), True
    return to_line(decision, scenario.name, scenario.now_text) + b"\n", True


def split(data: bytes) -> Iterator[bytes | msgspec.Raw]:
    """Yields the scenarios of a file: the items of an array, or the whole file, or each line."""
    stripped = data.strip()
    if not stripped:
        return
    if stripped.startswith(b"["):
        try:
            yield from msgspec.json.decode(stripped, type=list[msgspec.Raw])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            yield stripped
        return
    lines = [line for line in re.split(rb"\r?\n", stripped) if line.strip()]
    # If any line is an object, the file has JSON lines, and a broken line is one broken scenario. Otherwise
    # the file is one object over several lines, which may be broken.
    if len(lines) == 1 or _is_json(stripped) or not any(_is_object(line) for line in lines):
        yield stripped
    else:
        yield from lines


def _is_object(line: bytes) -> bool:
    return line.lstrip().startswith(b"{") and _is_json(line)


def _is_json(data: bytes) -> bool:
    try:
        msgspec.json.decode(data, type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def _read(file: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror or error}") from error
