"""`fedhpa backtest` runs an object over recorded days, `suggest` and `cron suggest` look for a better one."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import typer

from fedhpa.api.errors import ConfigError
from fedhpa.cli.backtest.flags import Inputs
from fedhpa.cli.backtest.inputs import candidates_of, gathered, options_of, part_of, progress_bar, with_rules
from fedhpa.cli.backtest.output import (
    chart_lines,
    check_output,
    print_found,
    text_lines,
    yaml_lines,
)
from fedhpa.cli.options import with_flags

if TYPE_CHECKING:
    from fedhpa.backtest import Candidate, Suggestion
    from fedhpa.backtest.cron_suggestion import CronSuggestion

# Fields that only a stored object has.
_STORED: Final = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "uid", "selfLink")
MAX_DATES: Final = 10


@with_flags()
def backtest(
    inputs: Inputs,
    vary: list[str] | None = None,
) -> None:
    """Show what a FederatedHPA would have done over recorded days; nothing is written.

    The days are those of a recording, or are read from a metrics store. Each row of the table is a run: the
    recording itself, the object, and each variant, best first. Exits 1 if the object would leave more of the
    demand unserved than --unserved allows.

    Example: fedhpa backtest -f web.yaml --recording week.json.gz --vary target=50,60,70 -o report.html

    Options:
    --vary FIELD=VALUES: Also run the object with other values, such as target=50,60; repeated for all
      combinations. Fields: target, minReplicas, maxReplicas, scaleUp.window, scaleUp.percent, scaleUp.pods,
      scaleDown.window, scaleDown.percent, scaleDown.pods.
    """
    from fedhpa.backtest import PRESENT, compare

    check_output(inputs.output)
    options, bound = options_of(inputs.model), part_of("--unserved", inputs.unserved)
    found, subject = gathered(inputs)
    candidates, marks = candidates_of(subject, vary or [], found)
    with progress_bar("backtest") as progress:
        report = compare(found, candidates, options, marks=marks, unserved=bound, progress=progress)
    lines = yaml_lines(report), chart_lines(report)
    print_found(report, report, report.best, inputs.output, *lines)
    present = next(run for run in report.runs if run.name == PRESENT)
    if present.figures.unserved > bound:
        raise typer.Exit(1)


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
    yaml = print_yaml([applicable(result.manifest)], sort_keys=False).splitlines()
    print_found(result, result.report, result.reason, inputs.output, yaml, suggested(result, subject.raw))
    if result.worstDay.figures.unserved > bound:
        raise typer.Exit(1)


def suggested(found: Suggestion, raw: Mapping[str, Any]) -> Iterator[str]:
    """Yields the suggestion as text: the verdict, what each field buys, the diff and the table."""
    from fedhpa.api.times import format_time
    from fedhpa.backtest.result import percent

    yield found.reason
    yield from (f"  {claim}" for claim in found.claims)
    worst, bound = found.worstDay, found.report.bound
    yield (
        f"  worst day: from {format_time(worst.at)}, {percent(worst.figures.unserved, bound)} unserved; days "
        f"a tenth higher would leave up to {percent(found.higher, bound)} unserved"
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


@with_flags(days=28, step="60s", unserved=None)
def cron_suggest(
    inputs: Inputs,
    time_zone: str = "UTC",
) -> None:
    """Suggest windows with a larger minReplicas ahead of ramps that come back; nothing is written.

    A ramp counts if the object met it late on at least three of four weeks. Prints a CronFederatedHPA with
    what it brings on the recorded weeks.

    Example: fedhpa cron suggest -f web.yaml --recording month.json.gz --time-zone Europe/Berlin

    Options:
    --time-zone: Time zone of the weekdays and hours, such as Europe/Berlin.
    """
    from fedhpa.backtest.cron_suggestion import suggest_windows

    check_output(inputs.output)
    options = options_of(inputs.model)
    try:
        zone = ZoneInfo(time_zone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ConfigError(f"--time-zone={time_zone[:50]}: expected a zone such as Europe/Berlin") from error
    recording, subject = gathered(inputs)
    found = asyncio.run(suggest_windows(recording, subject.raw, options, zone, subject.crons))
    print_found(found, found.report, found.reason, inputs.output, manifest_lines(found), proposed(found))


def manifest_lines(found: CronSuggestion) -> Iterator[str]:
    """Yields the manifest as YAML; only a comment if there is none."""
    from fedhpa.api.yaml import print_yaml

    yield f"# {found.reason}"
    if found.manifest is not None:
        yield print_yaml([found.manifest], sort_keys=False).rstrip("\n")


def proposed(found: CronSuggestion) -> Iterator[str]:
    """Yields the windows as text: what they bring, the manifest and the table."""
    yield found.reason
    if found.manifest is not None:
        yield ""
        yield from list(manifest_lines(found))[1:]
    if found.quietDays:
        dates = ", ".join(found.quietDays[:MAX_DATES])
        yield f"no ramp came on {dates}: if these were holidays, name the next ones in excludeDates"
    yield ""
    yield from text_lines(found.report)
