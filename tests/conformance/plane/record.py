"""The recorded transcripts, and their comparison with new ones."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "data" / "plane"
COMMAND = "python -m tests.conformance.plane record"
# The number of differences that are printed.
SHOWN = 12

Transcript = list[dict[str, Any]]


def recorded(name: str) -> Transcript:
    """Returns the answers of the real API server in a check. Raises KeyError if there are none."""
    checks = _table(name.partition("/")[0])["checks"]
    if name not in checks:
        raise KeyError(f"{name} is not recorded; with a real plane: {COMMAND} {name}")
    found: Transcript = checks[name]
    return found


def recorded_minor() -> str:
    """Returns the recorded version of Kubernetes and kubectl, like "1.36"."""
    return minor_of(_table("kubectl")["source"])


def minor_of(text: str) -> str:
    """Returns major and minor version of the first version like v1.36.3 in a text."""
    found = re.search(r"v(\d+\.\d+)\.", text)
    return found.group(1) if found else ""


def all_recorded() -> set[str]:
    """Returns the names of all recorded checks."""
    return {name for path in DATA.glob("*.json") for name in _table(path.stem)["checks"]}


def _table(subject: str) -> dict[str, Any]:
    path = DATA / f"{subject}.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"checks": {}}
    return found


def write(source: str, transcripts: Mapping[str, Transcript], known: set[str]) -> list[Path]:
    """Store transcripts, drop those of checks that are not `known`, and return the files written."""
    subjects: dict[str, dict[str, Transcript]] = {}
    for name, entries in transcripts.items():
        subjects.setdefault(name.partition("/")[0], {})[name] = entries
    written = []
    DATA.mkdir(parents=True, exist_ok=True)
    for subject, checks in subjects.items():
        path = DATA / f"{subject}.json"
        old = _table(subject)["checks"]
        kept = {name: entries for name, entries in {**old, **checks}.items() if name in known}
        table = {"source": source, "made_by": COMMAND, "checks": dict(sorted(kept.items()))}
        path.write_text(_rendered(table), encoding="utf-8")
        written.append(path)
    return written


def _rendered(table: dict[str, Any]) -> str:
    """Returns JSON with one line for each request and answer, for readable diffs."""
    lines = [
        "{",
        f' "source": {json.dumps(table["source"])},',
        f' "made_by": {json.dumps(table["made_by"])},',
    ]
    lines.append(' "checks": {')
    names = list(table["checks"])
    for name in names:
        entries = table["checks"][name]
        lines.append(f"  {json.dumps(name)}: [")
        lines += [
            f"   {json.dumps(entry, ensure_ascii=False)}{',' if number < len(entries) - 1 else ''}"
            for number, entry in enumerate(entries)
        ]
        lines.append("  ]," if name != names[-1] else "  ]")
    return "\n".join([*lines, " }", "}", ""])


def differences(expected: Transcript, actual: Transcript) -> str:
    """Returns the differences from the recorded transcript, or ""."""
    found = list(_differences(expected, json.loads(json.dumps(actual)), ""))
    more = [f"\n  ... and {len(found) - SHOWN} more"] if len(found) > SHOWN else []
    return "".join(found[:SHOWN] + more)


def _differences(expected: Any, actual: Any, path: str) -> Iterator[str]:
    if isinstance(expected, dict) and isinstance(actual, dict):
        if not path.count("/") and expected.get("ask") == actual.get("ask"):
            path = f"{path} ({expected.get('ask')})"
        for key in sorted({*expected, *actual}):
            yield from _differences(expected.get(key, _NOTHING), actual.get(key, _NOTHING), f"{path}/{key}")
    elif isinstance(expected, list) and isinstance(actual, list):
        for number in range(max(len(expected), len(actual))):
            pair = [side[number] if number < len(side) else _NOTHING for side in (expected, actual)]
            yield from _differences(pair[0], pair[1], f"{path}[{number}]")
    elif expected != actual or type(expected) is not type(actual):
        yield f"\n  {path}:\n    recorded: {_shown(expected)}\n    actual:   {_shown(actual)}"


class _Nothing:
    """The value of a side that has no entry."""


_NOTHING = _Nothing()


def _shown(value: Any) -> str:
    return "(nothing)" if value is _NOTHING else json.dumps(value, ensure_ascii=False)


def must_be_the_same(recorded: Transcript, actual: Transcript, error: Exception | None) -> None:
    """Raises the error of the conversation, or AssertionError with the differences."""
    found = differences(recorded, actual)
    if error is not None:
        if found:
            error.add_note(f"differs from the record:{found}")
        raise error
    if found:
        raise AssertionError(f"differs from the record:{found}")
