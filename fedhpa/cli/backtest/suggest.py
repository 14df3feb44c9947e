"""`fedhpa suggest` searches for an object that serves the recorded demand with less."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import typer

from fedhpa.cli.backtest.flags import Inputs, with_flags
from fedhpa.cli.backtest.inputs import options_of, part_of, progress_bar, with_rules
from fedhpa.cli.backtest.output import check_output, print_found, text_lines
from fedhpa.cli.backtest.store import gathered

if TYPE_CHECKING:
    from fedhpa.backtest import Candidate, Suggestion

# Fields that only a stored object has.
_STORED = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "uid", "selfLink")


@with_flags(days=14, step="60s")
def suggest(inputs: Inputs) -> None:
    """Suggest fields of a FederatedHPA that serve the recorded demand with less; nothing is written.

    Prints the change as a diff, with what each field buys. The choice is made on every other day of the
    recording, and the days between confirm or refuse it. Exits 1 if a day would break --unserved anyway.

    Example: fedhpa suggest -f web.yaml --recording fortnight.json.gz --unserved 0.1%
    """
    from fedhpa.api.yaml import print_yaml
    from fedhpa.backtest import suggest as search

    check_output(inputs.output)
    options, bound = options_of(inputs.model), part_of("--unserved", inputs.unserved)
    found, subject = gathered(inputs)

    def complete(candidates: list[Candidate]) -> list[Candidate]:
        return with_rules(candidates, subject, found)[0]

    with progress_bar("suggest") as progress:
        result = search(found, subject.raw, options, unserved=bound, complete=complete, progress=progress)
    manifest = print_yaml([applicable(result.manifest)], sort_keys=False).rstrip("\n")
    lines = lines_of(result, subject.raw)
    print_found(result, result.report, result.reason, inputs.output, manifest, lines)
    if result.worstDay.figures.unserved > bound:
        raise typer.Exit(1)


def lines_of(found: Suggestion, raw: Mapping[str, Any]) -> Iterator[str]:
    """Yields the suggestion as text: the verdict, what each field buys, the diff and the table."""
    from fedhpa.api.times import format_time

    yield found.reason
    yield from (f"  {claim}" for claim in found.claims)
    worst = found.worstDay
    yield (
        f"  worst day: from {format_time(worst.at)}, {worst.figures.unserved:.2%} unserved; days a tenth "
        "higher would "
        f"leave up to {found.higher:.2%} unserved"
    )
    if found.claims:
        yield ""
        yield from diff(raw, found.manifest)
    yield ""
    yield from text_lines(found.report)


def applicable(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a manifest without the fields that only a stored object has."""
    metadata = {key: value for key, value in raw["metadata"].items() if key not in _STORED}
    return {**{key: value for key, value in raw.items() if key != "status"}, "metadata": metadata}


def diff(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Yields the lines of a diff of two manifests."""
    from fedhpa.api.yaml import print_yaml

    old, new = (print_yaml([applicable(one)], sort_keys=False).splitlines() for one in (before, after))
    return difflib.unified_diff(old, new, "present", "suggested", n=2, lineterm="")
