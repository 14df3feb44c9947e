"""Ask the members, all at once, and keep apart who answered what and who did not, and why."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, TypeVar

import structlog

from fedhpa.api.errors import ApiError, FedHPAError, MemberUnavailable, MetricsUnavailable
from fedhpa.api.selectors import Selector
from fedhpa.api.texts import one_line
from fedhpa.members.lists import SharedLists
from fedhpa.members.member import Member
from fedhpa.members.metrics import (
    CUSTOM,
    EXTERNAL,
    EXTERNAL_VERSION,
    NotServed,
    custom_version,
    external_path,
)
from metrics_adapter.kinds import API_VERSION, MetricsKind
from metrics_adapter.members.items import MemberItems, decode_list, decode_one
from metrics_adapter.members.observer import Observer
from metrics_adapter.members.remembered import Remembered
from metrics_adapter.members.series import Series, Told, decode_series
from metrics_adapter.members.values import Value, decode_values
from metrics_adapter.members.wanted import Selectors, Wanted

log = structlog.get_logger(__name__)

NOT_FOUND = 404
# Members named in one message; the warnings and the series name them all.
NAMED = 16
# Characters of a member's word in a reason.
SHOWN = 256
# "", apis, GROUP, VERSION
GROUP_PART = 2
# Callers ask in turns of some 15 s. A member that lost one metric of many fails each time for that one and
# answers for the others: that is no change, and nobody wants to read of it four times a minute.
BACK_SECONDS = 20.0

T = TypeVar("T")


@dataclass(frozen=True)
class Gathered(Generic[T]):
    """What the expected members said: answers sorted by cluster, and reasons by cluster.

    A member that does not serve the API is in neither: nothing is expected of it. `notes` say what else is
    to be known of the answer, and `aggregation` how its clusters are put together where nobody says ("": as
    the API does).
    """

    answers: Sequence[T]
    missing: Mapping[str, str]
    notes: Sequence[str] = ()
    aggregation: str = ""

    @property
    def nobody_answered(self) -> bool:
        """Whether there were members to answer and none did."""
        return bool(self.missing) and not self.answers

    def warnings(self) -> list[str]:
        """One sentence for each member that did not answer, and what else is to be known."""
        silent = [f"{cluster} did not answer: {reason}" for cluster, reason in sorted(self.missing.items())]
        return [*silent, *self.notes]

    def reasons(self) -> str:
        """Who did not answer, and why, in one message."""
        named = [f"{cluster}: {reason}" for cluster, reason in sorted(self.missing.items())]
        more = [f"and {len(named) - NAMED} more"] if len(named) > NAMED else []
        return "; ".join([*named[:NAMED], *more])


class MembersSource:
    """Metrics as the members' own metrics APIs give them, each answer at most `max_age` seconds old.

    `members` gives those that are expected to answer, by name; `observer` is told how each of them did.
    """

    def __init__(
        self,
        members: Callable[[], Mapping[str, Member]],
        lists: SharedLists,
        *,
        max_age: float,
        observer: Observer | None = None,
    ) -> None:
        self.members = members
        self.lists = lists
        self.max_age = max_age
        self.observer = observer or Observer()
        # When each failing one failed last, by API and cluster.
        self._failing: dict[tuple[str, str], float] = {}
        self._remembered = Remembered()

    def knows(self, cluster: str) -> bool:
        """Whether a cluster of that name is registered."""
        return cluster in self.members()

    def names(self, group: str) -> Sequence[tuple[str, bool]]:  # noqa: ARG002 - members are asked for theirs
        """Metrics of a group that are known without asking members, and whether each has a namespace."""
        return ()

    async def list(
        self, kind: MetricsKind, namespace: str, selector: Selector, cluster: str | None
    ) -> Gathered[MemberItems]:
        """The items of a namespace ("" for all) that the label selector selects, of one or all clusters."""
        path = kind.path(namespace)

        async def ask(member: Member) -> MemberItems:
            answer = await self._fetch(member, path, None)
            _check_namespace(answer, namespace)
            if not selector.requirements or not answer.items:
                return answer
            if answer.labelled:
                return answer.selected(selector)
            # This member's metrics do not repeat their pods' labels, so only it can select.
            answer = await self._fetch(member, path, {"labelSelector": str(selector)})
            _check_namespace(answer, namespace)
            return answer

        return await self.gather(API_VERSION, ask, lambda name: cluster in (None, name))

    async def get(
        self, kind: MetricsKind, namespace: str, name: str, cluster: str | None
    ) -> Gathered[MemberItems]:
        """The items of that name; a member that has none answers with no items."""
        path = kind.path(namespace, name)

        async def ask(member: Member) -> MemberItems:
            try:
                answer = await self.fetch(member, path, None, _decoder(decode_one, member.name))
            except FedHPAError as error:
                if knows_none(error):
                    return MemberItems(member.name, ())
                raise
            _check_namespace(answer, namespace)
            for item in answer.items:
                if item.name != name:
                    raise MetricsUnavailable(
                        f"asked for {kind.plural} {name!r}, it answered for {item.name[:SHOWN]!r}"
                    )
            return answer

        return await self.gather(API_VERSION, ask, lambda name: cluster in (None, name))

    async def custom(
        self, wanted: Wanted, selectors: Selectors, cluster: str | None
    ) -> Gathered[Sequence[Value]]:
        """The values of objects, custom.metrics.k8s.io, of one or all clusters; each asked as it serves."""
        params = selectors.params

        async def told(member: Member) -> Sequence[Value] | None:
            api_version = await custom_version(self.lists, member)
            try:
                values = await self.fetch(member, wanted.path(api_version), params, decode_values)
            except FedHPAError as error:
                cause = error.__cause__
                if isinstance(cause, ApiError) and cause.status == NOT_FOUND:
                    return None  # it serves the API, and knows no such metric or object
                raise
            wanted.check(values)
            return values

        async def ask(member: Member) -> Sequence[Value]:
            if wanted.fleeting:
                return await told(member) or ()
            return await self._remembered.told(member.name, str(wanted), params, told(member)) or ()

        return await self.gather(CUSTOM, ask, lambda name: cluster in (None, name))

    async def external(
        self, namespace: str, metric: str, selector: Selector, wanted: Callable[[str], bool]
    ) -> Gathered[Told]:
        """The values of a metric, external.metrics.k8s.io, of the clusters whose name is wanted."""
        path = external_path(namespace, metric)
        params = {"labelSelector": str(selector)} if selector.requirements else {}

        async def series(member: Member) -> Sequence[Series] | None:
            try:
                return await self.fetch(member, path, params, decode_series)
            except FedHPAError as error:
                cause = error.__cause__
                if knows_none(error):
                    return None
                if isinstance(cause, ApiError) and cause.status == NOT_FOUND:
                    raise NotServed(f"it does not serve {EXTERNAL_VERSION}") from error
                raise

        async def ask(member: Member) -> Told:
            found = await self._remembered.told(member.name, path, params, series(member))
            return Told(member.name, found)

        return await self.gather(EXTERNAL, ask, wanted)

    async def _fetch(self, member: Member, path: str, params: Mapping[str, str] | None) -> MemberItems:
        return await self.fetch(member, path, params, _decoder(decode_list, member.name))

    async def fetch(
        self, member: Member, path: str, params: Mapping[str, str] | None, decode: Callable[[bytes], T]
    ) -> T:
        """A member's answer, shared by all who ask for it with the same `decode` within the maximum age."""
        answer = await self.lists.get(member, path, params, decode, max_age=self.max_age)
        self.observer.answered(path.split("/")[GROUP_PART], self.lists.age(answer))
        return answer.value

    async def gather(
        self, api: str, ask: Callable[[Member], Awaitable[T]], wanted: Callable[[str], bool]
    ) -> Gathered[T]:
        """Ask all members whose name is wanted at once; `api` is what reasons and log lines call it."""
        members = [member for name, member in sorted(self.members().items()) if wanted(name)]
        answers: dict[str, T] = {}
        missing: dict[str, str] = {}

        group = _group(api)

        async def attempt(member: Member) -> None:
            try:
                answers[member.name] = await ask(member)
            except NotServed:
                self.observer.absent(group, member.name)
                return
            except FedHPAError as error:
                missing[member.name] = _reason(error, api)
            self._note(api, member.name, missing.get(member.name))

        await asyncio.gather(*(attempt(member) for member in members))
        return Gathered([answers[name] for name in sorted(answers)], missing)

    def _note(self, api: str, cluster: str, reason: str | None) -> None:
        """Tell how a member did; the log has each change that lasts."""
        self.observer.outcome(_group(api), cluster, reason is None)
        key, now = (api, cluster), asyncio.get_running_loop().time()
        failed = self._failing.get(key)
        if reason is not None:
            if failed is None:
                log.warning("metrics missing", cluster=cluster, api=api, reason=reason)
            self._failing[key] = now
        elif failed is not None and now - failed >= BACK_SECONDS:
            log.info("metrics are back", cluster=cluster, api=api)
            del self._failing[key]


