"""Metrics from the members' own metrics APIs, requested from all members at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import chain
from typing import Generic, TypeVar

import structlog
from aiohttp import web

from fedhpa.api.errors import ApiError, FedHPAError, MemberUnavailable, MetricsUnavailable
from fedhpa.api.selectors import Selector
from fedhpa.api.texts import one_line
from fedhpa.kube import NOT_FOUND, explain, report_failure
from fedhpa.members import Member, SharedLists
from fedhpa.members.metrics import (
    CUSTOM,
    EXTERNAL,
    EXTERNAL_VERSION,
    NotServed,
    custom_version,
    external_path,
)
from metrics_adapter.apis import API_VERSION, MetricsKind
from metrics_adapter.members.custom_metrics import CustomValue, decode_values
from metrics_adapter.members.external_metrics import ClusterValues, ExternalValue, decode_external_values
from metrics_adapter.members.queries import SHOWN, CustomMetricQuery, MetricSelectors
from metrics_adapter.members.recently_served import RecentlyServed
from metrics_adapter.members.resource_metrics import MemberItems, decode_list, decode_one

log = structlog.get_logger(__name__)

# The 4xx statuses that are not due to what a caller asked for: credentials, rights, a missing API, overload.
MEMBERS_FAULTS = (401, 403, 404, 408, 429)
# Members named in one error message. Series name all of them.
MAX_NAMED = 16
# Warning headers of one answer. Python's http.client refuses answers with more than a hundred headers.
MAX_WARNINGS = 10
# Index of GROUP in the slash-separated parts of a path: "", apis, GROUP, VERSION.
GROUP_INDEX = 2
# Callers repeat their requests about every 15 s. A member that lost one metric of many fails one request in
# each round and answers the others. It counts as recovered only after this long without a failure. Otherwise
# each round would log a loss and a recovery.
RECOVERY_SECONDS = 20.0

# The name in the place of a cluster for a failure of the hub.
HUB = "hub"

T = TypeVar("T")
ClusterFilter = Callable[[str], bool]


class MemberObserver:
    """Receives the outcome of requests to members. This base class ignores them."""

    def outcome(self, api: str, cluster: str, answered: bool, *, provoked: bool = False) -> None:
        """Called with the outcome of a member's part of one answer. `api` is the API group.

        `provoked` is true if the failure may be due to what the caller asked for: the member answered, and
        refused this request. Such a failure says nothing about the health of the member.
        """

    def absent(self, api: str, cluster: str) -> None:
        """Called when a member does not serve the API and so is not expected to answer."""

    def answered(self, api: str, age: float) -> None:
        """Called when an answer is used that was requested from its member `age` seconds ago."""


@dataclass(frozen=True)
class Gathered(Generic[T]):
    """The answers of the expected members, sorted by cluster, and the reasons of missing ones by cluster.

    A member that does not serve the API is in neither, because it is not expected to answer. `notes` holds
    further warnings for the caller. `aggregation` is the default way to combine the clusters ("": the API's).
    """

    answers: Sequence[T]
    missing: Mapping[str, str]
    notes: Sequence[str] = ()
    aggregation: str = ""

    @property
    def none_answered(self) -> bool:
        """True if members were expected to answer and none did."""
        return bool(self.missing) and not self.answers

    def warnings(self) -> list[str]:
        """Returns one sentence for each missing member, then the notes: at most ten, then how many more."""
        missing = [f"{cluster} did not answer: {reason}" for cluster, reason in sorted(self.missing.items())]
        named = missing[:MAX_WARNINGS]
        noted = self.notes[: MAX_WARNINGS - len(named)]
        more = []
        if len(missing) > len(named):
            more.append(f"and {len(missing) - len(named)} more members did not answer")
        if len(self.notes) > len(noted):
            more.append(f"and {len(self.notes) - len(noted)} more warnings")
        return [*named, *noted, *more]

    def missing_text(self) -> str:
        """Returns the missing members and their reasons as one message."""
        named = [f"{cluster}: {reason}" for cluster, reason in sorted(self.missing.items())]
        more = [f"and {len(named) - MAX_NAMED} more"] if len(named) > MAX_NAMED else []
        return "; ".join([*named[:MAX_NAMED], *more])


class MembersSource:
    """Metrics from the members' own metrics APIs, each answer at most `max_age` seconds old.

    `members` returns the members that are expected to answer, by name. `observer` receives each outcome.
    `unlisted` returns why the members are unknown, or None. Requests then fail, because an empty answer would
    claim that no cluster has metrics.
    """

    def __init__(
        self,
        members: Callable[[], Mapping[str, Member]],
        lists: SharedLists,
        *,
        max_age: float,
        clock: Callable[[], float],
        observer: MemberObserver | None = None,
        unlisted: Callable[[], str | None] = lambda: None,
    ) -> None:
        self.members = members
        self.unlisted = unlisted
        self.lists = lists
        self.max_age = max_age
        self.clock = clock
        self.observer = observer or MemberObserver()
        # Returns True if a member lists a metric of a group. Any other name can make a member fail.
        self.is_listed: Callable[[str, str], bool] = lambda group, metric: True  # noqa: ARG005
        # Time of the last failure of each failing member, by API and cluster.
        self._failed_at: dict[tuple[str, str], float] = {}
        self._recently_served = RecentlyServed(clock=clock)

    def is_registered(self, cluster: str) -> bool:
        """True if a cluster of that name is registered."""
        return cluster in self.members()

    def configured_names(self, group: str) -> Sequence[tuple[str, bool]]:  # noqa: ARG002 - subclasses use it
        """Returns name and scope (True: namespaced) of the group's metrics that need no request."""
        return ()

    async def list(
        self, kind: MetricsKind, namespace: str, selector: Selector, cluster: str | None
    ) -> Gathered[MemberItems]:
        """Returns the selected items of a namespace ("": all), of one cluster or of all (None)."""
        path = kind.path(namespace)

        async def request(member: Member) -> MemberItems:
            answer = await self._fetch_list(member, path, None)
            _check_namespace(answer, namespace)
            if not selector.requirements or not answer:
                return answer
            selected = await answer.select(selector)
            if selected is not None:
                return selected
            # This member's metrics lack the labels of pods, so only the member can apply the selector.
            answer = await self._fetch_list(member, path, {"labelSelector": str(selector)})
            _check_namespace(answer, namespace)
            return answer

        return await self.gather(API_VERSION, request, only(cluster))

    async def get(
        self, kind: MetricsKind, namespace: str, name: str, cluster: str | None
    ) -> Gathered[MemberItems]:
        """Returns the items of that name. A member without the object answers with no items."""
        path = kind.path(namespace, name)

        async def request(member: Member) -> MemberItems:
            try:
                answer = await self.fetch(member, path, None, _decoder(decode_one, member.name))
            except FedHPAError as error:
                if _is_object_not_found(error):
                    return MemberItems(member.name)
                raise
            _check_namespace(answer, namespace)
            for item in chain.from_iterable(answer.items()):
                if item.name != name:
                    raise MetricsUnavailable(
                        f"asked for {kind.plural} {name!r}, it answered for {item.name[:SHOWN]!r}"
                    )
            return answer

        return await self.gather(API_VERSION, request, only(cluster))

    async def custom(
        self, query: CustomMetricQuery, selectors: MetricSelectors, cluster: str | None
    ) -> Gathered[Sequence[CustomValue] | None]:
        """Returns the values of custom metrics, of one cluster or of all (None).

        The answer of a member that does not know the metric or the object is None.

        Each member is queried in the best API version that it serves.
        """
        params, shown, path_of = selectors.params, str(query), cache(query.path)

        async def values_of(member: Member) -> Sequence[CustomValue] | None:
            api_version = await custom_version(self.lists, member)
            try:
                values = await self.fetch(member, path_of(api_version), params, decode_values)
            except FedHPAError as error:
                if _is_not_found(error):
                    return None  # The member serves the API, and has no such metric or object.
                raise
            query.check(values)
            return values

        async def request(member: Member) -> Sequence[CustomValue] | None:
            values = values_of(member)
            if query.is_one_pod:
                return await values
            return await self._recently_served.check(member.name, shown, params, values)

        return await self.gather(CUSTOM, request, only(cluster), f"{query.resource}/{query.metric}")

    async def external(
        self, namespace: str, metric: str, selector: Selector, selects: ClusterFilter
    ) -> Gathered[ClusterValues]:
        """Returns the values of an external metric, of the clusters for which `selects` is true."""
        path = external_path(namespace, metric)
        params = {"labelSelector": str(selector)} if selector.requirements else {}

        async def values_of(member: Member) -> Sequence[ExternalValue] | None:
            try:
                return await self.fetch(member, path, params, decode_external_values)
            except FedHPAError as error:
                if _is_object_not_found(error):
                    return None
                if _is_not_found(error):
                    raise NotServed(f"it does not serve {EXTERNAL_VERSION}") from error
                raise

        async def request(member: Member) -> ClusterValues:
            values = values_of(member)
            return ClusterValues(
                member.name, await self._recently_served.check(member.name, path, params, values)
            )

        return await self.gather(EXTERNAL, request, selects, metric)

    async def _fetch_list(self, member: Member, path: str, params: Mapping[str, str] | None) -> MemberItems:
        return await self.fetch(member, path, params, _decoder(decode_list, member.name))

    async def fetch(
        self, member: Member, path: str, params: Mapping[str, str] | None, decode: Callable[[bytes], T]
    ) -> T:
        """Returns a member's decoded answer, shared by requests with the same `decode` within `max_age`."""
        answer = await self.lists.get(member, path, params, decode, max_age=self.max_age)
        self.observer.answered(path.split("/")[GROUP_INDEX], self.lists.age(answer))
        return answer.value

    async def gather(
        self, api: str, request: Callable[[Member], Awaitable[T]], selects: ClusterFilter, metric: str = ""
    ) -> Gathered[T]:
        """Sends a request to all selected members at once. Reasons and log lines name the API `api`.

        `metric` is the requested one, as discovery spells it.
        """
        unlisted = self.unlisted()
        if unlisted is not None:
            return Gathered([], {HUB: unlisted})
        members = [member for name, member in sorted(self.members().items()) if selects(name)]
        answers: dict[str, T] = {}
        missing: dict[str, str] = {}

        group = _group(api)
        unknown = bool(metric) and not self.is_listed(group, metric)

        async def attempt(member: Member) -> None:
            try:
                answers[member.name] = await request(member)
            except NotServed:
                self.observer.absent(group, member.name)
                return
            except FedHPAError as error:
                missing[member.name] = _reason(error, api)
                self._report(api, member.name, missing[member.name], provoked=unknown or _is_provoked(error))
                return
            except web.HTTPException:
                raise  # The caller is over its limit, which says nothing about the member.
            except Exception as error:
                # An error of one member does not keep the others' answers from the caller.
                report_failure("member-answer", error, cluster=member.name, api=api)
                missing[member.name] = one_line(f"{api}: its answer cannot be used: {explain(error)}")
            self._report(api, member.name, missing.get(member.name))

        await asyncio.gather(*(attempt(member) for member in members))
        return Gathered([answers[name] for name in sorted(answers)], missing)

    def _report(self, api: str, cluster: str, reason: str | None, *, provoked: bool = False) -> None:
        """Reports an outcome to the observer and logs lasting changes. `reason` is None for an answer."""
        self.observer.outcome(_group(api), cluster, reason is None, provoked=provoked)
        if provoked:
            log.debug("metrics missing", cluster=cluster, api=api, reason=reason)
            return
        key, now = (api, cluster), asyncio.get_running_loop().time()
        failed_at = self._failed_at.get(key)
        if reason is not None:
            if failed_at is None:
                log.warning("metrics missing", cluster=cluster, api=api, reason=reason)
            self._failed_at[key] = now
        elif failed_at is not None and now - failed_at >= RECOVERY_SECONDS:
            log.info("metrics are back", cluster=cluster, api=api)
            del self._failed_at[key]


def only(cluster: str | None) -> ClusterFilter:
    """Returns a filter that selects one cluster, or all clusters for None."""
    return lambda name: cluster in (None, name)


def _group(api: str) -> str:
    return api.partition("/")[0]


def _check_namespace(answer: MemberItems, namespace: str) -> None:
    """Raises MetricsUnavailable if a member answered for another namespace than requested ("": any)."""
    others = answer.namespaces - {namespace}
    if namespace and others:
        shown = min(others)[:SHOWN]
        raise MetricsUnavailable(f"asked for namespace {namespace!r}, it answered for {shown!r}")


@lru_cache(maxsize=4096)
def _decoder(decode: Callable[[bytes, str], MemberItems], cluster: str) -> Callable[[bytes], MemberItems]:
    # The decoder is part of a shared answer's identity, so each member and form needs one fixed object.
    return lambda body: decode(body, cluster)


def _is_provoked(error: FedHPAError) -> bool:
    """True if the member answered with a status that may be due to the request, such as 400 or 414."""
    cause = error.__cause__
    return (
        not isinstance(error, MemberUnavailable)
        and isinstance(cause, ApiError)
        and 400 <= cause.status < 500
        and cause.status not in MEMBERS_FAULTS
    )


def _is_not_found(error: FedHPAError) -> bool:
    cause = error.__cause__
    return isinstance(cause, ApiError) and cause.status == NOT_FOUND


def _is_object_not_found(error: FedHPAError) -> bool:
    """True if a member's 404 is about the requested object, not about the API."""
    cause = error.__cause__
    # A 404 without a Status, or with the generic message, means that the API itself is not served.
    return (
        isinstance(cause, ApiError)
        and cause.status == NOT_FOUND
        and cause.reason == "NotFound"
        and "the requested resource" not in str(cause)
    )


def _reason(error: FedHPAError, api: str) -> str:
    """Returns why a member's answer is missing, on one line, because parts of it are the member's text."""
    return one_line(_error_text(error, api))


def _error_text(error: FedHPAError, api: str) -> str:
    if isinstance(error, MemberUnavailable):
        return error.reason
    cause = error.__cause__
    if isinstance(cause, ApiError) and cause.status == NOT_FOUND:
        return f"it does not serve {api} (HTTP 404)"
    if isinstance(cause, ApiError):
        return f"{api}: {cause} (HTTP {cause.status})"
    return str(cause or error)
