"""Writing scales: conflicts, other writers, and several members at once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

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


@pytest.mark.parametrize(
    ("other", "size", "writes", "error"),
    [
        pytest.param(None, 5, 1, None, id="nobody else writes"),
        pytest.param(3, 5, 2, None, id="another change is followed by another try"),
        pytest.param(5, 5, 1, None, id="the wanted size by somebody else is enough"),
        pytest.param(4, 4, 1, "from 3 to 4 by another client", id="another size supersedes, and is named"),
    ],
)
async def test_scale_is_written(other: int | None, size: int, writes: int, error: str | None) -> None:
    """A scale of 3 gets 5 replicas, unless another client has written another size after it was read."""
    api = Api(3)
    scale = await api.read()
    if other is not None:
        api.scale_to(other)
    outcome: Any = pytest.raises(Superseded, match=error) if error else nullcontext()
    with outcome:
        await set_replicas(WritableScale(api, PATH, scale, 1.0), 5)

    assert (api.replicas, api.writes) == (size, writes)


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


async def test_failure_goes_before_superseded() -> None:
    """A failed write is reported even if another cluster was scaled by another client at the same time."""
    apis = {"m1": Api(3), "m2": Api(3)}
    scales = await read_all(apis)
    apis["m1"].scale_to(9)
    apis["m2"].fail = 403

    assert (await write(scales, m1=4, m2=4)).startswith("cluster 'm2': refused")


@pytest.mark.parametrize(("lower", "moves", "grown"), [(4, False, 4), (2, True, 3), (2, False, 4)])
async def test_a_move_grows_only_for_what_is_gone(lower: int, moves: bool, grown: int) -> None:
    """If a cluster keeps its replicas, a move adds none elsewhere; a change of the size does.

    All clusters are tried, and the error names the cluster whose write failed.
    """
    apis = {"m1": Api(3), "m2": Api(3)}
    scales = await read_all(apis)
    apis["m1"].fail = 403

    assert (await write(scales, m1=lower, m2=4, moves=moves)).startswith("cluster 'm1': refused")
    assert apis["m2"].replicas == grown
