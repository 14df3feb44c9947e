"""Renders docs/contributing/admission-layers.md from the cases, the webhook and the recorded answers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.conformance.layers import admission, recorded
from tests.conformance.layers.cases import cases

PATH = Path(__file__).parents[3] / "docs" / "contributing" / "admission-layers.md"
SHOWN = 200

_HEAD = """# Which layer refuses what

`{command}` writes this page and asks a real API server ({server}). A test keeps page and code together.

An object passes three layers. First the CRD checks it: types, required fields, enumerations and bounds of
single fields, also on a hub without the webhook. Then the validating webhook checks it, with the
rules between fields. If an admitted object asks for something that is not built, a condition of the
controller says so.

The CRD speaks first, so its words appear where both refuse. It refuses nothing that the webhook admits,
except for lengths and sizes (docs/reference/federatedhpa.md), the bounds of Karmada's own CRD, and wrong
numbers in fields of a cron rule that have no effect with its target. A stored object that is older than a
bound stays valid: the API server checks only what changes (Kubernetes 1.30 and later), so it can be deleted,
and cut piece by piece.

A hub without the webhook stores what only the webhook refuses.
[edge-cases.md](../reference/edge-cases.md#webhook-and-crds) says what the controller does with it.

The webhook's refusals begin `admission webhook "federatedhpa.karmada.io" denied the request: ` (or
`"cronfederatedhpa.karmada.io"`), the CRD's `The FederatedHPA "web" is invalid: `. If there are several
errors, the table shows the first. Objects that both admit are tested but not shown.
"""


def rendered() -> str:
    """Returns the page."""
    known = recorded.read()
    lines = [_HEAD.format(command=recorded.COMMAND, server=known["server"])]
    for group, members in itertools.groupby(_rows(known["answers"]), key=lambda row: row[0]):
        lines += [
            f"## {group[0].upper()}{group[1:]}",
            "| object | the CRD alone | the webhook |",
            "|---|---|---|",
        ]
        for _, what, schema, webhook in members:
            lines.append(f"| {what} | {_cell(schema)} | {_cell(webhook)} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _rows(answers: Mapping[str, list[str]]) -> Iterator[tuple[str, str, list[str], list[str]]]:
    for case in cases():
        schema, webhook = answers[case.name], admission.refusal(case.object())
        if schema or webhook:
            yield case.group, case.what, schema, webhook


def _cell(errors: list[str]) -> str:
    if not errors:
        return "admitted"
    text = errors[0] if len(errors[0]) <= SHOWN else errors[0][:SHOWN] + "..."
    text = text.replace("|", "\\|").replace("\n", "\\n")
    return f"`` {text} ``" if "`" in text else f"`{text}`"
