"""Gives stored scenarios a new form, and compares every decision before and after.

    python -m tests.conformance.convert_scenarios decisions FILE... > before.jsonl
    python -m tests.conformance.convert_scenarios convert FILE...
    python -m tests.conformance.convert_scenarios compare before.jsonl FILE...

FILE is a file of data/scenarios, or JSON lines with one scenario each. Run `decisions` on the commit before
the change: `compare` may run on another one, and exits 1 if any decision differs outside of PLACES.

The present form has the memory in `record`; earlier it stood in `federatedHPA.status`. For another form,
replace `converted` and, if the memory leaves other fields of a decision, PLACES.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from fedhpa.api.errors import InvalidObject
from fedhpa.api.json import convert_json
from fedhpa.cli.replay import answer
from fedhpa.decision import RawStatus
from fedhpa.decision.record.memory import encode_memory
from fedhpa.decision.record.old_status import memory_of

Scenario = dict[str, Any]

FOLDER: Final = Path(__file__).parent / "data" / "scenarios"
USUAL: Final = FOLDER / "usual.yaml"
FILES: Final = sorted(file for file in FOLDER.glob("*.yaml") if file != USUAL)
# The fields of a decision that the new form of the memory changes.
PLACES: Final[tuple[str, ...]] = ()
# The fields of a status that hold it in old scenarios.
PLACES_OF_MEMORY: Final = ("decision", "clusters", "assignedFor")
# Each worker of the tests reads all files before its first test.
LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def converted(scenario: Scenario) -> Scenario:
    """Returns the scenario in the new form; the scenario itself if it has this form or cannot have it.

    A status that another program wrote, as in tests of hostile input, may hold what no record may.
    """
    hpa = scenario["federatedHPA"]
    status = hpa.get("status") or {}
    if "record" in scenario or not any(name in status for name in PLACES_OF_MEMORY):
        return scenario
    try:
        record = encode_memory(memory_of(convert_json(status, RawStatus)))
    except InvalidObject:
        return scenario
    rest = {name: value for name, value in status.items() if name not in PLACES_OF_MEMORY}
    others = {key: value for key, value in hpa.items() if key != "status"}
    return {**scenario, "federatedHPA": {**others, **({"status": rest} if rest else {})}, "record": record}


def scenarios(file: Path) -> list[Scenario]:
    """Returns the scenarios of a file with their names."""
    if file.suffix == ".yaml":
        return [{"name": case["name"], **case["given"]} for case in cases(file)]
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]


def cases(file: Path) -> list[dict[str, Any]]:
    """Returns the cases of a file of data/scenarios."""
    # Anchors hold within one document.
    text = USUAL.read_text(encoding="utf-8") + file.read_text(encoding="utf-8")
    found: list[dict[str, Any]] = yaml.load(text, LOADER)["cases"]
    return found


def decisions(files: Sequence[Path]) -> Iterator[dict[str, Any]]:
    """Yields the decision on each scenario, with its file."""
    for file in files:
        for scenario in scenarios(file):
            line, _ = answer(json.dumps(scenario).encode())
            yield {"file": file.name, "decision": json.loads(line)}


def convert(file: Path) -> int:
    """Rewrites a file in the new form. Returns how many of its scenarios changed."""
    before = scenarios(file)
    after = [converted(scenario) for scenario in before]
    if file.suffix == ".yaml":
        text = _edited_yaml(file, before, after)
    else:
        text = "".join(json.dumps(scenario) + "\n" for scenario in after)
    file.write_text(text, encoding="utf-8")
    if scenarios(file) != after:
        raise SystemExit(f"{file}: was not written as intended: restore it")
    return sum(one != other for one, other in zip(before, after, strict=True))


def differences(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the decisions that differ outside of PLACES, with the fields that do."""
    found = [] if len(before) == len(after) else [f"{len(before)} decisions before, {len(after)} after"]
    for one, other in zip(before, after, strict=False):
        where = f"{one['file']}: {one['decision'].get('name')}"
        if one["file"] != other["file"]:
            found.append(f"{where}: is now in {other['file']}")
        left, right = one["decision"], other["decision"]
        found += [
            f"{where}: {key}: {left.get(key)!r} -> {right.get(key)!r}"
            for key in {**left, **right}
            if key not in PLACES and left.get(key) != right.get(key)
        ]
    return found


def _edited_yaml(file: Path, before: Sequence[Scenario], after: Sequence[Scenario]) -> str:
    """Returns the text of a file with the scenarios changed, and all else as people wrote it."""
    usual = USUAL.read_text(encoding="utf-8")
    text = usual + file.read_text(encoding="utf-8")
    whole = yaml.compose(text, yaml.SafeLoader)
    assert whole is not None, "a file has cases"
    root = _entries(whole)
    edits: list[tuple[int, int, str]] = []
    for case, one, other in zip(root["cases"][1].value, before, after, strict=True):
        edits += _edits(text, _entries(case)["given"][1], one, other)
    for start, end, inserted in sorted(edits, reverse=True):
        text = text[:start] + inserted + text[end:]
    return text.removeprefix(usual)


def _edits(text: str, node: Any, before: Any, after: Any) -> Iterator[tuple[int, int, str]]:
    """Yields start, end and new text of each part of a mapping that is to change."""
    if before == after:
        return
    if node.flow_style:
        raise SystemExit(f"line {node.start_mark.line + 1}: write this mapping with a key on each line first")
    entries = _entries(node)
    column, last = node.start_mark.column, _next_line(text, node.end_mark.index)
    for key in {**before, **after}:
        value = f"{' ' * column}{key}: {_flow(after[key])}\n" if key in after else ""
        if before.get(key) == after.get(key):
            continue
        if key not in entries:
            yield last, last, value
        elif isinstance(before[key], dict) and isinstance(after.get(key), dict):
            yield from _edits(text, entries[key][1], before[key], after[key])
        else:
            name, old = entries[key]
            yield name.start_mark.index - column, _next_line(text, old.end_mark.index), value


def _entries(node: yaml.Node) -> dict[str, tuple[Any, Any]]:
    return {name.value: (name, value) for name, value in node.value}


def _next_line(text: str, index: int) -> int:
    """Returns where the line after a value begins. A mapping over several lines ends before the next key."""
    begin = text.rfind("\n", 0, index) + 1
    return begin if not text[begin:index].strip() else text.find("\n", index) + 1 or len(text)


def _flow(value: object) -> str:
    written = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10**6)
    return written.strip().replace("'", '"')  # as the files quote; `convert` reads the result again


def main(arguments: Sequence[str]) -> int:
    """Runs one command line and returns its exit code."""
    command, files = arguments[0], [Path(name) for name in arguments[1:]]
    if command == "decisions":
        for one in decisions(files):
            print(json.dumps(one))
    elif command == "convert":
        for file in files:
            print(f"{file.name}: {convert(file)} scenarios changed")
    elif command == "compare":
        before = [json.loads(line) for line in files[0].read_text(encoding="utf-8").splitlines()]
        found = differences(before, list(decisions(files[1:])))
        print("\n".join([*found, f"{len(before)} decisions, {len(found)} differences"]))
        return 1 if found else 0
    else:
        raise SystemExit(__doc__)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
