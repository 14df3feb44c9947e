"""Renews the tokens of members before they expire, and stores them in their Secrets on the hub.

Only Secrets with the label of `fedhpa join` are renewed. The process that keeps the Clusters does so. Its
only memory is when to look at which Secret, so another process can take over at any time.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec
import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge

from controller.failure_log import FailureLog, Lines
from fedhpa.api import tokens
from fedhpa.api.errors import ApiError, Conflict, FedHPAError, InvalidObject, MemberUnavailable
from fedhpa.api.known_cluster import API_VERSION, KIND
from fedhpa.api.membership import RENEWED, RENEWED_VALUE
from fedhpa.api.texts import one_line
from fedhpa.api.times import format_time
from fedhpa.kube import (
    UNAUTHORIZED,
    ApiClient,
    Clock,
    EventRecorder,
    InvolvedObject,
    StaticCredentials,
    contain,
    resource_path,
    supervise,
)
from fedhpa.members import Member, MemberRegistry, metrics_key, secret_key

# Seconds between two searches for members whose Secret is due.
PERIOD_SECONDS: Final = 10.0
# A Secret is read again after this long, because somebody may have written another token.
IDLE_SECONDS: Final = 600.0
# After a failure: a twentieth of the time that is left, within these bounds.
RETRY_SECONDS: Final = (10.0, 300.0)
RETRY_SHARE: Final = 20
HUB_SECONDS: Final = 10.0
MAX_ANSWER: Final = 64 * 1024
# Members that are renewed at once. Each of them may cost its deadline.
MAX_AT_ONCE: Final = 8
EVENT: Final = "TokenNotRenewed"
LINES: Final = Lines("token not renewed", "token still not renewed", "token is renewed again")
MANAGER: Final = "fedhpa-controller"
RESULTS: Final = ("renewed", "failed")

log = structlog.get_logger(__name__)


class Token(NamedTuple):
    """A member's token: its Cluster, and namespace and name of the Secret on the hub."""

    cluster: str
    namespace: str
    name: str


