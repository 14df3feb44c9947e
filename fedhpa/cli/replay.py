"""`fedhpa replay` decides recorded scenarios again, without a cluster.

The format is described in docs/reference/decision-record.md.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from typing import BinaryIO

import msgspec
import typer

from fedhpa.api.errors import ConfigError, InvalidObject
from fedhpa.cli.files import MAX_BYTES, opened, yaml_documents
from fedhpa.cli.options import JsonOrText, with_flags

# One scenario, or why the input has none in its place.
Unread = bytes | msgspec.Raw | InvalidObject


@with_flags()
def replay(
    files: list[str],
    output: JsonOrText | None = None,
) -> None:
    """Decide recorded scenarios again, without a cluster.

    A file holds one JSON object, a JSON array, JSON lines, or YAML documents. JSON lines are answered as they
    come. Exits 2 if a scenario is unreadable; the other scenarios are still answered.

    Options:
    files FILE...: Files with scenarios; - reads standard input.
    -o, --output: Output format; json has a decision per line. If not set, text on a terminal, else json.
    """
    as_text = output is JsonOrText.TEXT or (output is None and sys.stdout.isatty())
    readable = True
    for file in files:
        try:
            for scenario in scenarios(file):
                line, ok = answer(scenario, as_text=as_text)
                readable = readable and ok
                sys.stdout.buffer.write(line)
                # A program that makes the next scenario from this answer waits for it.
                sys.stdout.buffer.flush()
        except ConfigError as error:
            print(f"fedhpa: {error}", file=sys.stderr)
            readable = False
    if not readable:
        raise typer.Exit(2)


def answer(raw: Unread, *, as_text: bool = False) -> tuple[bytes, bool]:
    """Returns the decision on one scenario, with a newline, and True if the scenario is readable."""
    if isinstance(raw, InvalidObject):
        return _unreadable(None, str(raw), as_text=as_text), False
    from fedhpa.decision import decide, decode_scenario, scenario_name, to_line, to_text

    try:
        scenario = decode_scenario(raw)
    except InvalidObject as error:
        return _unreadable(scenario_name(raw), str(error), as_text=as_text), False
    decision = decide(scenario.snapshot, scenario.history, scenario.now, scenario.settings)
    if as_text:
        return to_text(decision, scenario.name).encode(), True
    return to_line(decision, scenario.name, scenario.now_text) + b"\n", True


def _unreadable(name: str | None, error: str, *, as_text: bool) -> bytes:
    if as_text:
        return f"{name or 'scenario'}: cannot be read: {error}\n".encode()
    return msgspec.json.encode({"name": name, "error": error}) + b"\n"


def scenarios(file: str) -> Iterator[Unread]:
    """Yields the scenarios of a file, or of standard input for "-". Raises ConfigError if it cannot be read.

    JSON lines are yielded as they come, any other form once all of it was read.
    """
    with opened(file) as stream:
        first = stream.readline(MAX_BYTES + 1)
        while first.isspace():
            first = stream.readline(MAX_BYTES + 1)
        if len(first) > MAX_BYTES or _begins_json_lines(first):
            yield from _lines(stream, first)
            return
        data = first + stream.read(MAX_BYTES + 1 - len(first))
    if len(data) > MAX_BYTES:
        yield InvalidObject(f"more than {MAX_BYTES} bytes: write one scenario on each line")
        return
    try:
        yield from split(data)
    except InvalidObject as error:
        yield error


def _begins_json_lines(line: bytes) -> bool:
    """True if the line is a JSON object, or if it is broken and more lines would not complete it."""
    if not line.lstrip().startswith(b"{"):
        return False
    try:
        msgspec.json.decode(line, type=msgspec.Raw)
    except msgspec.DecodeError as error:
        return "truncated" not in str(error)
    except (UnicodeDecodeError, RecursionError):
        pass
    return True


def _lines(stream: BinaryIO, line: bytes) -> Iterator[Unread]:
    """Yields `line` and all lines after it. The rest of a line that is too long is passed over."""
    while line:
        if len(line) > MAX_BYTES:
            yield InvalidObject(f"the line has more than {MAX_BYTES} bytes")
            while line and not line.endswith(b"\n"):
                line = stream.readline(MAX_BYTES)
        elif not line.isspace():
            yield line.strip()
        line = stream.readline(MAX_BYTES + 1)


def split(data: bytes) -> Iterator[bytes | msgspec.Raw]:
    """Yields the scenarios of a file: items of an array, the whole file, each line, or YAML documents.

    A text that cannot be read is yielded unchanged, so that the caller reports its error.
    """
    stripped = data.strip()
    if not stripped:
        return
    if stripped.startswith((b"---", b"#", b"%")):  # no JSON begins like this
        yield from _yaml_scenarios(stripped)
        return
    if stripped.startswith(b"["):
        try:
            yield from msgspec.json.decode(stripped, type=list[msgspec.Raw])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            yield stripped
        return
    lines = [line for line in re.split(rb"\r?\n", stripped) if line.strip()]
    # If any line is an object, the file has JSON lines, and a broken line is one broken scenario. Otherwise
    # the file is YAML, or one object over several lines, which may be broken.
    if len(lines) > 1 and not _is_json(stripped) and any(_is_object(line) for line in lines):
        yield from lines
    elif stripped.startswith(b"{") or _is_json(stripped):
        yield stripped
    else:
        yield from _yaml_scenarios(stripped)


def _yaml_scenarios(data: bytes) -> Iterator[bytes]:
    """Yields the YAML documents, and the items of lists among them, as JSON."""
    for document in yaml_documents(data):
        for one in document if isinstance(document, list) else [document]:
            yield json.dumps(one).encode()


def _is_object(line: bytes) -> bool:
    return line.lstrip().startswith(b"{") and _is_json(line)


def _is_json(data: bytes) -> bool:
    try:
        msgspec.json.decode(data, type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True
