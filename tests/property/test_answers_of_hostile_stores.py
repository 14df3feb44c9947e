"""Every body of a metrics store is either refused with a reason or decoded into usable numbers."""

from __future__ import annotations

import json
import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fedhpa.api.errors import MetricsUnavailable
from metrics_adapter.prometheus.grouping import by_cluster
from metrics_adapter.prometheus.queries import InstantQuery, RuleQuery
from metrics_adapter.prometheus.results import MAX_NANO, STALE_SECONDS, amount_of, decode_result
from metrics_adapter.prometheus.rules.model import RuleBase

NOW = 1_773_230_400.0
TEXT = st.text(max_size=6)
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
NUMBERS = (
    st.floats().map(repr) | st.sampled_from(["1e309", "9" * 400, "1e-400", "٣", "1 ", "0", "1e+06"]) | TEXT
)
AMOUNTS = st.tuples(st.sampled_from([NOW, NOW - 299, NOW - 301, 1e308, -1.0]) | st.floats(), NUMBERS)
NAMES = st.sampled_from(["cluster", "namespace", "__name__"]) | TEXT
LABELS = st.dictionaries(NAMES, st.sampled_from(["a", "b"]) | TEXT, max_size=3)
SERIES = st.fixed_dictionaries({"metric": LABELS, "value": AMOUNTS}) | ANY
ANSWERS = (
    st.fixed_dictionaries(
        {
            "status": st.just("success"),
            "data": st.fixed_dictionaries({"resultType": st.just("vector"), "result": st.lists(SERIES)}),
        },
        optional={"warnings": st.lists(TEXT) | ANY},
    )
    | ANY
)


@given(ANSWERS.map(json.dumps).map(str.encode) | st.binary(max_size=40))
def test_an_answer_is_read_or_refused(body: bytes) -> None:
    """Only our own errors are raised, and only current finite numbers of registered clusters result."""
    try:
        answer = decode_result([body], NOW)
    except MetricsUnavailable:
        return
    query = RuleQuery(RuleBase(), "cluster", None, InstantQuery("up"), lambda _: True, lambda _: True)
    samples = by_cluster(answer, query, {"a", "b"})

    assert samples.samples.keys() <= {"a", "b"}
    for measured in samples.samples.values():
        for one in measured:
            assert 0 <= one.amount.nano <= MAX_NANO
            assert abs(one.at - NOW) <= STALE_SECONDS
            assert not any(name.startswith("__") or name == "cluster" for name in one.labels)
    kept = sum(len(measured) for measured in samples.samples.values())
    assert len(answer.series) == kept + sum(samples.dropped.values())


@given(st.floats(min_value=0, max_value=9e15))
def test_a_number_is_read_as_it_was_written(number: float) -> None:
    """Numbers keep nine decimals, rounded up as quantities are."""
    answer: dict[str, Any] = {
        "resultType": "vector",
        "result": [{"metric": {}, "value": [NOW, repr(number)]}],
    }
    body = json.dumps({"status": "success", "data": answer}).encode()
    [series] = decode_result([body], NOW).series

    assert math.isclose(number, float(amount_of(series, NOW)), rel_tol=1e-12, abs_tol=1e-9)
