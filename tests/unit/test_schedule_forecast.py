"""Admission warnings about what the rules of a CronFederatedHPA will do."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from fedhpa.admission.cronfederatedhpa import validate_cronfederatedhpa, warn_cronfederatedhpa
from fedhpa.api.cronfederatedhpa import CronFederatedHPA, CronFederatedHPASpec
from fedhpa.api.decode import decode
from fedhpa.api.fielderror import remedies
from fedhpa.cron import affected_times, forecast_warnings
from fedhpa.cron.execution.model import Values
from fedhpa.cron.forecast.warnings import active_rules
from tests.support.costs import least_cpu_seconds
from webhook.admission_review import Verdict, encode_answer

NOW = datetime(2026, 3, 11, 13, 23, 17, tzinfo=UTC)
WORKLOAD = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
NEVER = "does not fire within nine years, because startDate, endDate or excludeDates leaves out its dates"
R0, R1, R2 = (f"spec.rules[{index}] (r{index})" for index in range(3))
FHPA = {"apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": "FederatedHPA", "name": "web"}


def cron(*rules: dict[str, Any], target: dict[str, str] = WORKLOAD) -> CronFederatedHPA:
    filled = [{"name": f"r{index}", "timeZone": "Europe/Berlin", **rule} for index, rule in enumerate(rules)]
    raw = {
        "metadata": {"name": "c", "namespace": "shop"},
        "spec": {"scaleTargetRef": target, "rules": filled},
    }
    return decode(CronFederatedHPA, raw)


def spec(*rules: dict[str, Any], target: dict[str, str] = WORKLOAD) -> CronFederatedHPASpec:
    return cron(*rules, target=target).spec


def sizes(*rules: tuple[str, int], **fields: Any) -> list[str]:
    """Warnings but those about values that stay, because single rules are examples of something else."""
    whole = spec(*({"schedule": text, "targetReplicas": size, **fields} for text, size in rules))
    return forecast_warnings(whole, NOW, alone=False)


def bounds(*rules: dict[str, Any], present: Values | None = None, now: datetime = NOW) -> list[str]:
    return forecast_warnings(spec(*rules, target=FHPA), now, present, alone=False)


def of_object(
    *rules: dict[str, Any], present: Values | None = None, target: dict[str, str] = FHPA
) -> list[str]:
    """All warnings about an object, as the webhook gives them."""
    found = cron(*rules, target=target)
    return [*forecast_warnings(found.spec, NOW, present), *warn_cronfederatedhpa(found)]


def moved(schedule: str, now: datetime = NOW, **fields: Any) -> list[str]:
    """The clock changes of a year that move an execution of a rule."""
    rules = active_rules(spec({"schedule": schedule, "targetReplicas": 3, **fields}))
    named = {str(rule): rule.table for rule in rules}
    return list(map(str, affected_times(named, now.timestamp(), now.timestamp() + 366 * 86400)))


def test_a_sound_calendar_gets_no_warning() -> None:
    """Mornings, evenings, weekends, a window and holidays are ordinary. So `--warnings-as-errors` passes."""
    assert (
        of_object(
            {"schedule": "0 8 * * MON-FRI", "targetMinReplicas": 10, "targetMaxReplicas": 50},
            {"schedule": "0 20 * * MON-FRI", "targetMinReplicas": 2},
            {"schedule": "0 12 * * SAT", "targetMaxReplicas": 20, "duration": "4h", "maxDelaySeconds": 600},
            {"schedule": "@weekly", "targetMinReplicas": 1, "targetMaxReplicas": 10},
            {
                "schedule": "30 2 * * *",
                "targetMaxReplicas": 40,
                "duration": "1h",
                "excludeDates": ["--12-25"],
            },
            present={"minReplicas": 1, "maxReplicas": 50},
        )
        == []
    )


def test_a_rule_that_never_fires_gets_a_warning() -> None:
    """Its only dates within nine years are excluded."""
    leap_days = ["2028-02-29", "2032-02-29"]
    rule = {"schedule": "0 8 29 2 *", "targetReplicas": 1, "excludeDates": leap_days}

    assert forecast_warnings(spec(rule), NOW) == [f"{R0}: {NEVER}"]
    assert sizes(("0 8 * * *", 1), endDate="2026-03-10") == [f"{R0}: {NEVER}"]
    assert sizes(("0 8 * * MON-FRI", 1), startDate="2026-11-28", endDate="2026-11-29") == [f"{R0}: {NEVER}"]
    assert sizes(("0 18 * * *", 1), endDate="2026-03-11") == []


def test_a_skipped_or_repeated_execution_is_told_by_the_preview_alone() -> None:
    """The text gives the wall time, the date, the clock change and the actual time. Nothing is wrong."""
    assert sizes(("30 2 * * *", 3)) == []
    assert moved("30 2 * * *") == [
        (
            f"{R0}: 02:30 does not exist on 2026-03-29 in Europe/Berlin, where the clock goes from "
            "02:00 to 03:00; it fires at 2026-03-29T03:00:00+02:00 instead"
        ),
        (
            f"{R0}: 02:30 occurs twice on 2026-10-25 in Europe/Berlin, where the clock goes from 03:00 "
            "back to 02:00; it fires once, at 2026-10-25T02:30:00+02:00"
        ),
    ]


@pytest.mark.parametrize(
    ("schedule", "fields"),
    [
        ("30 * * * *", {}),
        ("30 */2 * * *", {}),
        ("30 3 * * *", {}),
        ("30 2 * * MON-SAT", {}),
        ("30 2 1 * *", {}),
        ("30 2 * * *", {"excludeDates": ["2026-03-29", "2026-10-25"]}),
        ("30 2 * * *", {"startDate": "2026-03-30", "endDate": "2026-10-24"}),
        ("30 2 * * *", {"suspend": True}),
        ("30 2 * * *", {"timeZone": "Asia/Kolkata"}),
    ],
)
def test_an_execution_outside_clock_changes_is_not_named(schedule: str, fields: dict[str, Any]) -> None:
    """The rule follows real time, fires at another time or day, excludes the day, or is suspended."""
    assert moved(schedule, **fields) == []


def test_a_repeated_time_that_has_fired_is_not_named() -> None:
    """The first occurrence of the wall time is over, so only next year's gap is reported."""
    (skipped,) = moved("30 2 * * *", datetime.fromisoformat("2026-10-25T02:45:00+02:00"))

    assert "does not exist on 2027-03-28" in skipped


