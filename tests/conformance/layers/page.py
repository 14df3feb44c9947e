"""docs/reference/admission-layers.md, made of the cases, our validation and what a real API server said."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.conformance.layers import admission, recorded
from tests.conformance.layers.cases import cases

PATH = Path(__file__).parents[3] / "docs" / "reference" / "admission-layers.md"
SHOWN = 200

_HEAD = """# Which layer refuses what

Made by `{command}`, which asks a real API server ({server}); a test keeps it and the code together.

An object passes three layers: the CRD (schema and CEL rules, also on a hub where no webhook runs), then the
validating webhook, then, for what is admitted but cannot be done, a condition of the controller. The CRD
speaks first, so where both refuse, its words are the ones that people read. It refuses nothing that the
webhook would admit, but for lengths and sizes (docs/reference/federatedhpa.md) and the bounds that Karmada's
own CRD has. An object that was stored before a rule existed stays as it is: the API server asks only about
what changes (Kubernetes 1.30 and later), so it can be deleted, and mended piece by piece.

The webhook's refusals begin `admission webhook "federatedhpa.karmada.io" denied the request: ` (or
`"cronfederatedhpa.karmada.io"`), the CRD's `The FederatedHPA "web" is invalid: `. Of several errors the first
is shown. Objects that both admit are tested too, but not shown.
"""


def rendered() -> str:
    """The page."""
    known = recorded.read()
    lines = [_HEAD.format(command=recorded.COMMAND, server=known["server"])]
    for group, members in itertools.groupby(_rows(known["answers"]), key=lambda row: row[0]):
        lines += [
            f"## {group[0].upper()}{group[1:]}",
            "| object | the CRD alone | the webhook |",
            "|---|---|---|",
        ]
        for _, what, schema, webhook in members:
            lines.append(f"| {what} | {_cell(_alike(schema, webhook))} | {_cell(webhook)} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _rows(answers: Mapping[str, list[str]]) -> Iterator[tuple[str, str, list[str], list[str]]]:
    for case in cases():
        schema, webhook = answers[case.name], admission.refusal(case.object())
        if schema or webhook:
            yield case.group, case.what, schema, webhook


def _alike(schema: list[str], webhook: list[str]) -> list[str]:
    """The CRD's errors, whose order is not given, with those first that the webhook has too."""
    return sorted(schema, key=lambda text: not any(text.split(": ")[-1] in error for error in webhook))


def _cell(errors: list[str]) -> str:
    if not errors:
        return "admitted"
    text = errors[0] if len(errors[0]) <= SHOWN else errors[0][:SHOWN] + "..."
    text = text.replace("|", "\\|").replace("\n", "\\n")
    return f"`` {text} ``" if "`" in text else f"`{text}`"