class TokenMetrics:
    """The series in one registry. Only the process that renews shows expiries."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._expires = Gauge(
            "fedhpa_controller_member_token_expiration_timestamp_seconds",
            "When the token of a member's Secret expires, as POSIX seconds. Only for renewed tokens.",
            ("cluster", "secret"),
            registry=registry,
        )
        self._due = Gauge(
            "fedhpa_controller_member_token_renewal_due_timestamp_seconds",
            "When a member's token is due to be renewed, as POSIX seconds. Later than that, renewals fail.",
            ("cluster", "secret"),
            registry=registry,
        )
        self._renewals = Counter(
            "fedhpa_controller_member_token_renewals",
            "Attempts to renew the token of a member: renewed or failed.",
            ("result",),
            registry=registry,
        )
        for result in RESULTS:
            self._renewals.labels(result)

    def count(self, result: str) -> None:
        """Counts one attempt, with one of RESULTS."""
        self._renewals.labels(result).inc()

    def show(self, token: Token, life: tokens.Life) -> None:
        """Shows when a token expires, and when it is due to be renewed."""
        self._expires.labels(token.cluster, token.name).set(life.expires)
        self._due.labels(token.cluster, token.name).set(life.renew_at)

    def forget(self, token: Token) -> None:
        """Drops the series of a token."""
        for gauge in (self._expires, self._due):
            gauge.remove_by_labels({"cluster": token.cluster, "secret": token.name})

    def clear(self) -> None:
        """Drops the series of all clusters."""
        for gauge in (self._expires, self._due):
            gauge.clear()


class TokenRenewer:
    """Renews tokens while `run` runs."""

    def __init__(
        self,
        hub: ApiClient,
        members: MemberRegistry,
        events: EventRecorder,
        metrics: TokenMetrics,
        *,
        clock: Clock,
    ) -> None:
        self._hub = hub
        self._members = members
        self._events = events
        self._metrics = metrics
        self._clock = clock
        self._failures: FailureLog[Token] = FailureLog(
            LINES, clock.monotonic, lambda token: {"cluster": token.cluster, "secret": token.name}
        )
        self._failing: dict[Token, str] = {}
        # When to look at a Secret, and when that was done last.
        self._next: dict[Token, float] = {}
        self._last: dict[Token, float] = {}

    async def run(self) -> None:
        """Renews tokens until cancelled."""
        unsubscribe = self._members.subscribe(self._touch)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(supervise("token-reminders", self._failures.remind))
                while True:
                    await self.look()
                    await asyncio.sleep(PERIOD_SECONDS)
        finally:
            unsubscribe()
            self._metrics.clear()

    async def look(self) -> None:
        """Looks at each Secret that is due, and renews its token if that is due too."""
        members = {
            token: member for member in self._members.registered.values() for token in tokens_of(member)
        }
        for token in self._last.keys() - members.keys():
            self._forget(token)
        now = self._clock.monotonic()
        due = [token for token in members if self._next.get(token, now) <= now]
        slots = asyncio.Semaphore(MAX_AT_ONCE)

        async def one(token: Token) -> None:
            async with slots:
                look = functools.partial(self._look_at, members[token], token)
                wait = await contain("renew-token", look, _retry, cluster=token.cluster, name=token.name)
                self._last[token] = self._clock.monotonic()
                self._next[token] = self._clock.monotonic() + wait

        async with asyncio.TaskGroup() as group:
            for token in due:
                group.create_task(one(token))

    def _touch(self, name: str) -> None:
        """Looks soon at the Secrets of a member that was changed. A member may change at every probe."""
        for token in [known for known in self._last if known.cluster == name]:
            soon = self._last[token] + PERIOD_SECONDS
            self._next[token] = min(self._next.get(token, soon), soon)

    def _forget(self, token: Token) -> None:
        for known in (self._next, self._last, self._failing):
            known.pop(token, None)
        self._failures.forget(token)
        self._metrics.forget(token)

    async def _look_at(self, member: Member, key: Token) -> float:
        """Renews a token if that is due. Returns the seconds after which to look again."""
        path = resource_path("v1", "secrets", key.namespace, key.name)
        try:
            secret = await self._hub.get_json(path, deadline=HUB_SECONDS)
        except FedHPAError as error:  # the Cluster's condition tells of a Secret that cannot be read
            log.debug("secret not read", cluster=member.name, error=str(error))
            return RETRY_SECONDS[1]
        metadata = _mapping(secret.get("metadata"))
        annotations = {str(k): str(v) for k, v in _mapping(metadata.get("annotations")).items()}
        if _mapping(metadata.get("labels")).get(RENEWED) != RENEWED_VALUE:
            self._metrics.forget(key)
            return IDLE_SECONDS
        now, token = self._clock.wall(), _token(secret)
        life = tokens.life_of(token, annotations)
        if life is not None:
            self._metrics.show(key, life)
            if now < life.renew_at:
                self._well(key)
                return min(life.renew_at - now, IDLE_SECONDS)
        left = IDLE_SECONDS if life is None else life.expires - now
        if left <= 0:
            ended = format_time(int(now + left))
            self._failed(
                key,
                f"its token expired at {ended}: run fedhpa join {member.name} again",
                counts=False,
            )
            return IDLE_SECONDS
        try:
            expires = await self._renew(member, path, secret, token, annotations)
        except Conflict:
            return PERIOD_SECONDS  # somebody wrote the Secret at the same time
        except FedHPAError as error:
            self._failed(key, _reason(error))
            return min(max(left / RETRY_SHARE, RETRY_SECONDS[0]), RETRY_SECONDS[1])
        self._metrics.count("renewed")
        self._metrics.show(key, tokens.Life(now, expires))
        self._well(key)
        log.info("token renewed", cluster=member.name, secret=key.name, until=format_time(int(expires)))
        return PERIOD_SECONDS

    async def _renew(
        self,
        member: Member,
        path: str,
        secret: Mapping[str, Any],
        token: str,
        annotations: Mapping[str, str],
    ) -> float:
        """Stores a new token, and returns when it expires. Raises FedHPAError; then nothing was written."""
        account, seconds = tokens.account_of(token, annotations), tokens.lifetime_of(annotations)
        namespace, _, name = account.partition("/")
        answer = await member.client.request(
            "POST",
            resource_path("v1", "serviceaccounts", namespace, name, "token"),
            body=msgspec.json.encode(tokens.token_request(seconds)),
            limit=MAX_ANSWER,
        )
        now = self._clock.wall()
        issued = tokens.issued_token(answer.body, account, now)
        await _check(member, issued.token)
        metadata = dict(_mapping(secret.get("metadata")))
        metadata["annotations"] = {
            **_mapping(metadata.get("annotations")),
            **tokens.annotations_of(issued, account, seconds, now),
        }
        data = {**_mapping(secret.get("data")), "token": base64.b64encode(issued.token.encode()).decode()}
        await self._hub.put(
            path, {**secret, "metadata": metadata, "data": data}, manager=MANAGER, deadline=HUB_SECONDS
        )
        return issued.expires

    def _failed(self, token: Token, reason: str, *, counts: bool = True) -> None:
        """Tells of a failure. One without an attempt is not counted."""
        if counts:
            self._metrics.count("failed")
        self._failures.failing(token, EVENT, reason)
        if self._failing.get(token) != reason:
            self._failing[token] = reason
            about = InvolvedObject(API_VERSION, KIND, token.cluster, "")
            where = f"Secret {token.namespace}/{token.name}"
            self._events.event(about, "Warning", EVENT, f"the token of {where} is not renewed: {reason}")

    def _well(self, token: Token) -> None:
        self._failing.pop(token, None)
        self._failures.well(token)


def tokens_of(member: Member) -> list[Token]:
    """Returns the tokens of a member: the controller's and the adapter's, whether they exist or not."""
    keys = (secret_key(member.cluster), metrics_key(member.cluster))
    return [Token(member.name, *key) for key in keys if key is not None]


async def _check(member: Member, token: str) -> None:
    """Raises InvalidObject unless the member is ready for a request with this token."""
    config = dataclasses.replace(
        member.client.config, credentials=StaticCredentials(f"Bearer {token}"), qps=0.0
    )
    async with ApiClient(config, deadline=member.client.deadline) as api:
        try:
            await api.request("GET", "/readyz", limit=MAX_ANSWER)
        except ApiError as error:
            if error.status == UNAUTHORIZED:
                raise InvalidObject("the member refuses the token that it has just issued") from error
            raise InvalidObject("the member did not confirm its new token") from error


def _token(secret: Mapping[str, Any]) -> str:
    """Returns the token of a Secret; empty if it has none that can be read."""
    encoded = _mapping(secret.get("data")).get("token")
    try:
        return base64.b64decode(str(encoded or ""), validate=True).decode().strip()
    except (binascii.Error, ValueError):
        return ""


def _reason(error: FedHPAError) -> str:
    if isinstance(error, MemberUnavailable):
        return error.reason
    return one_line(str(error))


def _retry(_: str) -> float:
    """The wait after an unexpected error, which `contain` has reported."""
    return RETRY_SECONDS[1]


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
