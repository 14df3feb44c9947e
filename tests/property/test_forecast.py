"""Value conflicts and bounds conflicts, compared with an enumeration of all executions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import takewhile

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fedhpa.cron import Timetable, load_zone, parse
from fedhpa.cron.execution.model import MAXIMUM, MINIMUM, OpenWindow, Rule, Values
from fedhpa.cron.execution.windows import ValueStack
from fedhpa.cron.forecast.conflicts import MAX_EVENTS, Conflict, bounds_conflicts, value_conflicts
from tests.support.nightly import examples
from tests.support.timetables import previous_of, times_of

ZONES = ("Europe/Berlin", "Europe/London", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe")
HOURS = st.sampled_from(("1", "2", "3", "8", "1,2", "*/12", "*"))
DAYS = st.sampled_from(("* * *", "* * MON", "* * SAT,SUN", "1 * *", "1,15 * FRI", "29 3 *", "*/10 * *"))
TEXTS = st.builds("{} {} {}".format, st.sampled_from(("0", "30", "0,30")), HOURS, DAYS)
DAYS_AHEAD = 60
instants = st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


WINDOWS = st.sampled_from((None, None, 3600.0, 9 * 3600.0, 3 * 86400.0))


@st.composite
def rule_lists(draw: st.DrawFn, windows: st.SearchStrategy[float | None] = WINDOWS) -> list[Rule]:
    """Two or three rules, some with windows, each with its minimum at or below its maximum."""
    zones = draw(st.sampled_from((ZONES[:1], ZONES)))
    rules = []
    for index in range(draw(st.integers(2, 3))):
        low = draw(st.none() | st.integers(1, 6))
        high = draw(st.none() | st.integers(low or 1, 9))
        zone = load_zone(draw(st.sampled_from(zones)))
        table = Timetable(parse(draw(TEXTS)), zone, duration=draw(windows))
        rules.append(rule_of(f"rule {index}", table, low, high, index))
    return rules


def rule_of(name: str, table: Timetable, low: int | None, high: int | None, place: int = 0) -> Rule:
    bounds = {MINIMUM: low, MAXIMUM: high}
    return Rule(name, place, table, {field: size for field, size in bounds.items() if size is not None}, "")


def times(rule: Rule, now: datetime, until: datetime) -> list[datetime]:
    coming = (time.astimezone(UTC) for time in times_of(rule.table, now))
    return list(takewhile(lambda time: time <= until, coming))


def length_of(rule: Rule) -> timedelta | None:
    return None if rule.duration is None else timedelta(seconds=rule.duration)


def first_conflict(
    rules: list[Rule], minimum: int | None, maximum: int, now: datetime, until: datetime
) -> Conflict | None:
    target: Values = {"minReplicas": minimum, "maxReplicas": maximum}
    return next(bounds_conflicts(rules, target, now.timestamp(), until.timestamp()), None)


@given(rule_lists(st.none()), instants)
@settings(max_examples=examples(30, 1000), deadline=None)
def test_the_first_conflict_of_each_pair_is_found(rules: list[Rule], now: datetime) -> None:
    """Every reported pair is right. No pair that fires together within eight days is missed."""
    until = now + timedelta(days=DAYS_AHEAD)
    expected = {}
    for index, second in enumerate(rules):
        for first in rules[:index]:
            differ = any(size != second.values.get(field, size) for field, size in first.values.items())
            shared = sorted(set(times(first, now, until)) & set(times(second, now, until)))
            if differ and shared:
                expected[first.name, second.name] = shared[0]

    found = {
        (each.rules[0].name, each.rules[1].name): datetime.fromtimestamp(each.at, UTC)
        for each in value_conflicts(rules, now.timestamp(), until.timestamp())
    }

    # A pair that rarely fires together, or only because of a clock change, may be missed.
    assert all(expected.get(pair) == at for pair, at in found.items())
    near = now + timedelta(days=8)
    assert {pair for pair, at in expected.items() if at <= near and not _moved(rules, at)} <= set(found)


def _moved(rules: list[Rule], at: datetime) -> bool:
    """True if an execution replaces a skipped wall time."""
    return any(
        at - timedelta(hours=3) < change <= at
        for rule in rules
        for change in _gaps(str(rule.table.zone), at.year)
    )


@lru_cache(maxsize=256)
def _gaps(name: str, year: int) -> list[datetime]:
    zone = load_zone(name)
    hours = [datetime(year, 1, 1, tzinfo=UTC) + timedelta(hours=number) for number in range(366 * 24)]
    offsets = [hour.astimezone(zone).utcoffset() for hour in hours]
    return [
        later
        for later, before, after in zip(hours[1:], offsets, offsets[1:], strict=False)
        if before is not None and after is not None and after > before
    ]


@given(rule_lists(), instants, st.none() | st.integers(1, 5), st.integers(5, 9))
@settings(max_examples=examples(30, 1000), deadline=None)
def test_the_first_bounds_conflict_is_that_of_every_instant_alone(
    rules: list[Rule], now: datetime, minimum: int | None, maximum: int
) -> None:
    """Both give the same instant and bounds, unless the forecast reaches its limit of events."""
    until = now + timedelta(days=DAYS_AHEAD)
    expected, events = first_crossing(rules, now, until, (1 if minimum is None else minimum, maximum))

    first = first_conflict(rules, minimum, maximum, now, until)

    found = None
    if first is not None and first.bounds is not None:
        found = (datetime.fromtimestamp(first.at, UTC), *first.bounds)
    if events <= MAX_EVENTS:
        assert found == expected
    assert found in (None, expected)


@given(rule_lists(), instants, st.integers(1, 5), st.integers(5, 9))
@settings(max_examples=examples(30, 1000), deadline=None)
def test_the_first_bounds_conflict_is_the_first_write_that_would_be_refused(
    rules: list[Rule], now: datetime, minimum: int, maximum: int
) -> None:
    """The controller's own model of windows gives the same instant, where no window was open before."""
    until = now + timedelta(days=DAYS_AHEAD)
    for rule in rules:
        fired, length = previous_of(rule.table, now), length_of(rule)
        assume(length is None or fired is None or fired.astimezone(UTC) + length <= now)
    refused, events = first_refused_write(rules, now, until, {"minReplicas": minimum, "maxReplicas": maximum})

    first = first_conflict(rules, minimum, maximum, now, until)

    found = None if first is None else datetime.fromtimestamp(first.at, UTC)
    assert found == refused or (found is None and events > MAX_EVENTS)


