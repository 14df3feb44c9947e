"""The polling helper of the tests on real planes retries patiently and then fails strictly."""

from __future__ import annotations

import asyncio

import pytest

from fedhpa.api.errors import ApiError
from testbed.stage.waiting import NotInTime
from tests.real.settling import settled

pytestmark = pytest.mark.looptime(noop_cycles=0)


async def test_the_first_expected_result_is_returned() -> None:
    """An error in between is retried."""
    answers = iter((403, ApiError("busy", status=500, reason=""), 200, 404))

    async def request() -> int:
        answer = next(answers)
        if isinstance(answer, ApiError):
            raise answer
        return answer

    assert await settled(request, lambda status: status == 200, seconds=60) == 200
    assert asyncio.get_running_loop().time() < 3


async def test_after_the_deadline_the_last_result_is_returned() -> None:
    """After the timeout the last answer is returned, or an error if there was none."""

    async def wrong() -> int:
        return 403

    async def silent() -> int:
        raise ApiError("gone", status=503, reason="")

    assert await settled(wrong, lambda status: status == 200, seconds=60) == 403
    assert asyncio.get_running_loop().time() >= 60

    with pytest.raises(NotInTime, match="gone"):
        await settled(silent, lambda status: status == 200, seconds=60)
