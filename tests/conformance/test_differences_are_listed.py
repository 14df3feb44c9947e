"""docs/explanation/differences.md lists every recorded case whose answer differs here, and no other."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedhpa.cron import InvalidSchedule, load_zone, parse
from tests.conformance.tables import table
from tests.conformance.test_karmada_admission import DIFFERENCES, post
from tests.support.timetables import next_times

EXPRESSIONS = table("karmada_cron_expressions")
ADMISSIONS = table("karmada_webhook_cron")
DOCUMENT = Path(__file__).parents[2] / "docs" / "explanation" / "differences.md"


def listed(first_column: str) -> list[list[str]]:
    """The rows of the table that begins with this column, as texts without their ticks."""
    lines = DOCUMENT.read_text(encoding="utf-8").splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(f"| {first_column} |"))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip().strip("`") for cell in line.strip("|").split(" | ")])
    return rows


def webhook_says(row: dict[str, Any]) -> str:
    share = row["webhookAcceptFraction"]
    if 0 < share < 1:
        return "admits at times"
    return "admits" if share else "refuses"


def here(schedule: str) -> str:
    try:
        parse(schedule)
    except InvalidSchedule:
        return "refused"
    return "runs"


def test_the_schedules_whose_verdict_differs_are_listed() -> None:
    """From what Karmada's webhook says at any time, or from what its controller does."""
    differing = set()
    for row in EXPRESSIONS["expressions"]:
        webhook, runs = webhook_says(row), "runs" if row["schedulerAccepts"] else "cannot start"
        ours = here(row["schedule"])
        if (webhook, runs) != (("admits", "runs") if ours == "runs" else ("refuses", "cannot start")):
            differing.add((row["schedule"], webhook, runs, ours))

    assert {(json.loads(schedule), *rest) for schedule, *rest in listed("schedule")} == differing


def fired(schedule: str, zone: str, after: str, count: int) -> list[datetime]:
    return next_times(parse(schedule), load_zone(zone), datetime.fromisoformat(after), count)


def test_the_executions_that_differ_are_listed() -> None:
    """Skipped and repeated wall times, with what fires instead."""
    differing = set()
    for row in EXPRESSIONS["dst"]["rows"]:
        key = (row["timeZone"], row["schedule"], row["from"])
        ours = [time.isoformat() for time in fired(key[1], key[0], key[2], len(row["next"]))]
        if ours != row["next"]:
            differing.add((*key, ", ".join(row["next"]), ", ".join(ours)))
    for row in EXPRESSIONS["expressions"]:
        following = dict(row.get("next5fieldParser", {}))
        after = following.pop("from", "")
        for zone, theirs in following.items() if here(row["schedule"]) == "runs" else ():
            found = fired(row["schedule"], zone, after, len(theirs))
            ours = [time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") for time in found]
            if ours != theirs:
                differing.add((zone, row["schedule"], after, ", ".join(theirs), ", ".join(ours)))

    assert {tuple(row) for row in listed("zone")} == differing


def test_the_admissions_that_differ_are_listed() -> None:
    """By what the webhook answers, not by what its test expects."""
    differing = set()
    for run in ADMISSIONS["admissionRuns"]:
        theirs, ours = run["expect"]["allowed"], post(run)["response"]["allowed"]
        if theirs != ours:
            differing.add((run["name"], *("admits" if allowed else "refuses" for allowed in (theirs, ours))))

    assert {tuple(row) for row in listed("recorded admission of a CronFederatedHPA")} == differing
    assert set(DIFFERENCES) == {name for name, _, _ in differing}