def first_refused_write(
    rules: list[Rule], now: datetime, until: datetime, values: dict[str, int | None]
) -> tuple[datetime | None, int]:
    """Returns when the values first cross, and the number of executions and ends of windows up to then."""
    stack = ValueStack(values, None, {})
    due: dict[datetime, list[int]] = {}
    for index, rule in enumerate(rules):
        for time in times(rule, now, until):
            due.setdefault(time, []).append(index)
            if (length := length_of(rule)) is not None:
                due.setdefault(time + length, [])
    events = 0
    for instant in sorted(due):
        for window in [each for each in stack.windows if each.closes <= instant.timestamp()]:
            stack.close(window)
        # Plain executions come before openings.
        for index in sorted(due[instant], key=lambda index: rules[index].table.duration is not None):
            rule, length = rules[index], length_of(rules[index])
            if length is None:
                stack.apply(rule.values)
            else:
                closes = (instant + length).timestamp()
                stack.open(OpenWindow("calendar", rule.name, instant.timestamp(), closes, rule.values))
        events += 1 + len(due[instant])
        low, high = stack.values["minReplicas"], stack.values["maxReplicas"]
        if low is not None and high is not None and low > high:
            return instant, events
    return None, events


def test_rules_of_one_schedule_use_up_no_executions() -> None:
    """Two hourly rules of one timetable do not use up the events before the conflict of a monthly rule."""
    now, zone = datetime(2026, 2, 1, tzinfo=UTC), load_zone("Europe/Berlin")
    hourly, late = Timetable(parse("0 * * * *"), zone), Timetable(parse("0 1 28 * *"), zone)
    rules = [
        rule_of("a", hourly, 1, None, 0),
        rule_of("b", hourly, None, 1, 1),
        rule_of("c", late, 2, None, 2),
    ]

    first = first_conflict(rules, 1, 5, now, now + timedelta(days=DAYS_AHEAD))

    assert first is not None
    assert (first.rules, first.bounds) == ((rules[2],), (2, 1))
    assert datetime.fromtimestamp(first.at, UTC) == datetime(2026, 2, 28, tzinfo=UTC)


def first_crossing(
    rules: list[Rule], now: datetime, until: datetime, target: tuple[int, int]
) -> tuple[tuple[datetime, int, int] | None, int]:
    """Returns the first instant at which the minimum is above the maximum, and the events up to it.

    Each instant is judged alone: from the executions before it, without the instants before it.
    """
    fired = [times(rule, now, until) for rule in rules]
    instants: set[datetime] = set()
    for rule, own in zip(rules, fired, strict=True):
        length = length_of(rule)
        earlier = previous_of(rule.table, now)
        assert earlier is not None
        instants |= set(own)
        if length is not None:
            instants |= {time + length for time in (earlier.astimezone(UTC), *own)}
    events = 0
    for instant in sorted(instants):
        if instant <= now:
            continue
        events += len(rules)
        low, high = (
            stack(rules, fired, instant, now, bound, before)
            for bound, before in zip((MINIMUM, MAXIMUM), target, strict=True)
        )
        if low is not None and high is not None and low > high:
            return (instant, low, high), events
    return None, events


def stack(
    rules: list[Rule], fired: list[list[datetime]], at: datetime, now: datetime, bound: str, target: int
) -> int | None:
    """Returns the value of a bound at an instant, or None if it is unknown."""
    windows: list[tuple[datetime, int, int | None]] = []
    baseline: list[tuple[datetime, int, int | None]] = [(now - timedelta(days=1), -1, target)]
    for index, rule in enumerate(rules):
        value = rule.values.get(bound)
        if value is None:
            continue
        length = length_of(rule)
        done = [time for time in fired[index] if time <= at]
        if length is None:
            baseline += [(time, index, value) for time in done[-1:]]
            continue
        earlier = previous_of(rule.table, now)
        assert earlier is not None
        hidden = earlier.astimezone(UTC) + length
        if hidden > now:
            # The rule may have opened a window before.
            baseline.append((now, -1, None))
        if done:
            windows += [(time, index, value) for time in done[-1:] if time + length > at]
        elif hidden > at:
            windows.append((earlier.astimezone(UTC), index, None))
    return max(windows or baseline, key=lambda found: found[:2])[2]