def _group(api: str) -> str:
    return api.partition("/")[0]


def _check_namespace(answer: MemberItems, namespace: str) -> None:
    """MetricsUnavailable where a member speaks of another namespace than it was asked for ("": of any)."""
    # They are sorted: what is between two of one namespace is of that, too.
    for item in (answer.items[0], answer.items[-1]) if namespace and answer.items else ():
        if item.namespace != namespace:
            raise MetricsUnavailable(
                f"asked for namespace {namespace!r}, it answered for {item.namespace[:SHOWN]!r}"
            )


@lru_cache(maxsize=4096)
def _decoder(decode: Callable[[bytes, str], MemberItems], cluster: str) -> Callable[[bytes], MemberItems]:
    # The decoder is part of a shared answer's identity: one object for each member and form.
    return lambda body: decode(body, cluster)


def knows_none(error: FedHPAError) -> bool:
    """Whether a member's 404 is about what was asked for, not about the API."""
    cause = error.__cause__
    # A 404 without a Status, or with the generic one, says that the API is not there, not the object.
    return (
        isinstance(cause, ApiError)
        and cause.status == NOT_FOUND
        and cause.reason == "NotFound"
        and "the requested resource" not in str(cause)
    )


def _reason(error: FedHPAError, api: str) -> str:
    """Why a member did not answer; parts of it are the member's words."""
    return one_line(_told(error, api))


def _told(error: FedHPAError, api: str) -> str:
    if isinstance(error, MemberUnavailable):
        return error.reason
    cause = error.__cause__
    if isinstance(cause, ApiError) and cause.status == NOT_FOUND:
        return f"it does not serve {api} (HTTP 404)"
    if isinstance(cause, ApiError):
        return f"{api}: {cause} (HTTP {cause.status})"
    return str(cause or error)
