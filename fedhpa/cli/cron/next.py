"""`fedhpa cron next` prints when a schedule fires."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, tzinfo
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedhpa.api.errors import ConfigError, InvalidObject
from fedhpa.cli.options import JsonOrText

if TYPE_CHECKING:
    from collections.abc import Iterable

DEFAULT_COUNT = 5
MAX_COUNT = 10_000


def cron_next(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="SCHEDULE", help='Five cron fields in quotes, for example "0 4 * * MON-FRI".'),
    ] = None,
    time_zone: Annotated[str | None, typer.Option(help="IANA time zone; if not set, UTC.")] = None,
    from_: Annotated[
        str | None,
        typer.Option("--from", help="RFC 3339 time; the times are strictly after it. If not set, now."),
    ] = None,
    count: Annotated[
        int, typer.Option(help="Number of times to print.", min=1, max=MAX_COUNT)
    ] = DEFAULT_COUNT,
    output: Annotated[
        JsonOrText,
        typer.Option("-o", "--output", help="Output format."),
    ] = JsonOrText.TEXT,
    stdin: Annotated[
        bool,
        typer.Option(
            "--stdin",
            help="Read JSON lines {schedule, timeZone?, from?, count?} from stdin; print an answer for each.",
        ),
    ] = False,
) -> None:
    """Print when a schedule fires next; exits 1 if the schedule is invalid."""
    now = datetime.now(UTC)
    if stdin:
        if words:
            raise ConfigError("SCHEDULE and --stdin exclude each other")
        raise typer.Exit(_answer_lines(sys.stdin.buffer, now))
    schedule = _one_schedule(words or [])
    # A bad --from is wrong usage (2). A bad schedule or time zone is a finding (1).
    _instant(from_, now, UTC)
    answer = _answer({"schedule": schedule, "timeZone": time_zone, "from": from_, "count": count}, now)
    text = "\n".join(answer["next"]) if answer["valid"] else answer["error"]
    typer.echo(_dump(answer) if output is JsonOrText.JSON else text)
    raise typer.Exit(0 if answer["valid"] else 1)


def _one_schedule(words: list[str]) -> str:
    """Returns the only argument. Raises ConfigError with the remedy for a schedule without quotes."""
    if not words:
        raise ConfigError("SCHEDULE is missing: write five cron fields in quotes, or use --stdin")
    if len(words) > 1:
        raise ConfigError(
            f"expected one SCHEDULE, got {len(words)} arguments: put the schedule in quotes, or the shell "
            'splits it and replaces * by file names, for example: fedhpa cron next "*/5 * * * *"'
        )
    return words[0]


def _answer_lines(lines: Iterable[bytes], now: datetime) -> int:
    """Answers each line in order; returns 2 if a line is not a JSON object, else 0."""
    code = 0
    for line in lines:
        try:
            query = json.loads(line)
        except (ValueError, RecursionError):
            query = None
        if isinstance(query, dict):
            answer = _answer(query, now)
        else:
            answer = _invalid("the line is not a JSON object")
            code = 2
        typer.echo(_dump(answer))
    return code


def _answer(query: dict[str, Any], now: datetime) -> dict[str, Any]:
    """Returns the answer to one query, whose values may have any type."""
    from fedhpa.cron import Timetable, load_zone, parse

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
        # The message about a time zone is Karmada's, byte for byte. The remedy is separate.
        remedy = getattr(error, "remedy", "")
        return _invalid(f"timeZone: {error}; {remedy}" if remedy else str(error))
    return {
        "schedule": schedule,
        "timeZone": zone.key,
        "from": after.isoformat(),
        "valid": True,
        "next": [
            datetime.fromtimestamp(at, zone).isoformat()
            for at in islice(Timetable(parsed, zone).times(after.timestamp()), count)
        ],
    }


def _instant(text: str | None, now: datetime, zone: tzinfo) -> datetime:
    """Returns the start time in the time zone; `now` if `text` is None."""
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
    # A lone surrogate in a query cannot be encoded as UTF-8.
    return text.encode("utf-8", errors="replace").decode("utf-8")
