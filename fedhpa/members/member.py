"""One member cluster: its client, its probes and its readiness."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from fedhpa.api.default_values import MEMBER_DEADLINE_SECONDS
from fedhpa.api.errors import ApiError, InvalidObject, MemberUnavailable
from fedhpa.api.identity import short_uid, valid_uid
from fedhpa.api.known_cluster import known_cluster
from fedhpa.kube import FORBIDDEN, ApiConfig, Backoff, ResourceMapper, report_failure, supervise
from fedhpa.kube.config import ConnectorFactory
from fedhpa.members.client import PROBE_PATH, MemberClient, MemberToken
from fedhpa.members.cluster import (
    READY,
    Access,
    Cluster,
    ForeignCluster,
    api_config,
)
from fedhpa.members.identity import IdentityReader

log = structlog.get_logger(__name__)

# The reasons that FedHPA writes into a Ready condition. A condition with any other reason comes from another
# controller, which then decides (Karmada writes ClusterReady, ClusterNotReady, ClusterNotReachable).
PROBE_SUCCEEDED = "FedHPAProbeSucceeded"
PROBE_FAILED = "FedHPAProbeFailed"
ACCESS_INVALID = "FedHPAAccessInvalid"
NOT_PROBED = "FedHPANotProbed"
DUPLICATE = "FedHPADuplicate"
OWN_REASONS = frozenset((PROBE_SUCCEEDED, PROBE_FAILED, ACCESS_INVALID, NOT_PROBED, DUPLICATE))

# The supervised tasks of this package, in addition to those of fedhpa.kube.
TASKS = (
    "clusters-watch",
    "exec-plugin",
    "member-access",
    "member-close",
    "member-identity",
    "member-list",
    "member-listener",
    "member-probe",
    "member-watch",
    "notes-watch",
    "profiles-watch",
    "provider-file",
    "read-member-hpa",
    "secret-read",
    "secret-watch",
)
PROBE_SECONDS = 5.0
# The longest time between two probes of an unavailable member, so that it is soon used when it is back.
RETRY_SECONDS = 5.0
# The shortest time between two lines about another reason.
REASON_SECONDS = 60.0
# The shortest time between two probes.
PROBE_GAP_SECONDS = 0.1
# The address while there is no access: an invalid one, and nothing is sent to it.
NOWHERE = "https://invalid."


@dataclass(frozen=True)
class MemberState:
    """The readiness of a member. Times are POSIX seconds; `last_seen` is None if it never answered.

    `message` is for conditions, Warning headers and logs; "" while ready.
    """

    ready: bool
    reason: str
    message: str
    since: float
    last_seen: float | None


class Member:
    """A registered cluster. The object lives as long as the registration.

    Calls go through `client` and raise MemberUnavailable while the member is unavailable. `mapper` is its
    discovery. `cluster` is the last observed Cluster, and `known` are its fields that affinities read.
    `same_as` is the name that counts in place of this one because both are one cluster, "" if this one
    counts. `short_uid` is a hash of the UID for records, "" until the member has answered the question for
    it.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        deadline: float = MEMBER_DEADLINE_SECONDS,
        probe_period: float = PROBE_SECONDS,
        reread: Callable[[], Awaitable[None]],
        on_change: Callable[[], None] = lambda: None,
        qps: float = 0.0,
        burst: int = 0,
        connector: ConnectorFactory | None = None,
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        self.name = cluster.metadata.name
        # A sound member is ready while its breaker is closed, as far as its access has not changed since.
        self.closed = self.is_sound = False
        self.same_as = self.short_uid = ""
        # Two objects of one source register the cluster.
        self.stands_back_in_error = False
        self._note(cluster)
        # The access to the member; None while it is unknown.
        self.access: Access | None = None
        self._token = MemberToken("", reread, clock)
        self._problem: str | None = "its credentials were not read yet"
        self._pending = True
        self._reread = reread
        self._on_change = on_change
        self._probe_period = probe_period
        self._qps, self._burst = qps, burst
        self._connector = connector
        self._clock = clock
        self._wall = wall
        self._born = clock()
        self._wake = asyncio.Event()
        self._probed = False
        # The duration of the last probe, also of one that failed; None before the first.
        self.probe_seconds: float | None = None
        self._logged_at = clock()
        self._readiness = (False, NOT_PROBED, "not asked yet")
        self._since = wall()
        self._log = log.bind(cluster=self.name)
        self.client = MemberClient(
            ApiConfig(server=NOWHERE, name=self.name),
            deadline=deadline,
            refusal=self._refusal,
            suspect=self._wake.set,
            clock=clock,
        )
        self.mapper = ResourceMapper(self.client, clock=clock)
        self._identity = IdentityReader(self.client, self._note_identity)

    @property
    def uid(self) -> str:
        """The UID of the cluster: of its namespace kube-system, else Cluster.spec.id; "" if unknown."""
        return self._identity.uid or self._stored_uid

    @property
    def answers(self) -> bool:
        """True if the member answers, or was not asked yet."""
        ready, reason, _ = self._reached()
        return ready or self._pending or reason == NOT_PROBED

    @property
    def duplicate(self) -> str:
        """The sentence that says why this name does not count; "" if it counts."""
        if not self.same_as:
            return ""
        return (
            f"{self.name} is the same cluster as {self.same_as} (UID {self.uid}) and is left out: unregister "
            f"one of them, for example with: fedhpa unjoin {self.name}"
        )

    @property
    def ready(self) -> bool:
        """True if the member is ready, as in `state`, at less cost."""
        rare = self._foreign is not None or self._problem is not None or self.same_as
        return self._evaluate()[0] if rare else self._probed and self.client.breaker.reason is None

    @property
    def state(self) -> MemberState:
        """The readiness of the member, with its reason."""
        (ready, reason, message), answered = self._evaluate(), self.client.answered_at
        seen = None if answered == float("-inf") else self._wall() - (self._clock() - answered)
        return MemberState(ready, reason, message, self._since, seen)

    @property
    def settled(self) -> bool:
        """True once the member has answered also who it is, failed, or had its deadline to answer."""
        if self._problem is not None and not self._pending:
            return True
        if self._probed and (self._identity.asked or self.client.breaker.reason is not None):
            return True
        return self._clock() - self._born >= self.client.deadline

    def unavailable(self) -> str | None:
        """Returns why the member is unavailable now, as in MemberUnavailable; None if it is available."""
        return self._refusal() or self.client.breaker.reason

    def check(self) -> None:
        """Raises MemberUnavailable if the member is unavailable now."""
        reason = self.unavailable()
        if reason is not None:
            raise MemberUnavailable(self.name, reason)

    async def observe(self, cluster: Cluster, access: Access | str, *, pending: bool = False) -> None:
        """Apply the present Cluster and its access, or the reason why there is none (`pending`: not yet)."""
        self._note(cluster)
        if isinstance(cluster, ForeignCluster):
            self.client.namespaces = cluster.namespaces
        self._pending = pending
        if isinstance(access, str):
            await self._lose_access(access)
        elif access != self.access:
            await self._use(access)
        self._refresh()

    async def run(self) -> None:
        """Probe until cancelled, then close all connections. Raises only CancelledError."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(supervise("member-identity", self._identity.run, cluster=self.name))
                await supervise(
                    "member-probe",
                    self._probe_forever,
                    on_failure=self.fail,
                    backoff=Backoff(PROBE_GAP_SECONDS * 2, RETRY_SECONDS),
                    cluster=self.name,
                )
        finally:
            self.closed = True
            try:
                await self.client.close()
            except Exception as error:
                report_failure("member-close", error, cluster=self.name)

    def fail(self, reason: str) -> None:
        """Count the member as unavailable for an unexpected failure, until a probe succeeds."""
        self._probed = True
        self.client.breaker.failure(reason, at_once=True)
        self._refresh()

    def stand_back(self, other: str, *, expected: bool = False) -> None:
        """Leave the cluster to another name; "" to count again. It is `expected` of two sources."""
        self.same_as = other
        self.stands_back_in_error = bool(other) and not expected
        self._refresh()

    async def _probe_forever(self) -> None:
        retry = Backoff(PROBE_GAP_SECONDS * 2, min(self._probe_period, RETRY_SECONDS))
        while True:
            self._wake.clear()
            if self.access is not None:
                await self._probe()
            well = not self.client.breaker.failures
            if well:
                retry.reset()
            await self._pause(self._probe_period * random.uniform(0.9, 1.1) if well else retry.next())

    async def _lose_access(self, problem: str) -> None:
        self._problem = problem
        if self.access is not None:
            self.access = None
            await self.client.use(ApiConfig(server=NOWHERE, name=self.name))

    async def _use(self, access: Access) -> None:
        if self.access is not None and self.access == dataclasses.replace(access, token=self.access.token):
            self._token.replace(access.token)
            self.access = access
            self._log.info("member token changed")
            self._wake.set()
            return
        token = MemberToken(access.token, self._reread, self._clock)
        try:
            config = api_config(self.name, access, token, self._connector, qps=self._qps, burst=self._burst)
        except InvalidObject as error:
            await self._lose_access(str(error))
            return
        changed = self.access is not None
        self._token = token
        self.access, self._problem, self._probed = access, None, False
        self._identity.asked = False
        self.short_uid = ""
        await self.client.use(config)
        if changed:
            self._log.info("member access changed", endpoint=access.endpoint)
        self._wake.set()

    async def _probe(self) -> None:
        generation = self.client.generation
        reason: str | None = None
        began = self._clock()
        try:
            await self.client.probe()
        except ApiError as error:
            reason = self._verdict(error)
        finally:
            self.probe_seconds = self._clock() - began
        if generation != self.client.generation:
            return  # the access has changed meanwhile
        if reason is None and (self.client.breaker.reason is not None or not self._probed):
            self._identity.due()
        self.client.probed(reason)
        if reason is not None and not self._probed and self.client.breaker.reason is None:
            # The member has never answered: the first failed probe opens the breaker.
            self.client.breaker.failure(reason, at_once=True)
        self._probed = True
        self._refresh()

    def _verdict(self, error: ApiError) -> str | None:
        """Returns why a failed probe means that the member is unavailable; None if it does not."""
        away = self.client.explain(error, self.client.deadline)
        if away is not None:
            return away
        if error.status == FORBIDDEN:
            return None  # it answers; a missing permission for /readyz says nothing about its health
        return f"its {PROBE_PATH} answers HTTP {error.status}"

    async def _pause(self, seconds: float) -> None:
        await asyncio.sleep(PROBE_GAP_SECONDS)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()

    def _refusal(self) -> str | None:
        """Returns why no call may be made: no access, or another controller's Ready condition."""
        if self.closed:
            return "it is no longer registered"
        if self._problem is not None:
            return self._problem
        if self._foreign is not None and not self._foreign[0]:
            return self._foreign[2]
        return None

    def _note(self, cluster: Cluster) -> None:
        """Keep the Cluster, and what every call and every reconcile reads of it."""
        self.cluster, self.known = cluster, known_cluster(cluster)
        self._foreign = _foreign_condition(cluster)
        self._stored_uid = valid_uid(cluster.spec.id)

    def _note_identity(self) -> None:
        self.short_uid = short_uid(self.uid)
        self._on_change()

    def _evaluate(self) -> tuple[bool, str, str]:
        found = self._reached()
        return (False, DUPLICATE, self.duplicate) if found[0] and self.same_as else found

    def _reached(self) -> tuple[bool, str, str]:
        if self._problem is not None:
            return False, ACCESS_INVALID, self._problem
        if self._foreign is not None:
            return self._foreign
        reason = self.client.breaker.reason
        if reason is not None:
            return False, PROBE_FAILED, reason
        if not self._probed:
            return False, NOT_PROBED, "not asked yet"
        return True, PROBE_SUCCEEDED, ""

    def _refresh(self) -> None:
        """Log a change of readiness and notify the registry."""
        reached = self._probed if self._foreign is None else self._foreign[0]
        self.is_sound = self._problem is None and not self.same_as and reached
        before, now = self._readiness, self._evaluate()
        if before == now:
            return
        self._readiness = now
        if before[0] != now[0]:
            self._since = self._wall()
        if not now[0] and (self._pending or now[1] == NOT_PROBED):
            self._log.debug("member not ready yet", message=now[2])  # its first answer follows
        elif before[:2] != now[:2]:
            self._log.info("member ready" if now[0] else "member not ready", reason=now[1], message=now[2])
            self._logged_at = self._clock()
        else:
            # The newest reason is the useful one. Texts that change at each probe must not fill the log.
            due = self._clock() - self._logged_at >= REASON_SECONDS
            self._logged_at = self._clock() if due else self._logged_at
            write = self._log.info if due else self._log.debug
            write("member still not ready", reason=now[1], message=now[2])
        self._on_change()


def _foreign_condition(cluster: Cluster) -> tuple[bool, str, str] | None:
    """Returns readiness, reason and message of another controller's Ready condition; None without one."""
    condition = cluster.condition(READY)
    if condition is None or condition.reason in OWN_REASONS:
        return None
    ready = condition.status == "True"
    text = condition.message or condition.reason or "no reason given"
    return ready, condition.reason, "" if ready else f"its Ready condition is {condition.status}: {text}"