def test_conflicting_rules_are_reported_with_the_first_time_and_both_values() -> None:
    """A daily and a weekly rule conflict on Monday. The fifth of the month is first a Friday in June."""
    assert sizes(("0 8 * * *", 3), ("0 8 * * MON", 1)) == [
        (
            f"{R0} and {R1} fire in the same minute, first at "
            "2026-03-16T08:00:00+01:00; only the latter applies (targetReplicas 3 and 1)"
        )
    ]
    (met,) = sizes(("0 8 5 * *", 3), ("*/5 8 * * FRI", 1))
    assert "first at 2026-06-05T08:00:00+02:00" in met


def test_rules_of_different_zones_conflict_at_the_same_instant() -> None:
    """New York is five hours from Berlin for three weeks in March, and six for most of the year."""
    first = {"schedule": "0 9 * * *", "targetReplicas": 3}
    second = {"schedule": "0 4 * * *", "targetReplicas": 1, "timeZone": "America/New_York"}
    met, *_ = forecast_warnings(spec(first, second), NOW)

    assert "first at 2026-03-12T09:00:00+01:00" in met


@pytest.mark.parametrize(
    "rules",
    [
        [("0 8 * * *", 3), ("0 8 * * MON", 3)],
        [("0 8 * * *", 3), ("1 8 * * *", 1)],
        [("0 8 * * MON-FRI", 3), ("0 8 * * SAT,SUN", 1)],
        [("0 8 1 * *", 3), ("0 8 15 * *", 1)],
        [("0 8 * 1 *", 3), ("0 8 * 2 *", 1)],
        [("0 8 29 2 *", 3), ("0 8 29 2 MON", 1)],
    ],
)
def test_rules_that_agree_or_never_fire_together_get_no_warning(rules: list[tuple[str, int]]) -> None:
    """They set the same value, or fire in other minutes, on other days, in other months or years later."""
    assert [text for text in sizes(*rules) if "same minute" in text] == []


