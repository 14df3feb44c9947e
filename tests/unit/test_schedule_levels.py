"""Admission warnings about sizes that rules raise and do not lower, and other mistakes in single rules."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.test_schedule_forecast import FHPA, WORKLOAD, of_object

UP: dict[str, Any] = {"schedule": "0 8 * * *", "targetReplicas": 10}
DOWN: dict[str, Any] = {"schedule": "0 20 * * *", "targetReplicas": 2}
R0, R1 = "spec.rules[0] (r0)", "spec.rules[1] (r1)"


def warned(*rules: dict[str, Any]) -> list[str]:
    return of_object(*rules, target=WORKLOAD)


def test_up_without_down_gets_a_warning() -> None:
    """Nothing lowers the size again. A rule that sets 0 lowers it, and a window restores what was before."""
    text = f"{R0}: sets replicas 10 for good, because no rule sets another value; add a rule that does, or "

    assert warned(UP) == [text + "give this one a duration"]
    assert warned(UP, {**DOWN, "suspend": True}) == [text + "give this one a duration"]
    assert warned(UP, DOWN) == warned({**UP, "targetReplicas": 0}) == warned({**UP, "duration": "8h"}) == []
    assert warned(UP, {**DOWN, "duration": "8h"}) == []


def test_a_bound_that_is_raised_and_never_lowered_gets_a_warning() -> None:
    """Two rules move the minimum, but only one of them the maximum."""
    up = {"schedule": "0 8 * * *", "targetMinReplicas": 10, "targetMaxReplicas": 100}
    down = {"schedule": "0 20 * * *", "targetMinReplicas": 2}

    [warning] = of_object(up, down)

    assert warning.startswith(f"{R0}: sets maxReplicas 100 for good")
    assert of_object(up, down | {"targetMaxReplicas": 20}) == []
    assert of_object(up, down | {"targetMaxReplicas": 100}) == []


def test_a_known_target_shows_if_a_value_is_raised() -> None:
    """A rule that lowers a bound, or restates it, is no rise."""
    rule = {"schedule": "0 8 * * *", "targetMaxReplicas": 10}

    assert of_object(rule) == []
    assert len(of_object(rule, present={"minReplicas": 1, "maxReplicas": 9})) == 1
    assert of_object(rule, present={"minReplicas": 1, "maxReplicas": 10}) == []


@pytest.mark.parametrize(
    ("up", "down", "day"),
    [
        ({}, {"schedule": "0 20 * * MON-FRI"}, "2026-03-14T08:00:00+01:00"),
        ({"schedule": "0 22 * * *"}, {"schedule": "0 6 * * MON-FRI"}, "2026-03-13T22:00:00+01:00"),
        ({}, {"excludeDates": ["2026-12-25"]}, "2026-12-25T08:00:00+01:00"),
        ({}, {"excludeDates": ["--12-25"]}, "2026-12-25T08:00:00+01:00"),
        ({}, {"excludeDates": ["2026-07-01/2026-08-31"]}, "2026-07-01T08:00:00+02:00"),
        ({}, {"endDate": "2026-06-30"}, "2026-07-01T08:00:00+02:00"),
    ],
    ids=["weekend", "night", "date", "each year", "range", "end"],
)
def test_dates_on_which_nothing_lowers_the_size_get_a_warning(
    up: dict[str, Any], down: dict[str, Any], day: str
) -> None:
    """The rule that lowers it fires on fewer dates than the one that raises it."""
    assert warned(UP | up, DOWN | down) == [
        (
            f"{R0}: sets replicas 10 at {day}, and no rule lowers it before it is set again; give the rules "
            "that raise and lower it the same dates"
        )
    ]


@pytest.mark.parametrize(
    ("up", "down"),
    [
        ({"schedule": "0 8 * * MON-FRI"}, {}),
        ({"schedule": "0 22 * * SUN-THU"}, {"schedule": "0 6 * * MON-FRI"}),
        ({"schedule": "0 0 * * MON-FRI"}, {"schedule": "0 0 * * SAT,SUN"}),
        ({"schedule": "0 0 * * MON"}, {"schedule": "0 0 * * SAT"}),
        ({"schedule": "0 8-11 * * *"}, {}),
        ({"excludeDates": ["2026-12-25"]}, {"excludeDates": ["2026-12-25"]}),
        ({"excludeDates": ["2026-12-25"]}, {}),
        ({"schedule": "0 8 * * MON-FRI"}, {"excludeDates": ["2026-12-26"]}),
        ({"schedule": "0 8 27 11 *", "startDate": "2026-11-27", "endDate": "2026-11-27"}, {}),
        ({"endDate": "2026-06-30"}, {"endDate": "2026-06-30"}),
    ],
)
def test_rules_that_belong_together_get_no_warning(up: dict[str, Any], down: dict[str, Any]) -> None:
    """The size is lowered after each rise, or the two rules are levels of workdays and weekends."""
    assert warned(UP | up, DOWN | down) == []


@pytest.mark.parametrize(
    ("schedule", "fields", "text"),
    [
        (
            "0 0 31 * *",
            {},
            (
                "day-of-month 31 comes in seven months only; for the end of every month write @monthly, when "
                "the next one begins, or 28-31 with --MM-DD in excludeDates"
            ),
        ),
        (
            "* 9 * * *",
            {},
            (
                "fires at every minute of hour 9, 60 times a day, because its minute is *; write 0 for the "
                "full hour"
            ),
        ),
        (
            "0 8 * * *",
            {"maxDelaySeconds": 1},
            (
                "a restart takes longer than maxDelaySeconds 1, and an execution that is due meanwhile is "
                "missed; write 30 or more"
            ),
        ),
    ],
)
def test_a_rule_that_cannot_mean_what_it_says_gets_a_warning(
    schedule: str, fields: dict[str, Any], text: str
) -> None:
    """The warning says what the rule does and what to write."""
    assert warned({**DOWN, "targetReplicas": 0, "schedule": schedule, **fields}) == [f"{R0}: {text}"]


@pytest.mark.parametrize(
    ("schedule", "fields"),
    [
        ("0 0 31 1,3,5,7,8,10,12 *", {}),
        ("0 0 28-31 * *", {}),
        ("0 0 29 2 *", {}),
        ("* * * * *", {}),
        ("*/5 9 * * *", {}),
        ("0 8 * * *", {"maxDelaySeconds": 30}),
        ("0 8 * * *", {"excludeDates": ["2026-03-10", "2026-03-11"]}),
        ("0 8 * * *", {"excludeDates": ["2025-12-25", "--12-25"]}),
    ],
)
def test_a_rule_that_is_meant_so_gets_no_warning(schedule: str, fields: dict[str, Any]) -> None:
    """A month that has the day, every minute of all days, a longer delay, and dates to come."""
    assert warned({**DOWN, "targetReplicas": 0, "schedule": schedule, **fields}) == []


def test_excluded_dates_that_are_over_get_a_warning() -> None:
    """The list was of last year."""
    rule = {**DOWN, "targetReplicas": 0, "excludeDates": ["2025-12-25", "2025-12-26/2026-01-01"]}

    assert warned(rule) == [
        (
            "spec.rules[0].excludeDates: all dates are over; list the coming ones, or write --MM-DD for each "
            "year"
        )
    ]


def test_an_object_without_rules_gets_a_warning() -> None:
    """It is admitted, as in Karmada."""
    assert warned() == of_object(target=FHPA) == ["spec.rules: there is no rule, so nothing is ever scaled"]
