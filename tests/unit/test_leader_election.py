"""Leader election in virtual time: at most one candidate leads, and one always does."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable

import pytest

from fedhpa.kube.leases import LeaderElector, LeaseTiming
from tests.support.memory_api import MemoryApi

PATH = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/fedhpa"
EPOCH = 1_800_000_000.0

pytestmark = pytest.mark.looptime


class Candidate:
    """An elector with a record of when it led, in seconds of the loop's clock."""

    def __init__(self, api: MemoryApi, identity: str, *, cleanup: float = 0.0) -> None:
        self._now: Callable[[], float] = asyncio.get_running_loop().time
        self.api = api
        self.terms: list[list[float]] = []
        self.changes: list[bool] = []
        self._cleanup = cleanup
        self.elector = LeaderElector(
            api,
            "kube-system",
            "fedhpa",
            identity,
            on_change=self.changes.append,
            clock=self._now,
            wall=lambda: EPOCH + self._now(),
            rng=random.Random(identity),
        )
        self.task = asyncio.create_task(self.elector.run(self.lead))

    async def lead(self) -> None:
        self.terms.append([self._now()])
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(self._cleanup)
            self.terms[-1].append(self._now())

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])


async def test_the_first_candidate_leads() -> None:
    """A missing lease is created with holder, duration, times and no transition."""
    api = MemoryApi()
    one = Candidate(api, "one")
    await asyncio.sleep(1)

    assert one.elector.leads()
    assert api.objects[PATH]["spec"] == {
        "holderIdentity": "one",
        "leaseDurationSeconds": 15,
        "renewTime": api.objects[PATH]["spec"]["renewTime"],
        "acquireTime": "2027-01-15T08:00:00.001000Z",
        "leaseTransitions": 0,
    }
    await one.stop()


async def test_renewals_come_every_retry_period() -> None:
    """A leader renews every two seconds with one request and stays the leader."""
    api = MemoryApi()
    one = Candidate(api, "one")
    await asyncio.sleep(61)

    writes = [call for call in api.calls if call == ("PUT", PATH)]
    assert 28 <= len(writes) <= 31
    assert len([call for call in api.calls if call[0] == "GET"]) == 1
    assert len(one.terms) == 1
    await one.stop()


async def test_a_follower_waits_while_the_leader_lives() -> None:
    """As long as the lease is renewed nobody else leads."""
    api = MemoryApi()
    one = Candidate(api, "one")
    await asyncio.sleep(1)
    two = Candidate(api, "two")
    await asyncio.sleep(120)

    assert (one.elector.leads(), two.elector.leads()) == (True, False)
    assert two.elector.holder == "one"
    await one.stop()
    await two.stop()


async def test_a_released_lease_is_acquired_at_once() -> None:
    """A leader that stops releases the lease; the follower acquires it within its retry period."""
    api = MemoryApi()
    one = Candidate(api, "one")
    await asyncio.sleep(1)
    two = Candidate(api, "two")
    await asyncio.sleep(10)
    await one.stop()
    ended = one.terms[0][1]
    await asyncio.sleep(5)

    assert two.elector.leads()
    assert two.terms[0][0] - ended <= 4.5
    assert api.objects[PATH]["spec"]["leaseTransitions"] == 1
    await two.stop()


async def test_a_crashed_leader_is_succeeded_after_the_lease() -> None:
    """A follower acquires a lease that is not renewed when its duration is over, by its own clock."""
    api = MemoryApi()
    one = Candidate(api, "one")
    await asyncio.sleep(1)
    two = Candidate(api, "two")
    await asyncio.sleep(9)
    one.elector._client = MemoryApi()  # its writes go nowhere now
    cut_at = asyncio.get_running_loop().time()
    await asyncio.sleep(30)

    assert two.elector.leads()
    assert 13 <= two.terms[0][0] - cut_at <= 20
    await one.stop()
    await two.stop()


