"""Strategies for rules and for what happens to them: time, edits, people, crashes and refusals."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from hypothesis import strategies as st

Json = dict[str, Any]

ZONES: Final = (
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "America/St_Johns",
    "Africa/Casablanca",
    "Antarctica/Troll",
    "Asia/Kolkata",
    "UTC",
)
# The last Sundays of March and October, and days without a clock change.
STARTS: Final = (
    "2026-03-28T20:00",
    "2026-10-24T20:00",
    "2026-11-01T00:00",
    "2026-04-04T06:00",
    "2026-06-01T00:00",
)
MINUTE: Final = 60.0
HOUR: Final = 60
DAY: Final = 24 * HOUR
FIELDS: Final = ("minReplicas", "maxReplicas")


class Span(NamedTuple):
    """The scale of a history: its schedules with the longest delay that each may have, and its steps."""

    schedules: tuple[tuple[str, int], ...]
    durations: tuple[str | None, ...]
    longest_step: int
    most_steps: int
    zones: tuple[str, ...] = ZONES


HOURS: Final = Span(
    (
        ("0 * * * *", 3599),
        ("30 */2 * * *", 3600),
        ("0 2 * * *", 7200),
        ("30 2,3 * * *", 1800),
        ("15 1-4 * * *", 600),
        ("0 9 * * MON-FRI", 7200),
    ),
    (None, None, "45m", "1h", "3h", "90m"),
    400,
    25,
)
# Two years: 25 steps of at most a month.
YEARS: Final = Span(
    (
        ("30 2 * * *", 43_200),
        ("0 0 1 * *", 43_200),
        ("0 9 * * MON-FRI", 36_000),
        ("0 3 * * SUN", 86_400),
        ("15 1 13 * FRI", 43_200),
        ("0 12 29 2 *", 86_400),
    ),
    (None, None, "12h", "36h", "240h", "1000h"),
    31 * DAY,
    25,
)


class Edit(NamedTuple):
    """A change of one object. `place` chooses the object and the rule."""

    what: str
    place: int
    values: Json
    schedule: str
    zone: str
    duration: str | None


class Step(NamedTuple):
    """Minutes that pass, what somebody does then, and what the controller does after it.

    `does` is run, away, back (the clock is wrong once), refused, or the write before which the controller
    ends: crash-effect after the record, crash-result after the effect, crash-status after the first status.
    """

    minutes: int
    edit: Edit | None
    person: tuple[str, int | None] | None
    does: str


EDITS: Final = (
    "values",
    "duration",
    "schedule",
    "zone",
    "exclude",
    "suspend",
    "resume",
    "rename",
    "remove",
    "add",
    "create",
    "delete",
    "retarget",
    "return",
)
DOES: Final = ("run", "run", "run", "away", "crash-effect", "crash-result", "crash-status", "refused", "back")

replicas = st.none() | st.integers(1, 9)


@st.composite
def values(draw: st.DrawFn) -> Json:
    """The sizes of a rule; at least one is set."""
    low, high = draw(replicas), draw(replicas)
    return {"targetMinReplicas": low, "targetMaxReplicas": (high or 1) if low is None else high}


@st.composite
def rules(draw: st.DrawFn, span: Span) -> list[Json]:
    """One to three rules."""
    found = []
    for place in range(draw(st.integers(1, 3))):
        schedule, delay = draw(st.sampled_from(span.schedules))
        found.append(
            {
                "name": f"r{place}",
                "schedule": schedule,
                "timeZone": draw(st.sampled_from(span.zones)),
                "duration": draw(st.sampled_from(span.durations)),
                "maxDelaySeconds": draw(st.none() | st.none() | st.just(delay)),
                **draw(values()),
            }
        )
    return found


def objects(span: Span) -> st.SearchStrategy[list[list[Json]]]:
    """The rules of one or two objects."""
    return st.lists(rules(span), min_size=1, max_size=2)


def steps(span: Span) -> st.SearchStrategy[list[Step]]:
    """The events, in order."""
    edit = st.builds(
        Edit,
        st.sampled_from(EDITS),
        st.integers(0, 5),
        values(),
        st.sampled_from([schedule for schedule, _ in span.schedules]),
        st.sampled_from(span.zones),
        st.sampled_from(span.durations),
    )
    person = st.tuples(st.sampled_from(FIELDS), st.integers(1, 9))
    step = st.builds(
        Step,
        st.integers(1, span.longest_step),
        st.none() | st.none() | edit,
        st.none() | st.none() | st.none() | person,
        st.sampled_from(DOES),
    )
    return st.lists(step, min_size=3, max_size=span.most_steps)


def edited(spec: Json, edit: Edit, day: str) -> Json:
    """Returns the rules of an object after an edit. `day` is a date that the edit excludes."""
    rules = [dict(rule) for rule in spec["rules"]]
    rule = rules[edit.place % len(rules)] if rules else None
    names = {each["name"] for each in rules}
    fresh = next(name for number in range(99) if (name := f"r{number}") not in names)
    if edit.what == "add" or rule is None:
        rules.append(
            {
                "name": fresh,
                "schedule": edit.schedule,
                "timeZone": edit.zone,
                "duration": edit.duration,
                **edit.values,
            }
        )
    elif edit.what == "remove":
        rules.remove(rule)
    else:
        changes: dict[str, Json] = {
            "values": edit.values,
            "duration": {"duration": edit.duration},
            "schedule": {"schedule": edit.schedule, "maxDelaySeconds": None},
            "zone": {"timeZone": edit.zone},
            "exclude": {"excludeDates": [day]},
            "suspend": {"suspend": True},
            "resume": {"suspend": None},
            "rename": {"name": fresh},
        }
        rule |= changes[edit.what]
    return {**spec, "rules": rules}
