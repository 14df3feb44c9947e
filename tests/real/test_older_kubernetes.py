"""Kubernetes two minors older serves our CRDs, with the bounds that the newest one enforces.

`make nightly` runs all of tests/real on it; this is the short case of the suite.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from testbed.real.assets import find_assets
from testbed.real.controlplane import ControlPlane
from testbed.real.plane import Plane
from testbed.real.tools import OLDER_KUBERNETES, kubernetes_asked_for, tools_of
from testbed.stage import gather
from tests.conformance.layers import asking, recorded
from tests.conformance.layers.rows import objects
from tests.real.bare_server import server_with_our_crds

# The older server does not check the format. The bounds of the schema refuse these numbers too.
NOT_CHECKED = "must be of type integer with format int32"


@pytest.fixture(scope="module")
def older() -> Iterator[ControlPlane]:
    """Yields etcd and the older kube-apiserver with our CRDs. Without its programs the tests are skipped."""
    assets = find_assets(OLDER_KUBERNETES)
    if assets is None:
        pytest.skip(f"not built: make real-plane KUBERNETES={OLDER_KUBERNETES}")
    with server_with_our_crds(assets, "older") as plane:
        yield plane


async def test_the_older_server_gives_the_recorded_answers(older: ControlPlane) -> None:
    """The CRDs alone refuse and admit the same objects there, in the words of admission-layers.md. Only
    numbers beyond 32 bits have one error there, not two.
    """
    async with older.api() as api:
        version = (await api.get("/version"))["gitVersion"]
        answers = await asking.answers(api, objects())

    assert version == tools_of(OLDER_KUBERNETES)[0].version
    known = recorded.read()["answers"]
    assert {name for name, errors in known.items() if errors and not answers[name]} == set()
    assert alike(answers) == alike(known)


def alike(answers: dict[str, list[str]]) -> dict[str, list[str]]:
    return {name: [each for each in errors if NOT_CHECKED not in each] for name, errors in answers.items()}


async def test_the_planes_run_the_kubernetes_that_was_asked_for(plane: Plane) -> None:
    """Hub and members run the version of FEDHPA_KUBERNETES, or the newest one."""

    async def version(one: ControlPlane) -> str:
        async with one.api() as api:
            return str((await api.get("/version"))["gitVersion"])

    found = await gather(*(version(one) for one in (plane.hub, *plane.members.values())))

    assert set(found) == {tools_of(kubernetes_asked_for())[0].version}