def test_rules_conflict_only_in_a_bound_that_both_set() -> None:
    """A rule for the minimum and a rule for the maximum do not conflict."""
    low = {"schedule": "0 8 * * *", "targetMinReplicas": 2}
    high = {"schedule": "0 8 * * *", "targetMaxReplicas": 8}
    other = {"schedule": "0 8 * * *", "targetMinReplicas": 3, "targetMaxReplicas": 8}

    assert bounds(low, high) == []
    assert bounds(low, other) == [
        (
            f"{R0} and {R1} fire in the same minute, first at "
            "2026-03-12T08:00:00+01:00; only the latter applies (targetMinReplicas 2 and 3)"
        )
    ]


def test_a_minimum_above_the_present_maximum_is_reported_with_its_first_execution() -> None:
    """So is a maximum below the present minimum. Unknown bounds of the target cause no warning."""
    low = {"schedule": "0 8 * * MON", "targetMinReplicas": 20}
    high = {"schedule": "0 18 * * *", "targetMaxReplicas": 2}

    assert bounds(low, present={"minReplicas": 1, "maxReplicas": 10}) == [
        (
            f"{R0} fires at 2026-03-16T08:00:00+01:00 and sets minReplicas 20, above the maxReplicas "
            "10 that the target has now; the change will be refused"
        )
    ]
    assert bounds(high, present={"minReplicas": 3, "maxReplicas": 10}) == [
        (
            f"{R0} fires at 2026-03-11T18:00:00+01:00 and sets maxReplicas 2, below the minReplicas "
            "3 that the target has now; the change will be refused"
        )
    ]
    assert bounds(low) == []
    assert bounds(high, present={"minReplicas": None, "maxReplicas": 10}) == []


def test_a_bounds_conflict_through_another_rule_is_reported() -> None:
    """Each rule alone fits the target, but not after the other one has fired."""
    up = {"schedule": "0 8 * * *", "targetMinReplicas": 8}
    down = {"schedule": "0 18 * * FRI", "targetMaxReplicas": 5}

    assert bounds(up, down, present={"minReplicas": 1, "maxReplicas": 10}) == [
        (
            f"{R1} fires at 2026-03-13T18:00:00+01:00 and sets maxReplicas 5, below the minReplicas 8 "
            f"that {R0} sets; the change will be refused"
        )
    ]


def test_a_frequent_rule_does_not_hide_a_rare_one() -> None:
    """Hundreds of thousands of minutely executions before New Year are not simulated one by one."""
    minutely = {"schedule": "* * * * *", "targetMinReplicas": 8}
    yearly = {"schedule": "0 0 1 1 *", "targetMaxReplicas": 5}

    (warning,) = bounds(minutely, yearly, present={"minReplicas": 1, "maxReplicas": 10})

    assert warning.startswith(f"{R1} fires at 2027-01-01T00:00:00+01:00")


def test_the_end_of_a_window_can_cause_a_conflict() -> None:
    """The window restores the minimum, but another rule has lowered the maximum meanwhile."""
    warning = bounds(
        {"schedule": "0 8 * * *", "targetMinReplicas": 2, "duration": "4h"},
        {"schedule": "0 10 * * *", "targetMaxReplicas": 5},
        present={"minReplicas": 6, "maxReplicas": 10},
    )

    assert warning == [
        (
            f"{R0} ends its window at 2026-03-12T12:00:00+01:00, and minReplicas is 6 again, above the "
            f"maxReplicas 5 that {R1} sets; the change will be refused"
        )
    ]


def test_a_refused_end_of_a_window_is_tried_again() -> None:
    """The minimum 6 returns after the maximum is raised at 13:00, so lowering it at 18:00 is refused."""
    found = bounds(
        {"schedule": "0 8 * * *", "targetMinReplicas": 2, "duration": "4h"},
        {"schedule": "0 10 * * *", "targetMaxReplicas": 5},
        {"schedule": "0 13 * * *", "targetMaxReplicas": 10},
        {"schedule": "0 18 * * THU", "targetMaxReplicas": 3},
        present={"minReplicas": 6, "maxReplicas": 10},
    )

    assert [text.partition("+")[0] for text in found] == [
        f"{R0} ends its window at 2026-03-12T12:00:00",
        "spec.rules[3] (r3) fires at 2026-03-12T18:00:00",
    ]


