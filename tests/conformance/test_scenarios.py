"""Scenarios, and beside each the decision worked out by hand.

The files are in data/scenarios; `usual.yaml` has what they begin with.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from fedhpa.cli.replay import answer

FOLDER: Final = Path(__file__).parent / "data" / "scenarios"
USUAL: Final = FOLDER / "usual.yaml"
FILES: Final = sorted(file for file in FOLDER.glob("*.yaml") if file != USUAL)
# Each worker of the tests reads all files before its first test.
LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def cases(file: Path) -> list[dict[str, Any]]:
    """Returns the cases of a file of data/scenarios."""
    # Anchors hold within one document.
    text = USUAL.read_text(encoding="utf-8") + file.read_text(encoding="utf-8")
    found: list[dict[str, Any]] = yaml.load(text, LOADER)["cases"]
    return found


def parameters() -> list[Any]:
    """Every scenario of every file, named by both."""
    return [pytest.param(case, id=f"{file.stem}: {case['name']}") for file in FILES for case in cases(file)]


def short(decision: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the decision with its lists as mappings, as the files write them."""
    conditions, clusters = decision["conditions"], decision["status"].get("clusters") or ()
    return {
        **decision,
        "conditions": {entry["type"]: f"{entry['status']}/{entry['reason']}" for entry in conditions},
        "events": [event["reason"] for event in decision["events"]],
        "steps": [f"{step['step']} {step['from']} -> {step['to']}" for step in decision["steps"]],
        "assignment": {share["cluster"]: share["replicas"] for share in decision["assignment"]},
        "states": {cluster["name"]: cluster.get("state", "Answered") for cluster in clusters},
    }


def part(found: Any, asked: Any, *, whole: bool = False) -> Any:
    """Returns the part of the decision that the file names: fields of objects, items of equal lists."""
    if isinstance(asked, dict) and isinstance(found, dict) and asked and not whole:
        exact = ("states", "missing", "assignment", "lost")
        return {key: part(found.get(key), value, whole=key in exact) for key, value in asked.items()}
    if isinstance(asked, list) and isinstance(found, list) and len(asked) == len(found):
        return [part(item, wanted) for item, wanted in zip(found, asked, strict=True)]
    return found


@pytest.mark.parametrize("case", parameters())
def test_what_is_decided(case: dict[str, Any]) -> None:
    """`fedhpa replay` decides what the file says."""
    given = json.dumps({"name": case["name"], **case["given"]}).encode()

    line, readable = answer(given)

    assert readable, line
    assert part(short(json.loads(line)), case["expected"]) == case["expected"]


@pytest.mark.parametrize("case", parameters())
def test_what_is_decided_can_be_read(case: dict[str, Any]) -> None:
    """The text output names the decided size."""
    given = json.dumps({"name": case["name"], **case["given"]}).encode()

    text, readable = answer(given, as_text=True)

    assert readable, text
    assert str(json.loads(answer(given)[0])["desiredReplicas"]).encode() in text
