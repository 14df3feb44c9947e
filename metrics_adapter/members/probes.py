"""Probes of the members' metrics APIs, so that a member's health does not depend on what callers request.

A failed request of a caller only brings the next probe forward.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fedhpa.api.errors import ApiError, FedHPAError
from fedhpa.kube import FORBIDDEN, group_path, report_failure
from fedhpa.members import Member
from metrics_adapter.apis import API_VERSION

# The discovery document of the API. A member's hub asks the metrics server for it, so it shows both.
PATH = group_path(API_VERSION)
PERIOD_SECONDS = 15.0
# A member that failed to answer a caller is probed at once, but not more often than this.
SUSPECT_SECONDS = 3.0
CHECK_SECONDS = 1.0
MAX_CONCURRENT = 32


@dataclass(frozen=True)
class Probe:
    """The outcome of one probe and its duration in seconds."""

    ok: bool
    seconds: float


class MemberProbes:
    """Probes each available member every 15 seconds and passes the outcomes on.

    Members that are unavailable are probed by their own task, until their API servers answer.
    """

    def __init__(
        self,
        members: Callable[[], Mapping[str, Member]],
        probed: Callable[[str, Probe], None],
        clock: Callable[[], float],
    ) -> None:
        self._members = members
        self._probed = probed
        self._clock = clock
        self._next: dict[Member, float] = {}
        self._began: dict[Member, float] = {}

    def suspect(self, cluster: str) -> None:
        """Brings the next probe of a member forward, because it failed to answer a caller."""
        member = self._members().get(cluster)
        if member is not None and member in self._next:
            soon = self._began.get(member, float("-inf")) + SUSPECT_SECONDS
            self._next[member] = min(self._next[member], soon)

    async def run(self) -> None:
        """Probes the members until cancelled."""
        while True:
            await self.probe_due()
            await asyncio.sleep(CHECK_SECONDS)

    async def probe_due(self) -> None:
        """Probes the members whose time has come, all at once."""
        members = self._members()
        for gone in self._next.keys() - set(members.values()):
            del self._next[gone]
            self._began.pop(gone, None)
        now = self._clock()
        due = [
            member
            for _, member in sorted(members.items())
            if self._next.get(member, now) <= now and member.unavailable() is None
        ]
        slots = asyncio.Semaphore(MAX_CONCURRENT)
        await asyncio.gather(*(self._probe(member, slots) for member in due))

    async def _probe(self, member: Member, slots: asyncio.Semaphore) -> None:
        async with slots:
            began = self._began[member] = self._clock()
            # Probes of many members, which joined together, drift apart.
            self._next[member] = began + PERIOD_SECONDS * random.uniform(0.9, 1.1)
            ok = await _answers(member)
            self._probed(member.name, Probe(ok, self._clock() - began))


async def _answers(member: Member) -> bool:
    try:
        # A caller's request that hangs opens the circuit breaker of the API, which the probe must not meet.
        await member.client.probe(PATH)
    except ApiError as error:
        return error.status == FORBIDDEN  # It answers; the right to read discovery says nothing of metrics.
    except FedHPAError:
        return False
    except Exception as error:
        report_failure("metrics-probe", error, cluster=member.name)
        return False
    return True