@pytest.mark.parametrize(
    ("first", "second", "conflict"),
    [
        (None, None, True),
        (None, "2h", False),
        ("2h", None, False),
        ("2h", "2h", True),
        ("2h", "4h", True),
        ("4h", "2h", False),
    ],
)
def test_windows_of_one_minute_conflict_only_if_one_hides_the_other(
    first: str | None, second: str | None, conflict: bool
) -> None:
    """The later rule of the list lies above. The other one holds after it, if it lasts longer or for ever."""
    found = sizes_with_windows(first, second)

    assert [text for text in found if "fire in the same minute" in text] == found
    assert bool(found) is conflict


def sizes_with_windows(*durations: str | None) -> list[str]:
    rules = [
        {"schedule": "0 8 * * MON", "targetReplicas": size, "duration": duration}
        for size, duration in enumerate(durations)
    ]
    return forecast_warnings(spec(*rules), NOW)


def test_both_day_fields_restricted_get_a_warning() -> None:
    """Many people expect that both must match. A step counts as restricted, and so does a whole list."""
    assert sizes(("0 8 13 * FRI", 3)) == [
        (
            f"{R0}: fires on day-of-month 13 and also on every day-of-week FRI, because one match is enough; "
            "write * in the field that does not matter"
        )
    ]
    assert "day-of-month */2 and" in sizes(("0 8\t*/2 * 1", 3))[0]
    assert (
        "day-of-month 1,2,3,4,5,6,7,8,9,10,... and"
        in sizes((f"0 8 {','.join(map(str, range(1, 29)))} * 1", 3))[0]
    )
    assert sizes(("0 8 13 * *", 3)) == sizes(("0 8 ? * FRI", 3)) == sizes(("@weekly", 3)) == []
    assert sizes(("0 8 13 * FRI", 3), suspend=True) == []


def test_the_zone_local_gets_a_warning() -> None:
    """In Karmada it is the zone of the process. Here it is UTC."""
    found = cron({"schedule": "0 8 * * *", "targetReplicas": 3, "timeZone": "Local"})

    assert [*warn_cronfederatedhpa(found)] == [
        (
            "spec.rules[0].timeZone: Local is no IANA name, so the schedule runs in UTC; "
            "write a name such as Europe/Berlin, or UTC"
        )
    ]


def test_a_window_that_never_closes_gets_a_warning() -> None:
    """Its duration is the interval between two executions, so every execution renews it."""
    (warning,) = sizes(("0 8 * * *", 3), duration="24h")

    assert warning == (
        f"{R0}: its window of 24h0m0s can still be open when it fires again, 24h0m0s later; that "
        "renews the window, and the previous values do not return"
    )
    assert sizes(("0 8 * * *", 3), duration="23h") == []


def test_missing_time_zones_and_duplicate_dates_get_a_warning() -> None:
    """One warning covers all rules without a time zone, and one the dates of a rule."""
    rules = [
        {"schedule": "0 8 * * *", "targetReplicas": 3, "timeZone": None},
        {"schedule": "0 9 * * *", "targetReplicas": 3, "timeZone": None},
        {
            "schedule": "1 9 * * *",
            "targetReplicas": 3,
            "excludeDates": ["2026-12-25", "2026-01-01", "2026-12-25"],
        },
    ]

    assert of_object(*rules, target=WORKLOAD)[1:] == [
        "spec.rules[2].excludeDates: 2026-12-25 is listed twice; once is enough",
        (
            "spec.rules[0].timeZone: no zone is given (and for 1 more rule), so the schedule runs in UTC; "
            "write a name such as Europe/Berlin, or UTC"
        ),
    ]


