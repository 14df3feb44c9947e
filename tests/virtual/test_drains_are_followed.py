"""A drain is followed in virtual time: its pace, its end, its timeout, and a hub that fails in between."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from fedhpa.api.errors import ConfigError
from fedhpa.cli.drain.draining import LOOK_SECONDS, SECONDS, Progress, watch
from fedhpa.cli.drain.objects import Waiting
from fedhpa.kube import Clock

pytestmark = pytest.mark.looptime(noop_cycles=0)

Answer = Sequence[Waiting] | Exception


def left(**replicas: int | None) -> list[Waiting]:
    return [Waiting(name, count, "waiting") for name, count in replicas.items()]


class Followed:
    """The answers of a hub, each after `work` seconds, and what a person saw. The last answer repeats."""

    def __init__(self, *answers: Answer, work: float = 0.0) -> None:
        self._answers = list(answers)
        self._work = work
        self.looks: list[float] = []
        self.shown: list[tuple[int, int]] = []
        self.warned: list[str] = []

    async def look(self) -> Sequence[Waiting]:
        self.looks.append(asyncio.get_running_loop().time())
        await asyncio.sleep(self._work)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def follow(self, timeout: float | None = None) -> Progress:
        time = asyncio.get_running_loop().time
        return await watch(
            "member2",
            self.look,
            lambda progress: self.shown.append((progress.moved, progress.total)),
            self.warned.append,
            clock=Clock(time, time, time, virtual=True),
            timeout=timeout,
        )


async def test_a_drain_ends_when_nothing_waits() -> None:
    """Replicas to move are the most that each object had, because an object may still have grown."""
    seen = Followed(left(web=4, api=1), left(web=5, api=1), left(web=2), left())
    last = await seen.follow()

    assert (last.moved, last.total, last.left, last.waiting) == (6, 6, 0, ())
    assert seen.shown == [(0, 5), (0, 6), (4, 6), (6, 6)]
    assert seen.looks == [0.0, SECONDS, 2 * SECONDS, 3 * SECONDS]


async def test_an_empty_cluster_is_drained_at_once() -> None:
    seen = Followed(left())

    assert (await seen.follow()).total == 0
    assert seen.looks == [0.0]


async def test_an_unknown_number_of_replicas_waits() -> None:
    """Nobody knows what a cluster runs that does not answer, so it is not empty."""
    last = await Followed(left(web=None)).follow(timeout=10.0)

    assert [one.name for one in last.waiting] == ["web"]


@pytest.mark.parametrize("timeout", [5.0, 0.5, 2.0])
async def test_the_timeout_is_kept_to_the_second(timeout: float) -> None:
    """The last look is at the end of it, so that what moved just before counts."""
    seen = Followed(left(web=4))
    last = await seen.follow(timeout)

    assert (last.left, seen.looks[-1]) == (4, timeout)
    assert asyncio.get_running_loop().time() == timeout


async def test_a_large_hub_is_asked_less_often() -> None:
    """It works for the command at most a fifth of the time."""
    seen = Followed(left(web=1), left(web=1), left(), work=5.0)
    await seen.follow()

    assert seen.looks == [0.0, 25.0, 50.0]


async def test_a_hub_that_goes_away_ends_nothing() -> None:
    """Each new problem is told once, and the command goes on."""
    away = ConfigError("cannot list FederatedHPAs: connection refused")
    seen = Followed(left(web=1), away, away, left(web=1), away, left())

    assert (await seen.follow()).moved == 1
    assert seen.warned == [f"{away}; trying again"] * 2


async def test_a_hub_that_hangs_is_a_problem_too() -> None:
    """Every look has a deadline."""
    seen = Followed(left(), work=1e9)

    with pytest.raises(ConfigError, match="did not list its objects within 60 s"):
        await seen.follow()
    assert asyncio.get_running_loop().time() == LOOK_SECONDS


async def test_a_hub_that_refuses_at_first_is_an_error() -> None:
    with pytest.raises(ConfigError, match="forbidden"):
        await Followed(ConfigError("forbidden")).follow()
