"""Recordings of days come back from their file as they were, in both forms."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fedhpa.backtest import ClusterSeries, Recording, decode_recording, encode_recording
from fedhpa.backtest.recording import check

COUNTS = st.none() | st.integers(0, 2**31 - 1)
AMOUNTS = st.none() | st.integers(0, 2**62)
NAMES = st.from_regex(r"[a-z]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)


@st.composite
def recordings(draw: st.DrawFn) -> Recording:
    steps = draw(st.integers(1, 6))
    keys = draw(st.lists(st.sampled_from(["cpu", "memory", "pods/rps", "web/cpu"]), unique=True))

    def amounts() -> dict[str, list[int | None]]:
        return {key: draw(st.lists(AMOUNTS, min_size=steps, max_size=steps)) for key in keys}

    def cluster(name: str) -> ClusterSeries:
        def counts() -> list[int | None]:
            return draw(st.lists(COUNTS, min_size=steps, max_size=steps))

        price = draw(st.none() | st.floats(0, 1e6))
        return ClusterSeries(name, counts(), counts(), amounts(), amounts(), amounts(), price)

    names = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    clusters = [cluster(name) for name in names]
    # A recording has at least one step with data.
    clusters[0].replicas[0] = clusters[0].ready[0] = draw(st.integers(0, 100))
    return Recording(
        version=1,
        namespace=draw(st.just("shop") | st.just("")),
        name="web",
        start=draw(st.floats(0, 3e10)),
        step=draw(st.floats(1, 3600)),
        clusters=clusters,
    )


@given(recordings(), st.booleans())
def test_a_file_has_the_whole_recording(found: Recording, compressed: bool) -> None:
    """Gaps stay gaps, zeros stay zeros, and the same recording has the same bytes."""
    check(found, "made")
    content = encode_recording(found, compressed=compressed)

    assert decode_recording(content, "file") == found
    assert encode_recording(found, compressed=compressed) == content


@given(recordings(), st.data())
def test_parts_make_the_whole(found: Recording, data: st.DataObject) -> None:
    """A recording that is cut in two has each step once."""
    at = data.draw(st.integers(0, found.steps))
    first, second = found.between(0, at), found.between(at, found.steps)

    for one, before, after in zip(found.clusters, first.clusters, second.clusters, strict=True):
        assert before.replicas + after.replicas == one.replicas
        assert {key: before.demand[key] + after.demand[key] for key in one.demand} == one.demand
