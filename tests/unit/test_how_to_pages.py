"""The manifests of docs/how-to/scale-by-time.md are admitted, and do what the page says."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import yaml

from fedhpa.admission.cronfederatedhpa import validate_cronfederatedhpa, warn_cronfederatedhpa
from fedhpa.api.cronfederatedhpa import CronFederatedHPA
from fedhpa.api.decode import decode
from fedhpa.cron import forecast_warnings
from fedhpa.cron.execution.model import ObservedTarget, ScheduledObject, Values, WindowRecord
from fedhpa.cron.execution.objects import executable_rules
from fedhpa.cron.execution.outcome import settle
from fedhpa.cron.execution.planning import CronPlan

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "scale-by-time.md"
TEXT = PAGE.read_text(encoding="utf-8")
MANIFESTS: dict[str, Any] = {
    found["metadata"]["name"]: found
    for part in TEXT.split("```yaml\n")[1:]
    for found in [yaml.safe_load(part.split("```")[0])]
}
BOUNDS: Values = {"minReplicas": 2, "maxReplicas": 30}


def held(name: str, begin: str, times: list[str], values: Values) -> list[list[int | None]]:
    """Runs the rules of a manifest. Returns the values of the target at local times of the rules' zone."""
    cron = decode(CronFederatedHPA, MANIFESTS[name])
    zone = ZoneInfo(cron.spec.rules[0].time_zone or "UTC")

    def instant(text: str) -> float:
        return datetime.fromisoformat(text).replace(tzinfo=zone).timestamp()

    created = now = instant(begin)
    owner = ScheduledObject(name, created, executable_rules(cron.spec))
    record: WindowRecord | None = None
    values, found = dict(values), []
    for text in times:
        while True:
            planned = CronPlan([owner], record, ObservedTarget(dict(values)), now)
            values |= planned.write
            settled = settle(planned, now)
            record = settled.record
            owner = ScheduledObject(name, created, owner.rules, settled.states[name], known=True)
            if planned.wake is None or planned.wake > instant(text):
                break
            now = planned.wake
        now = instant(text)
        found.append(list(values.values()))
    return found


def test_the_page_has_four_manifests() -> None:
    assert list(MANIFESTS) == ["office-hours", "sale", "nightly-batch", "day-and-night"]


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_is_admitted_without_a_warning(name: str) -> None:
    cron = decode(CronFederatedHPA, MANIFESTS[name])
    now = datetime(2026, 11, 22, tzinfo=ZoneInfo("UTC"))

    assert validate_cronfederatedhpa(cron) == []
    assert [*warn_cronfederatedhpa(cron), *forecast_warnings(cron.spec, now)] == []


def test_office_hours_hold_for_eleven_hours_of_a_working_day() -> None:
    """Monday, Saturday, and Christmas Day, a Friday."""
    times = ["2026-11-23T07:29", "2026-11-23T07:30", "2026-11-23T18:29", "2026-11-23T18:30"]
    free = ["2026-11-28T12:00", "2026-12-24T12:00", "2026-12-25T12:00"]

    assert held("office-hours", "2026-11-22T00:00", times + free, BOUNDS) == [
        [2, 30],
        [6, 30],
        [6, 30],
        [2, 30],
        [2, 30],
        [6, 30],
        [2, 30],
    ]


def test_a_sale_raises_both_bounds_from_its_first_to_its_last_date() -> None:
    times = [
        "2026-11-26T23:00",
        "2026-11-27T21:59",
        "2026-11-27T22:00",
        "2026-12-01T01:59",
        "2026-12-01T02:00",
    ]
    after = [*times, "2026-12-01T23:00", "2027-11-27T23:00"]

    assert held("sale", "2026-11-25T00:00", after, BOUNDS) == [
        [2, 30],
        [2, 30],
        [20, 80],
        [20, 80],
        [2, 30],
        [2, 30],
        [2, 30],
    ]


def test_a_nightly_batch_runs_from_zero_and_back() -> None:
    times = ["2026-11-23T00:59", "2026-11-23T01:00", "2026-11-23T04:59", "2026-11-23T05:00"]

    assert held("nightly-batch", "2026-11-22T06:00", times, {"replicas": 0}) == [[0], [12], [12], [0]]


def test_day_and_night_have_their_own_bounds() -> None:
    times = ["2026-11-23T06:00", "2026-11-23T22:59", "2026-11-23T23:00", "2026-11-24T05:59"]

    assert held("day-and-night", "2026-11-23T00:00", times, BOUNDS) == [[4, 40], [4, 40], [2, 10], [2, 10]]
