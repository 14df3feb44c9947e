"""Records share a member's text only while it is short, so the text cannot fill the memory."""

from __future__ import annotations

import pytest

from fedhpa.api import wire
from fedhpa.scaling import records, requests
from fedhpa.scaling.records import pod_record, usage_record
from metrics_adapter.prometheus.results import Series, amount_of

LONG = "x" * 5000
PODS = 200


@pytest.fixture(autouse=True)
def kept() -> None:
    """Starts without kept texts."""
    for table in (records._label_sets, requests._amount_sets, requests._request_sets, requests.TEXTS):
        table.clear()


def pod(number: int, text: str) -> wire.Pod:
    container = wire.Container(
        name=f"{text}{number}",
        resources=wire.Resources(requests={f"{text}{number}": "1"}),
    )
    return wire.Pod(
        metadata=wire.PodMeta(
            name=f"pod-{number}", namespace=f"{text}{number}", labels={f"{text}{number}": f"{number}{text}"}
        ),
        spec=wire.PodSpec(containers=[container]),
    )


def kept_characters() -> int:
    """Returns the characters of all kept texts."""
    labels = sum(len(part) for key in records._label_sets for pair in key for part in pair)
    amounts = sum(len(name) for key in (*requests._amount_sets, *requests._request_sets) for name, _ in key)
    return labels + amounts + sum(map(len, requests.TEXTS))


def test_long_texts_are_not_kept() -> None:
    """Neither namespaces and names nor label sets and requests."""
    for number in range(PODS):
        record = pod_record("m1", pod(number, LONG))

        assert record.labels == {f"{LONG}{number}": f"{number}{LONG}"}
    assert kept_characters() < 10_000


def test_short_texts_are_shared() -> None:
    """The pods of a workload share their labels, and so does a later list."""
    first, second = (pod_record("m1", pod(1, "web")) for _ in range(2))

    assert first.labels is second.labels
    assert first.namespace is second.namespace
    assert first.requests is second.requests


def test_many_texts_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hostile member can write different short texts for ever; the table is emptied at its limit."""
    monkeypatch.setattr(requests, "_INTERN_LIMIT", 50)
    for number in range(PODS):
        pod_record("m1", pod(number, "web"))

        assert len(requests.TEXTS) <= 50


def test_long_times_are_not_kept() -> None:
    """A time may have any number of digits after the point."""
    before = records._moment.cache_info().currsize
    for number in range(PODS):
        metrics = wire.PodMetrics(
            metadata=wire.PodMeta(name="p", namespace="n"),
            timestamp=f"2026-03-11T13:23:17.{'0' * 4000}{number}Z",
            window=f"{'0' * 300}{number}s",
        )
        usage_record("m1", metrics)

    assert records._moment.cache_info().currsize == before


def test_long_numbers_of_a_store_are_not_kept() -> None:
    """A number may have 400 digits after the point."""
    from metrics_adapter.prometheus.results import _cached_nano

    before = _cached_nano.cache_info().currsize
    for number in range(PODS):
        amount_of(Series({}, (1.0, f"1.{'0' * 300}{number}")), 1.0)

    assert _cached_nano.cache_info().currsize == before