def test_the_worst_warning_comes_first_and_each_kind_is_represented() -> None:
    """Ten rules conflict and never close. Each kind gets one warning before any gets a second."""
    rules = [
        {"schedule": "* 2 31 * *", "targetMinReplicas": index + 1, "maxDelaySeconds": 1, "duration": "99h"}
        for index in range(10)
    ]

    found = of_object(*rules, present={"minReplicas": 1, "maxReplicas": 5})

    assert "above the maxReplicas 5 that the target has now" in found[0]
    assert "fire in the same minute" in found[1]
    assert "fires at every minute of hour 2, 60 times a day, because its minute is *" in found[2]
    assert "day-of-month 31 comes in seven months only" in found[3]
    assert "a restart takes longer than maxDelaySeconds 1" in found[4]
    assert "can still be open" in found[5]
    assert "fire in the same minute" in found[6]


@pytest.mark.parametrize("name", ["x" * 400, "ü" * 32, "a\nb\x00c"])
def test_warnings_are_short_for_any_rule_name(name: str) -> None:
    """Each has fewer than 256 characters."""
    rules = [
        {
            "name": f"{index}{name}",
            "schedule": "30 2 * * *",
            "targetMinReplicas": 2000000000 + index,
            "duration": "9h",
        }
        for index in range(3)
    ]
    for zone in ("America/Argentina/ComodRivadavia", "America/North_Dakota/New_Salem", "Europe/Berlin"):
        for rule in rules:
            rule["timeZone"] = zone
        texts = forecast_warnings(
            spec(*rules, target=FHPA), NOW, {"minReplicas": 1, "maxReplicas": 2000000000}
        )
        found = json.loads(encode_answer("", "", Verdict(True, warnings=tuple(texts))))["response"][
            "warnings"
        ]

        assert 1 <= len(found) <= 5
        assert all(len(text.encode()) < 256 for text in found)


def test_an_invalid_rule_has_no_forecast_and_gets_a_remedy() -> None:
    """The forecast covers the other rules."""
    good = cron({"schedule": "0 8 * * *", "targetReplicas": 1})
    bad = cron({"schedule": "0 8 * *", "targetReplicas": 1}, {"schedule": "30 2 * * *", "targetReplicas": 1})

    assert list(warn_cronfederatedhpa(good)) == []
    remedy, *_ = remedies(validate_cronfederatedhpa(bad))
    assert remedy.startswith("spec.rules[0].schedule: ")
    assert [text.split(":")[0] for text in forecast_warnings(bad.spec, NOW)] == [R1]


def hostile() -> dict[str, CronFederatedHPASpec]:
    """Objects that are expensive to forecast, each with a thousand rules."""
    zones = ("Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe")
    leap_days = [f"{year}-02-29" for year in range(2028, 2428, 4) if year % 100]
    shapes: dict[str, list[dict[str, Any]]] = {
        "every minute": [{"schedule": "* * * * *"}] * 1000,
        "never meeting": [{"schedule": f"0 8 {n % 28 + 1} * {n % 7}"} for n in range(1000)],
        "of four zones": [{"schedule": f"{n % 60} 2 * * *", "timeZone": zones[n % 4]} for n in range(1000)],
        "windows": [{"schedule": f"{n % 60} * * * *", "duration": "30m"} for n in range(1000)],
        "leap days": [{"schedule": "0 8 29 2 *", "excludeDates": leap_days}] * 1000,
    }
    return {
        name: spec(
            *(
                {**rule, "targetMinReplicas": n + 1, "targetMaxReplicas": n + 2}
                for n, rule in enumerate(rules)
            ),
            target=FHPA,
        )
        for name, rules in shapes.items()
    }


@pytest.mark.parametrize(
    ("name", "wanted"), hostile().items(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_the_work_is_bounded_for_any_object(name: str, wanted: CronFederatedHPASpec) -> None:
    """It takes at most 0.2 s of CPU time. Half a million executions would take many seconds."""
    forecast_warnings(wanted, NOW, {"minReplicas": 1, "maxReplicas": 10})

    assert (
        least_cpu_seconds(lambda: forecast_warnings(wanted, NOW, {"minReplicas": 1, "maxReplicas": 10}), 0.2)
        < 0.2
    )
