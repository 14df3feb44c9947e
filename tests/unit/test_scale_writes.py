"""Writing scales: conflicts, other writers, and several members at once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from controller.apply.plan import carry_out, error_of, to_scales
from controller.apply.scales import TRIES, Superseded, WritableScale, set_replicas
from fedhpa.api.errors import ApiError, Conflict
from fedhpa.api.wire import Scale
from fedhpa.assignment import next_scales
from fedhpa.kube.resources import get_scale
from fedhpa.kube.responses import Response
from tests.support.memory_api import MemoryApi

PATH = "/apis/apps/v1/namespaces/shop/deployments/web"
SCALE = f"{PATH}/scale"

pytestmark = pytest.mark.looptime


class Api(MemoryApi):
    """A server with one workload; `meddle` is called before each write of its scale."""

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
        """Write the scale as another client."""
        named = {"kind": "Scale", "apiVersion": "autoscaling/v1"}
        self._store(SCALE, {**named, "metadata": {"name": "web"}, "spec": {"replicas": replicas}})

    async def request(self, method: str, path: str, **more: object) -> Response:
        if method == "PUT":
            self.meddle()
        return await super().request(method, path, **more)  # type: ignore[arg-type]

    async def read(self) -> Scale:
        return await get_scale(self, PATH)


async def test_scale_is_written() -> None:
    """Without other writers, one write is enough."""
    api = Api(3)
    await set_replicas(WritableScale(api, PATH, await api.read(), 1.0), 5)

    assert (api.replicas, api.writes) == (5, 1)


async def test_other_change_is_followed_by_another_try() -> None:
    """A newer resourceVersion with the same replicas is overwritten."""
    api = Api(3)
    scale = await api.read()
    api.scale_to(3)
    await set_replicas(WritableScale(api, PATH, scale, 1.0), 5)

    assert (api.replicas, api.writes) == (5, 2)


async def test_other_size_supersedes() -> None:
    """Replicas that another client wrote stay, and the error names both values."""
    api = Api(3)
    scale = await api.read()
    api.scale_to(4)

    with pytest.raises(Superseded, match="from 3 to 4 by another client"):
        await set_replicas(WritableScale(api, PATH, scale, 1.0), 5)

    assert (api.replicas, api.writes) == (4, 1)


async def test_wanted_size_by_somebody_else_is_enough() -> None:
    """If another client already wrote the wanted replicas, nothing is written."""
    api = Api(3)
    scale = await api.read()
    api.scale_to(5)
    await set_replicas(WritableScale(api, PATH, scale, 1.0), 5)

    assert (api.replicas, api.writes) == (5, 1)


async def test_endless_conflicts_end() -> None:
    """After some attempts against a client that writes all the time, the write fails."""
    api = Api(3)
    scale = await api.read()
    api.meddle = lambda: api.scale_to(3)

    with pytest.raises(Conflict):
        await set_replicas(WritableScale(api, PATH, scale, 1.0), 5)

    assert (api.replicas, api.writes) == (3, TRIES)


async def test_refusal_is_not_repeated() -> None:
    """An error of the server is raised."""
    api = Api(3)
    scale = await api.read()
    api.fail = 403

    with pytest.raises(ApiError, match="refused"):
        await set_replicas(WritableScale(api, PATH, scale, 1.0), 5)

    assert api.writes == 1


async def read_all(apis: dict[str, Api]) -> dict[str, WritableScale]:
    return {name: WritableScale(api, PATH, await api.read(), 1.0) for name, api in apis.items()}


async def write(scales: dict[str, WritableScale], *, moves: bool = False, **shares: int) -> str:
    """Write the shares. Returns the error."""
    present = {name: scale.replicas for name, scale in scales.items()}
    return error_of(
        await carry_out(lambda done: next_scales(shares, present, done, moves=moves), to_scales(scales))
    )


async def test_only_what_changes_is_written() -> None:
    """A cluster that has its share, or does not answer, gets no write."""
    apis = {"m1": Api(3), "m2": Api(3)}
    assert not await write(await read_all(apis), m1=3, m2=5, m3=4)

    assert {name: (api.replicas, api.writes) for name, api in apis.items()} == {"m1": (3, 0), "m2": (5, 1)}


async def test_one_failure_stops_no_other_write() -> None:
    """All clusters are tried, and the error names the cluster whose write failed."""
    apis = {"m1": Api(3), "m2": Api(3)}
    scales = await read_all(apis)
    apis["m1"].fail = 403

    error = await write(scales, m1=4, m2=4)

    assert error.startswith("cluster 'm1': refused")

    assert apis["m2"].replicas == 4


async def test_failure_goes_before_superseded() -> None:
    """A failed write is reported even if another cluster was scaled by another client at the same time."""
    apis = {"m1": Api(3), "m2": Api(3)}
    scales = await read_all(apis)
    apis["m1"].scale_to(9)
    apis["m2"].fail = 403

    error = await write(scales, m1=4, m2=4)

    assert error.startswith("cluster 'm2': refused")


@pytest.mark.parametrize(("moves", "grown"), [(True, 3), (False, 4)])
async def test_a_move_grows_only_for_what_is_gone(moves: bool, grown: int) -> None:
    """If a cluster keeps its replicas, a move adds none elsewhere; a change of the size does."""
    apis = {"m1": Api(3), "m2": Api(3)}
    scales = await read_all(apis)
    apis["m1"].fail = 403

    error = await write(scales, m1=2, m2=4, moves=moves)

    assert error.startswith("cluster 'm1': refused")

    assert apis["m2"].replicas == grown
