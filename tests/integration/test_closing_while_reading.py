"""A client is closed or gets another configuration during a read."""

from __future__ import annotations

import pytest

from fedhpa.api.errors import ApiError
from fedhpa.kube.client import ApiClient
from fedhpa.kube.transport import UNREACHABLE
from tests.support.fakeapi import PATIENCE, PODS, fake_api, pod

WATCH = "/api/v1/pods"
PARAMS: dict[str, str | int | bool] = {"watch": True, "resourceVersion": "0"}


@pytest.mark.parametrize("reconfigured", [False, True])
async def test_watch_that_is_closed_between_two_lines_is_unreachable(reconfigured: bool) -> None:
    """The reader's next read fails as it does on any broken connection."""
    async with fake_api() as api, ApiClient(api.config()) as client:
        api.put(PODS, pod("web-0"))
        lines = client.watch(WATCH, params=PARAMS, idle=PATIENCE)
        while not await anext(lines):  # the answer's head
            pass
        if reconfigured:
            await client.use(api.config(name="other"))
        else:
            await client.close()

        with pytest.raises(ApiError) as broken:
            await anext(lines)

    assert broken.value.reason == UNREACHABLE
