"""`fedhpa replay`: decide recorded scenarios again, without a cluster.

Format: docs/reference/decision-record.md.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from fedhpa.api.errors import ConfigError, InvalidObject


class Output(StrEnum):
    """How decisions are printed."""

    JSON = "json"
    TEXT = "text"


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("replay")(replay)


def replay(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Scenarios; - reads standard input.")],
    output: Annotated[
        Output | None,
        typer.Option("-o", "--output", help="json (a decision a line; default for pipes) or text."),
    ] = None,
) -> None:
    """Decide recorded scenarios again: a JSON object, an array, or JSON lines."""
    as_text = output is Output.TEXT or (output is None and sys.stdout.isatty())
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
    """One scenario's decision, ending with a newline, and whether the scenario could be read."""
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
    """The scenarios of a file: of an array its items, else the whole as one object, else each line."""
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
    # A broken line among good ones is a broken scenario; a broken object over many lines is one, too.
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
