"""Looks for a workload on the other side: on the hub if no member has it, in the members if the hub has none.

Often the flag --propagation is wrong, and not the workload. Only a workload that is missing is looked for, at
most once a minute, so a fleet pays nothing for the message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from controller.federatedhpa.cluster_reader import Workload, read_right
from fedhpa.api.errors import ApiError, FedHPAError, InvalidObject
from fedhpa.api.texts import listed
from fedhpa.kube import FORBIDDEN, NOT_FOUND, ApiClient, contain, get_scale
from fedhpa.members import Member

# An answer is kept for this long.
KEPT_SECONDS: Final = 60.0
# Answers that are kept; beyond that the oldest is dropped.
MAX_KEPT: Final = 1_000
# Members that are asked for one workload. They show the mistake, and the rest of a large fleet adds nothing.
MAX_ASKED: Final = 16
DEADLINE_SECONDS: Final = 3.0
HUB_NAME: Final = "the hub"
# The answer of a server where the rights are withheld on purpose: it says nothing about the workload.
WITHHELD: Final = "withheld"


# People read the condition, and there may be a thousand clusters.
_MAX_NAMED: Final = 8
_MAX_REASON: Final = 256


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """Where a workload was looked for on the other side.

    `found` and `absent` name the places that have it and that answered 404. `unknown` maps places without a
    usable answer to the reason. A place is a cluster, or the hub.
    """

    found: Sequence[str] = ()
    absent: Sequence[str] = ()
    unknown: Mapping[str, str] = {}


def missing_in_members(workload: str, clusters: Sequence[str], hub: Search) -> str:
    """Returns the message for a workload (`KIND NAMESPACE/NAME`) that none of the `clusters` has."""
    head = f"{workload}: 404 in {_names(clusters)}"
    if hub.found:
        return f"{head}; it exists on the hub: is --propagation=karmada meant?"
    if hub.absent:
        return f"{head}, and on the hub: create it in the clusters"
    return f"{head}: create it in the clusters{_unknown(hub)}"


def missing_on_hub(workload: str, error: str, members: Search) -> str:
    """Returns the message for a workload that the hub does not have; `error` is the hub's answer."""
    head = f"{workload}: 404 on the hub"
    if members.found:
        return f"{head}; {_elsewhere(members)} ({error})"
    also = f", and in {_names(members.absent)}" if members.absent else ""
    return f"{head}{also}: create it on the hub ({error}){_unknown(members)}"


def forbidden_on_hub(workload: str, right: str, error: str, members: Search) -> str:
    """Returns the message for a workload that the controller may not read on the hub.

    `right` is the missing right, like `get deployments/scale`, and `error` the hub's answer.
    """
    elsewhere = f"; {_elsewhere(members)}" if members.found else ""
    return f"{workload}: the controller may not {right} on the hub{elsewhere} (HTTP 403: {error})"


def no_candidates(registered: int) -> str:
    """Returns the message for an object without any cluster; `registered` Clusters exist on the hub."""
    if not registered:
        return "no Cluster is registered on the hub: register the member clusters"
    return f"spec.clusterAffinity selects none of the {registered} registered clusters"


def _elsewhere(members: Search) -> str:
    return f"it exists in {_names(members.found)}: is --propagation=direct meant?"


def _unknown(search: Search) -> str:
    unasked = [
        f"{place} cannot be asked: {reason[:_MAX_REASON]}"
        for place, reason in list(search.unknown.items())[:_MAX_NAMED]
    ]
    return "".join(f"; {one}" for one in unasked)


def _names(clusters: Sequence[str]) -> str:
    return listed(clusters, _MAX_NAMED, "more clusters")


class WorkloadSearch:
    """Answers where a missing workload is, from requests that are at most a minute old."""

    def __init__(
        self,
        hub: ApiClient,
        members: Mapping[str, Member],
        *,
        clock: Callable[[], float],
    ) -> None:
        self._hub = hub
        self._members = members
        self._clock = clock
        # By side and path of the workload: until when the answer is kept, and the answer.
        self._kept: dict[tuple[str, str], tuple[float, Search]] = {}

    async def missing_in_members(self, workload: Workload, clusters: Sequence[str]) -> str:
        """Why no scale was read in the `clusters`: all answered 404, or there is none."""
        if not clusters:
            return no_candidates(len(self._members))
        found = await self._search(HUB_NAME, workload, {HUB_NAME: self._hub})
        return missing_in_members(workload.text, sorted(clusters), found)

    async def unreadable_on_hub(self, workload: Workload, error: ApiError, *, scale: bool = True) -> str:
        """Why the hub gave no template: it has none, or the controller may not read it; else the error.

        `scale` is False if the request was about the object and not about its scale.
        """
        if error.status not in (NOT_FOUND, FORBIDDEN):
            return str(error)
        ready = {name: member.client for name, member in self._members.items() if member.state.ready}
        asked = dict(sorted(ready.items())[:MAX_ASKED])
        found = await self._search("members", workload, asked)
        if error.status == NOT_FOUND:
            return missing_on_hub(workload.text, str(error), found)
        return forbidden_on_hub(workload.text, read_right(workload, scale=scale), str(error), found)

    async def _search(self, side: str, workload: Workload, places: Mapping[str, ApiClient]) -> Search:
        key = (side, workload.path)
        until, kept = self._kept.pop(key, (float("-inf"), Search()))
        if self._clock() >= until:
            until, kept = self._clock() + KEPT_SECONDS, await _ask(workload, places)
        self._kept[key] = (until, kept)
        while len(self._kept) > MAX_KEPT:
            del self._kept[next(iter(self._kept))]
        return kept


async def _ask(workload: Workload, places: Mapping[str, ApiClient]) -> Search:
    """Ask all places at once."""

    async def ask(client: ApiClient) -> str | None:
        """Returns None if the workload exists, "" if it does not, else WITHHELD or the reason."""
        try:
            await get_scale(client, workload.path, deadline=DEADLINE_SECONDS)
        except InvalidObject:
            return ""
        except ApiError as error:
            return {NOT_FOUND: "", FORBIDDEN: WITHHELD}.get(error.status, str(error))
        except FedHPAError as error:
            return str(error)
        return None

    async with asyncio.TaskGroup() as group:  # the tasks never raise
        tasks = {
            name: group.create_task(
                contain("find-workload", partial(ask, client), str, **workload.about(name))
            )
            for name, client in places.items()
        }
    answers = {name: task.result() for name, task in tasks.items()}
    return Search(
        found=[name for name, answer in answers.items() if answer is None],
        absent=[name for name, answer in answers.items() if answer == ""],
        unknown={name: answer for name, answer in answers.items() if answer and answer != WITHHELD},
    )
