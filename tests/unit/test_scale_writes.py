"""Writing scales: conflicts, other writers, and several members at once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from controller.federatedhpa.scale_writes import TRIES, MemberScale, Superseded, write_assignment, write_scale
from fedhpa.api.errors import ApiError, Conflict, FedHPAError
from fedhpa.api.wire import Scale
from fedhpa.decision import Assignment
from fedhpa.kube.responses import Response
from fedhpa.kube.writes import get_scale
from tests.support.memory_api import MemoryApi

PATH = "/apis/apps/v1/namespaces/shop/deployments/web"
SCALE = f"{PATH}/scale"

pytestmark = pytest.mark.looptime


class Api(MemoryApi):
    """One workload; `meddle` is called before each write of its scale."""

    def __init__(self, replicas: int) -> None:
        super().__init__()
        self.meddle: Callable[[], None] = lambda: None
        self.scale_to(replicas)

    @property
    def replicas(self) -> int:
        return int(self.objects[SCALE]["spec"]["replicas"])

    @property
    def writes(self) -> int:
        return sum(method == "PUT" for method, _ in self.calls)

    def scale_to(self, replicas: int) -> None:
        """Write as somebody else."""
        self._store(SCALE, {"metadata": {"name": "web"}, "spec": {"replicas": replicas}})

    async def request(self, method: str, path: str, **more: object) -> Response:
        if method == "PUT":
            self.meddle()
        return await super().request(method, path, **more)  # type: ignore[arg-type]

    async def read(self) -> Scale:
        return await get_scale(self, PATH)


async def test_scale_is_written() -> None:
    """Undisturbed, one write is enough."""
    api = Api(3)
    await write_scale(api, PATH, await api.read(), 5, 1.0)

    assert (api.replicas, api.writes) == (5, 1)


async def test_other_change_is_followed_by_another_try() -> None:
    """A newer version with the same size is written over."""
    api = Api(3)
    scale = await api.read()
    api.scale_to(3)
    await write_scale(api, PATH, scale, 5, 1.0)

    assert (api.replicas, api.writes) == (5, 2)


async def test_other_size_supersedes() -> None:
    """A size that somebody else chose stays, and both sizes are told."""
    api = Api(3)
    scale = await api.read()
    api.scale_to(4)

    with pytest.raises(Superseded, match="from 3 to 4 by somebody else"):
        await write_scale(api, PATH, scale, 5, 1.0)

    assert (api.replicas, api.writes) == (4, 1)


async def test_wanted_size_by_somebody_else_is_enough() -> None:
    """Who finds the wanted size there has nothing to write."""
    api = Api(3)
    scale = await api.read()
    api.scale_to(5)
    await write_scale(api, PATH, scale, 5, 1.0)

    assert (api.replicas, api.writes) == (5, 1)


async def test_endless_conflicts_end() -> None:
    """Somebody who writes all the time is given in to after some tries."""
    api = Api(3)
    scale = await api.read()
    api.meddle = lambda: api.scale_to(3)

    with pytest.raises(Conflict):
        await write_scale(api, PATH, scale, 5, 1.0)

    assert (api.replicas, api.writes) == (3, TRIES)


async def test_refusal_is_not_repeated() -> None:
    """What the server refuses is refused."""
    api = Api(3)
    scale = await api.read()
    api.fail = 403

    with pytest.raises(ApiError, match="refused"):
        await write_scale(api, PATH, scale, 5, 1.0)

    assert api.writes == 1


async def write_to(apis: dict[str, Api], **shares: int) -> None:
    targets = {name: MemberScale(api, PATH, await api.read()) for name, api in apis.items()}
    await write_assignment(targets, [Assignment(name, count) for name, count in shares.items()], 1.0)


async def test_only_what_changes_is_written() -> None:
    """A share that runs already is left alone, and one of a cluster that is away is held."""
    apis = {"m1": Api(3), "m2": Api(3)}
    await write_to(apis, m1=3, m2=5, m3=4)

    assert {name: (api.replicas, api.writes) for name, api in apis.items()} == {"m1": (3, 0), "m2": (5, 1)}


async def test_one_failure_stops_no_other_write() -> None:
    """All are tried; the error names the cluster that did not take its share."""
    apis = {"m1": Api(3), "m2": Api(3)}
    targets = {name: MemberScale(api, PATH, await api.read()) for name, api in apis.items()}
    apis["m1"].fail = 403

    with pytest.raises(FedHPAError, match="cluster 'm1': refused"):
        await write_assignment(targets, [Assignment("m1", 4), Assignment("m2", 4)], 1.0)

    assert apis["m2"].replicas == 4


async def test_failure_goes_before_superseded() -> None:
    """Who must mend something is told, though somebody else scaled another cluster at the same time."""
    apis = {"m1": Api(3), "m2": Api(3)}
    targets = {name: MemberScale(api, PATH, await api.read()) for name, api in apis.items()}
    apis["m1"].scale_to(9)
    apis["m2"].fail = 403

    with pytest.raises(FedHPAError, match="cluster 'm2': refused"):
        await write_assignment(targets, [Assignment("m1", 4), Assignment("m2", 4)], 1.0)
