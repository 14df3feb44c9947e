"""Ask the members, all at once, and keep apart who answered what and who did not, and why."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import structlog

from fedhpa.api.errors import ApiError, FedHPAError, MemberUnavailable
from fedhpa.api.selectors import Selector
from fedhpa.members.lists import SharedLists
from fedhpa.members.member import Member
from metrics_adapter.items import MemberItems, decode_list, decode_one
from metrics_adapter.kinds import API_VERSION, MetricsKind

log = structlog.get_logger(__name__)

NOT_FOUND = 404
NO_ITEMS: Sequence[MemberItems] = ()


@dataclass(frozen=True)
class Gathered:
    """What the expected members said: answers sorted by cluster, and reasons by cluster."""

    answers: Sequence[MemberItems]
    missing: Mapping[str, str]

    @property
    def nobody_answered(self) -> bool:
        """Whether there were members to answer and none did."""
        return bool(self.missing) and not self.answers

    def warnings(self) -> list[str]:
        """One sentence for each member that did not answer."""
        return [f"{cluster} did not answer: {reason}" for cluster, reason in sorted(self.missing.items())]


class MembersSource:
    """Metrics as the members' own metrics APIs give them, each answer at most `max_age` seconds old.

    `members` gives those that are expected to answer, by name; `outcome(cluster, answered)` is told how
    each of them did.
    """

    def __init__(
        self,
        members: Callable[[], Mapping[str, Member]],
        lists: SharedLists,
        *,
        max_age: float,
        outcome: Callable[[str, bool], None] = lambda _cluster, _answered: None,
    ) -> None:
        self._members = members
        self._lists = lists
        self._max_age = max_age
        self._outcome = outcome
        self._failing: set[str] = set()

    def knows(self, cluster: str) -> bool:
        """Whether a cluster of that name is registered."""
        return cluster in self._members()

    async def list(
        self, kind: MetricsKind, namespace: str, selector: Selector, cluster: str | None
    ) -> Gathered:
        """The items of a namespace ("" for all) that the label selector selects, of one or all clusters."""
        path = kind.path(namespace)

        async def ask(member: Member) -> MemberItems:
            answer = await self._fetch(member, path, None)
            if not selector.requirements or not answer.items:
                return answer
            if answer.labelled:
                return answer.selected(selector)
            # This member's metrics do not repeat their pods' labels, so only it can select.
            return await self._fetch(member, path, {"labelSelector": str(selector)})

        return await self._gather(ask, cluster)

    async def get(self, kind: MetricsKind, namespace: str, name: str, cluster: str | None) -> Gathered:
        """The items of that name; a member that has none answers with no items."""
        path = kind.path(namespace, name)

        async def ask(member: Member) -> MemberItems:
            try:
                fetched = await self._lists.get(
                    member, path, None, _decoder(decode_one, member.name), max_age=self._max_age
                )
            except FedHPAError as error:
                if _has_none(error):
                    return MemberItems(member.name, ())
                raise
            return fetched.value

        return await self._gather(ask, cluster)

    async def _fetch(self, member: Member, path: str, params: Mapping[str, str] | None) -> MemberItems:
        decode = _decoder(decode_list, member.name)
        return (await self._lists.get(member, path, params, decode, max_age=self._max_age)).value

    async def _gather(self, ask: Callable[[Member], Awaitable[MemberItems]], cluster: str | None) -> Gathered:
        members = [member for name, member in sorted(self._members().items()) if cluster in (None, name)]
        missing: dict[str, str] = {}

        async def attempt(member: Member) -> MemberItems | None:
            try:
                answer = await ask(member)
            except FedHPAError as error:
                missing[member.name] = _reason(error)
                self._note(member.name, missing[member.name])
                return None
            self._note(member.name, None)
            return answer

        outcomes = await asyncio.gather(*(attempt(member) for member in members))
        return Gathered([answer for answer in outcomes if answer is not None], missing)

    def _note(self, cluster: str, reason: str | None) -> None:
        """Tell how a member did; the log has each change."""
        self._outcome(cluster, reason is None)
        if reason is not None and cluster not in self._failing:
            log.warning("metrics missing", cluster=cluster, reason=reason)
            self._failing.add(cluster)
        elif reason is None and cluster in self._failing:
            log.info("metrics are back", cluster=cluster)
            self._failing.discard(cluster)


@lru_cache(maxsize=4096)
def _decoder(decode: Callable[[bytes, str], MemberItems], cluster: str) -> Callable[[bytes], MemberItems]:
    # The decoder is part of a shared answer's identity: one object for each member and form.
    return lambda body: decode(body, cluster)


def _has_none(error: FedHPAError) -> bool:
    cause = error.__cause__
    # A 404 without a Status, or with the generic one, says that the API is not there, not the object.
    return (
        isinstance(cause, ApiError)
        and cause.status == NOT_FOUND
        and cause.reason == "NotFound"
        and "the requested resource" not in str(cause)
    )


def _reason(error: FedHPAError) -> str:
    if isinstance(error, MemberUnavailable):
        return error.reason
    cause = error.__cause__
    if isinstance(cause, ApiError) and cause.status == NOT_FOUND:
        return f"it does not serve {API_VERSION} (HTTP 404)"
    if isinstance(cause, ApiError):
        return f"{API_VERSION}: {cause} (HTTP {cause.status})"
    return str(cause or error)
