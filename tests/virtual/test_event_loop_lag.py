"""fedhpa_event_loop_lag_seconds shows work that holds up the event loop."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from fedhpa.serving import process_series
from fedhpa.serving.process_series import ProcessSeries

pytestmark = pytest.mark.looptime(noop_cycles=0)


async def measured(holds: list[float], monkeypatch: pytest.MonkeyPatch) -> CollectorRegistry:
    """Returns the series after pieces of work that held the loop for so many seconds."""
    registry = CollectorRegistry()
    series = ProcessSeries(registry)
    loop = asyncio.get_running_loop()
    real, added = loop.time, 0.0
    monkeypatch.setattr(loop, "time", lambda: real() + added)
    measuring = asyncio.ensure_future(series.measure_lag())
    await asyncio.sleep(0)
    for seconds in holds:
        await asyncio.sleep(process_series.TICK_SECONDS / 2)
        added += seconds
        await asyncio.sleep(process_series.TICK_SECONDS)
    measuring.cancel()
    return registry


def above(registry: CollectorRegistry, bucket: str) -> float:
    """Returns how many measurements were above a bucket's bound."""
    total = registry.get_sample_value("fedhpa_event_loop_lag_seconds_count") or 0
    below = registry.get_sample_value("fedhpa_event_loop_lag_seconds_bucket", {"le": bucket}) or 0
    return total - below


async def test_a_hold_up_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work of 0.3 s is counted once above the bound of 50 ms."""
    registry = await measured([0.3], monkeypatch)

    assert above(registry, "0.05") == 1
    assert above(registry, "0.5") == 0


async def test_long_hold_ups_are_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each long hold-up is counted and logged. The log bounds the lines of one event."""
    with capture_logs() as logs:
        registry = await measured([2.0, 3.0, 4.0], monkeypatch)

    assert above(registry, "1.0") == 3
    assert [entry["event"] for entry in logs] == ["the event loop was held up"] * 3


def test_the_version_is_a_label() -> None:
    """Dashboards show which version runs where."""
    registry = CollectorRegistry()
    ProcessSeries(registry)

    (sample,) = next(found for found in registry.collect() if found.name == "fedhpa_build_info").samples
    assert sample.value == 1
    assert set(sample.labels) == {"version", "python_version"}
