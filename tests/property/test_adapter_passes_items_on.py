"""Items of members are served unchanged, with the cluster added."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fedhpa.api.wire import CLUSTER_ANNOTATION
from metrics_adapter.apis import PODS
from metrics_adapter.members.resource_metrics import decode_list
from tests.support.metrics_lists import encode_list, items_of

TEXT = st.text(max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
QUANTITIES = st.from_regex(
    r"[0-9]{1,6}(\.[0-9]{1,3})?([numkMGTPE]|[KMGTPE]i)?", fullmatch=True
) | st.integers(0, 2**40)
CONTAINERS = st.lists(
    st.fixed_dictionaries(
        {"name": TEXT},
        optional={"usage": st.none() | st.dictionaries(TEXT, QUANTITIES, max_size=3), "more": VALUES},
    ),
    max_size=3,
)
METADATA = st.builds(
    lambda extra, **known: {**extra, **{key: value for key, value in known.items() if value is not ...}},
    st.dictionaries(
        TEXT.filter(lambda key: key not in ("name", "namespace", "annotations")), VALUES, max_size=3
    ),
    name=TEXT,
    namespace=st.just(...) | TEXT,
    annotations=st.just(...) | st.none() | st.dictionaries(TEXT, TEXT, max_size=2),
)
PODS_SENT = st.lists(
    st.builds(
        lambda metadata, window, containers: {
            "metadata": metadata,
            "window": window,
            "containers": containers,
        },
        METADATA,
        VALUES,
        st.none() | CONTAINERS,
    ),
    max_size=4,
)


@given(sent=PODS_SENT, separators=st.sampled_from([(",", ":"), (", ", ": ")]), ascii=st.booleans())
def test_items_pass_unchanged_but_for_the_cluster(
    sent: list[dict[str, Any]], separators: tuple[str, str], ascii: bool
) -> None:
    """This holds for every valid layout of the member's JSON."""
    head = {"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1"}
    body = json.dumps({**head, "items": sent}, separators=separators, ensure_ascii=ascii).encode()

    answered = json.loads(encode_list(PODS, items_of(decode_list(body, 'm"1'))))["items"]

    expected = []
    for item in sent:
        annotations = {**(item["metadata"].get("annotations") or {}), CLUSTER_ANNOTATION: 'm"1'}
        expected.append({**item, "metadata": {**item["metadata"], "annotations": annotations}})
    assert sorted(map(canonical, answered)) == sorted(map(canonical, expected))


def canonical(item: dict[str, Any]) -> str:
    return json.dumps(item, sort_keys=True)
