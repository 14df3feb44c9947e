"""A gauge of rows reads as the same gauge of prometheus_client, and costs a fraction."""

from __future__ import annotations

import time
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from fedhpa.serving.server import RowGauge, exposition

LABELS = ("namespace", "name", "cluster")
NAME, MEANING = "fedhpa_things", 'Things, with a \\ and a "quote"\nand a second line.'
Row = tuple[tuple[str, str, str], float]


class Families(Collector):
    def __init__(self, *families: Metric) -> None:
        self.families = families

    def collect(self) -> Iterable[Metric]:
        return self.families


def both(rows: list[Row]) -> tuple[RowGauge, GaugeMetricFamily]:
    ours, theirs = RowGauge(NAME, MEANING, LABELS), GaugeMetricFamily(NAME, MEANING, labels=LABELS)
    for values, value in rows:
        ours.add(values, value)
        theirs.add_metric(values, value)
    return ours, theirs


def parsed(text: bytes) -> list[Metric]:
    return list(text_string_to_metric_families(text.decode()))


@given(
    st.lists(
        st.tuples(
            st.tuples(*[st.text(st.characters(exclude_categories=["Cs"]), max_size=8)] * 3),
            st.one_of(st.integers(-(10**6), 10**18), st.floats(allow_nan=False)),
        ),
        max_size=5,
    )
)
def test_the_text_reads_as_that_of_the_library(rows: list[Row]) -> None:
    """Any labels and values: the same families with the same samples."""
    ours, theirs = both(rows)

    assert ours.samples == theirs.samples
    assert parsed(exposition(Families(ours))) == parsed(generate_latest(Families(theirs)))


def test_other_families_are_those_of_the_library() -> None:
    """A registry has both kinds; each is there once."""
    registry = CollectorRegistry()
    Counter("fedhpa_others", "Others.", registry=registry).inc()
    ours, _ = both([(("shop", "web", "m1"), 3)])
    registry.register(Families(ours))
    text = exposition(registry).decode()

    assert text.count("# TYPE fedhpa_things gauge\n") == 1
    assert 'fedhpa_things{cluster="m1",name="web",namespace="shop"} 3.0\n' in text
    assert "fedhpa_others_total 1.0\n" in text


def test_samples_are_added_as_rows_only() -> None:
    """Samples that are set would not be shown, so that is an error."""
    ours, theirs = both([(("shop", "web", "m1"), 3)])
    with pytest.raises(ValueError, match="by `add` only"):
        ours.samples = theirs.samples


def test_a_sample_costs_less_than_half() -> None:
    """20,000 samples, collected and rendered; the ratio is a seventh on a quiet machine."""

    def seconds(make: type, render: object) -> float:
        times = []
        for _ in range(3):
            began = time.process_time()
            ours = both_of(make)
            render(Families(ours))  # type: ignore[operator]
            times.append(time.process_time() - began)
        return min(times)

    def both_of(make: type) -> Metric:
        gauge = make(NAME, MEANING, labels=LABELS)
        add = gauge.add if isinstance(gauge, RowGauge) else gauge.add_metric
        for number in range(20_000):
            add(("shop", f"web-{number}", "m1"), number)
        assert isinstance(gauge, Metric)
        return gauge

    assert seconds(RowGauge, exposition) < seconds(GaugeMetricFamily, generate_latest) / 2
