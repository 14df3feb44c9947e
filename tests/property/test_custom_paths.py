"""A path of custom metrics is read as access to it is reviewed: nobody reads another namespace's values."""

from __future__ import annotations

from urllib.parse import quote

from aiohttp.test_utils import make_mocked_request
from hypothesis import given
from hypothesis import strategies as st

from fedhpa.serving.authorization import Attributes
from metrics_adapter.server.paths import custom_query

WORDS = st.sampled_from(
    ["namespaces", "metrics", "pods", "*", "%2A", "%2F", "shop", "..", "%2e%2e", "", ".", "a%00b"]
)
PARTS = st.lists(WORDS | st.text(max_size=4).map(lambda text: quote(text, safe="")), min_size=1, max_size=7)


@given(PARTS)
def test_a_path_is_read_as_access_is_reviewed(parts: list[str]) -> None:
    """Namespace, resource and name are the same in both readings, and none is empty or a step up."""
    path = "/apis/custom.metrics.k8s.io/v1beta2/" + "/".join(parts)
    wanted = custom_query(path)

    if wanted is not None:
        reviewed = Attributes.of(make_mocked_request("GET", path))
        if wanted.is_namespace_metric:
            asked = (wanted.name, "metrics", wanted.metric, "")
        else:
            asked = (wanted.namespace, wanted.resource, wanted.name, wanted.metric)
        assert asked == (reviewed.namespace, reviewed.resource, reviewed.name, reviewed.subresource)
        assert not {"", ".", ".."} & {wanted.resource, wanted.name, wanted.metric}
