"""`fedhpa cron next`: when a schedule fires."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, tzinfo
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedhpa.api.errors import InvalidObject

if TYPE_CHECKING:
    from collections.abc import Iterable

DEFAULT_COUNT = 5
MAX_COUNT = 10_000


class Output(StrEnum):
    """The forms of an answer."""

    JSON = "json"
    TEXT = "text"


def cron_next(
    schedule: Annotated[
        str | None, typer.Argument(help='Five cron fields, such as "0 4 * * MON-FRI".')
    ] = None,
    time_zone: Annotated[str | None, typer.Option(help="IANA name; UTC if not given.")] = None,
    from_: Annotated[
        str | None, typer.Option("--from", help="RFC 3339; fires are strictly after it. Now if not given.")
    ] = None,
    count: Annotated[int, typer.Option(help="How many fires.", min=1, max=MAX_COUNT)] = DEFAULT_COUNT,
    output: Annotated[
        Output | None, typer.Option("-o", "--output", help="json (default for pipes) or text.")
    ] = None,
    stdin: Annotated[
        bool,
        typer.Option(
            "--stdin",
            help="Read a JSON object a line: {schedule, timeZone?, from?, count?}; answer one a line.",
        ),
    ] = False,
) -> None:
    """Show when a schedule fires next; exit 1 if it is not valid."""
    now = datetime.now(UTC)
    if stdin:
        if schedule is not None:
            raise typer.BadParameter("SCHEDULE is not given together with --stdin")
        raise typer.Exit(_answer_lines(sys.stdin.buffer, now))
    if schedule is None:
        raise typer.BadParameter("SCHEDULE is missing; quote it, or use --stdin")
    # A bad time is wrong usage, a bad schedule or zone the finding asked for.
    _instant(from_, now, UTC)
    answer = _answer({"schedule": schedule, "timeZone": time_zone, "from": from_, "count": count}, now)
    if output is None:
        output = Output.TEXT if sys.stdout.isatty() else Output.JSON
    if output is Output.JSON:
        typer.echo(_dump(answer))
    elif answer["valid"]:
        typer.echo("\n".join(answer["next"]))
    else:
        typer.echo(answer["error"])
    raise typer.Exit(0 if answer["valid"] else 1)


def _answer_lines(lines: Iterable[bytes], now: datetime) -> int:
    """Answers each line in order; returns 2 if one was no JSON object, else 0."""
    code = 0
    for line in lines:
        try:
            query = json.loads(line)
        except (ValueError, RecursionError):
            query = None
        if isinstance(query, dict):
            answer = _answer(query, now)
        else:
            answer = _invalid("the line is no JSON object")
            code = 2
        typer.echo(_dump(answer))
    return code


def _answer(query: dict[str, Any], now: datetime) -> dict[str, Any]:
    """The answer to one query, whose values may be of any type."""
    from fedhpa.cron import load_zone, next_fires, parse

    try:
        schedule = _text(query, "schedule")
        if schedule is None:
            raise InvalidObject("schedule: it is missing; write five cron fields")
        zone_name = _text(query, "timeZone")
        count = query.get("count")
        count = DEFAULT_COUNT if count is None else count
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MAX_COUNT:
            raise InvalidObject(f"count: write a whole number from 1 to {MAX_COUNT}")
        parsed = parse(schedule)
        zone = load_zone(zone_name)
        after = _instant(_text(query, "from"), now, zone)
    except InvalidObject as error:
        # A zone's message is Karmada's to the byte; what to write instead stands beside it.
        remedy = getattr(error, "remedy", "")
        return _invalid(f"timeZone: {error}; {remedy}" if remedy else str(error))
    return {
        "schedule": schedule,
        "timeZone": zone.key,
        "from": after.isoformat(),
        "valid": True,
        "next": [fire.isoformat() for fire in next_fires(parsed, zone, after, count)],
    }


def _instant(text: str | None, now: datetime, zone: tzinfo) -> datetime:
    """The instant to start from, as local time."""
    from fedhpa.api.times import parse_time

    if text is None:
        return now.replace(microsecond=0).astimezone(zone)
    try:
        parse_time(text)
        return datetime.fromisoformat(text).astimezone(zone)
    except (InvalidObject, ValueError, OverflowError) as error:
        raise InvalidObject(f"from: {error}") from error


def _text(query: dict[str, Any], key: str) -> str | None:
    value = query.get(key)
    if value is not None and not isinstance(value, str):
        raise InvalidObject(f"{key}: write a text in quotes")
    return value


def _invalid(message: str) -> dict[str, Any]:
    return {"valid": False, "error": message}


def _dump(answer: dict[str, Any]) -> str:
    text = json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
    # A lone surrogate in a query has no UTF-8.
    return text.encode("utf-8", errors="replace").decode("utf-8")


def register(app: typer.Typer) -> None:
    """Adds the command group to the application."""
    group = typer.Typer(help="Schedules of CronFederatedHPAs.", no_args_is_help=True)
    # A schedule may begin with a dash: that is an invalid schedule, not an option.
    group.command("next", context_settings={"ignore_unknown_options": True})(cron_next)

    @group.callback()
    def _cron() -> None:
        """Schedules of CronFederatedHPAs."""

    app.add_typer(group, name="cron")