async def test_a_leader_that_cannot_renew_stops_before_another_leads() -> None:
    """With a server that hangs the leader stops ten seconds after its last renewal, with 5 s to clean up."""
    api, cut_off = MemoryApi(), MemoryApi()
    one = Candidate(api, "one", cleanup=3.0)
    await asyncio.sleep(1)
    two = Candidate(api, "two")
    await asyncio.sleep(9)
    cut_off.hang = True
    one.elector._client = cut_off
    await asyncio.sleep(60)

    assert one.changes[:2] == [True, False]
    assert one.terms[0][1] < two.terms[0][0]
    await one.stop()
    await two.stop()


@pytest.mark.parametrize("status", [500, 403])
async def test_errors_of_the_server_do_not_end_the_election(status: int) -> None:
    """A candidate tries again until the server stops answering errors."""
    api = MemoryApi()
    api.fail = status
    one = Candidate(api, "one")
    await asyncio.sleep(60)
    assert not one.elector.leads()
    api.fail = None
    await asyncio.sleep(5)

    assert one.elector.leads()
    await one.stop()


async def test_a_short_outage_is_survived() -> None:
    """An outage shorter than the renew deadline does not cost the lease."""
    api = MemoryApi()
    one = Candidate(api, "one")
    await asyncio.sleep(10)
    api.fail = 503
    await asyncio.sleep(6)
    api.fail = None
    await asyncio.sleep(30)

    assert len(one.terms) == 1
    assert one.elector.leads()
    await one.stop()


async def test_a_leader_stops_when_another_holds_the_lease() -> None:
    """A leader that observes another holder stops at its next renewal, and does not release the lease."""
    api = MemoryApi()
    one = Candidate(api, "one")
    await asyncio.sleep(5)
    api._store(PATH, {**api.objects[PATH], "spec": {"holderIdentity": "thief", "leaseDurationSeconds": 60}})
    await asyncio.sleep(3)

    assert one.changes == [True, False]
    assert api.objects[PATH]["spec"]["holderIdentity"] == "thief"
    await one.stop()


async def test_run_ends_with_its_work() -> None:
    """When the work returns, `run` returns and the lease is free."""
    api = MemoryApi()
    elector = LeaderElector(
        api, "kube-system", "fedhpa", "one", clock=asyncio.get_running_loop().time, wall=lambda: EPOCH
    )

    async def brief() -> None:
        await asyncio.sleep(3)

    await elector.run(brief)

    assert api.objects[PATH]["spec"]["holderIdentity"] == ""
    assert not elector.leads()


async def test_run_raises_the_error_of_its_work() -> None:
    """An error of the work is raised from `run`, after the lease was released."""
    api = MemoryApi()
    elector = LeaderElector(
        api, "kube-system", "fedhpa", "one", clock=asyncio.get_running_loop().time, wall=lambda: EPOCH
    )

    async def failing() -> None:
        raise RuntimeError("boom")

    with pytest.raises(ExceptionGroup) as caught:
        await elector.run(failing)

    assert caught.group_contains(RuntimeError, match="boom")
    assert api.objects[PATH]["spec"]["holderIdentity"] == ""


async def test_many_candidates_never_overlap() -> None:
    """Five candidates that are stopped one after the other lead one after the other."""
    api = MemoryApi()
    candidates = [Candidate(api, str(number)) for number in range(5)]
    alive = list(candidates)
    await asyncio.sleep(5)
    while alive:
        leader = next(one for one in alive if one.elector.leads())
        await leader.stop()
        alive.remove(leader)
        await asyncio.sleep(20)

    terms = sorted(term for candidate in candidates for term in candidate.terms)
    assert len(terms) == 5
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(terms))


@pytest.mark.parametrize("timing", [(10, 10, 2), (15, 2, 2), (15, 10, 0)])
async def test_unsafe_timing_is_refused(timing: tuple[float, float, float]) -> None:
    """Durations that would let two candidates lead at once are refused."""
    with pytest.raises(ValueError, match="lease duration > renew deadline"):
        LeaseTiming(*timing)


async def test_an_interrupted_renewal_is_released() -> None:
    """A renewal that reached the server without an answer does not keep the lease from the next candidate."""
    api = MemoryApi()
    candidate = Candidate(api, "one")
    await asyncio.sleep(5)
    api._store(PATH, api.objects[PATH])
    await candidate.stop()

    assert api.objects[PATH]["spec"]["holderIdentity"] == ""
