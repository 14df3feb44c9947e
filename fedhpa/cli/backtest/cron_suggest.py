"""`fedhpa cron suggest` proposes windows ahead of ramps that come back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import typer

from fedhpa.api.errors import ConfigError
from fedhpa.cli.backtest.flags import Inputs, with_flags
from fedhpa.cli.backtest.inputs import options_of
from fedhpa.cli.backtest.output import check_output, print_found, text_lines
from fedhpa.cli.backtest.store import gathered

if TYPE_CHECKING:
    from fedhpa.backtest.cron_suggestion import CronSuggestion

MAX_DATES = 10


@with_flags(days=28, step="60s", unserved=None)
def cron_suggest(
    inputs: Inputs,
    time_zone: Annotated[
        str, typer.Option("--time-zone", help="Time zone of the weekdays and hours, such as Europe/Berlin.")
    ] = "UTC",
) -> None:
    """Suggest windows with a larger minReplicas ahead of ramps that come back; nothing is written.

    A ramp counts if the object met it late on at least three of four weeks. Prints a CronFederatedHPA with
    what it brings on the recorded weeks.

    Example: fedhpa cron suggest -f web.yaml --recording month.json.gz --time-zone Europe/Berlin
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
    manifest = "\n".join(manifest_lines(found))
    print_found(found, found.report, found.reason, inputs.output, manifest, lines_of(found))


def manifest_lines(found: CronSuggestion) -> Iterator[str]:
    """Yields the manifest as YAML; only a comment if there is none."""
    from fedhpa.api.yaml import print_yaml

    yield f"# {found.reason}"
    if found.manifest is not None:
        yield print_yaml([found.manifest], sort_keys=False).rstrip("\n")


def lines_of(found: CronSuggestion) -> Iterator[str]:
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
