"""What the tests on real planes ask by: patient, and in the end as strict as the assertion after it."""

from __future__ import annotations

import asyncio

import pytest

from fedhpa.api.errors import ApiError
from testbed.stage.waiting import NotInTime
from tests.real.settling import settled

pytestmark = pytest.mark.looptime(noop_cycles=0)


async def test_the_first_answer_that_holds_is_given() -> None:
    """An error in between counts as no answer yet."""
    answers = iter((403, ApiError("busy", status=500, reason=""), 200, 404))

    async def ask() -> int:
        answer = next(answers)
        if isinstance(answer, ApiError):
            raise answer
        return answer

    assert await settled(ask, lambda status: status == 200, seconds=60) == 200
    assert asyncio.get_running_loop().time() < 3


async def test_what_never_holds_is_given_as_it_is_for_the_test_to_fail_on() -> None:
    """After the whole time, the last answer; if there never was one, that is said."""

    async def wrong() -> int:
        return 403

    async def silent() -> int:
        raise ApiError("gone", status=503, reason="")

    assert await settled(wrong, lambda status: status == 200, seconds=60) == 403
    assert asyncio.get_running_loop().time() >= 60

    with pytest.raises(NotInTime, match="gone"):
        await settled(silent, lambda status: status == 200, seconds=60)
