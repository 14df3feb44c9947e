"""The hub's objects as a drain sees them: their replicas in one cluster, and what they wait for. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from fedhpa.api.autoscalers import from_json
from fedhpa.api.cronfederatedhpa import KIND as CRON_KIND
from fedhpa.api.federatedhpa import KIND
from fedhpa.api.free_json import at, entries, text_at
from fedhpa.api.taints import DRAIN_TAINT, LEAVING, NO_SCHEDULE
from fedhpa.api.texts import counted, one_line
from fedhpa.cli.explain import age, period_of, silent_seconds

DISTRIBUTED: Final = "Distributed"
KARMADA: Final = "karmada"
# The taint acts at once, so a controller answers it within a few of its periods.
REACTION_SECONDS: Final = 60
NO_CONTROLLER: Final = "check that a controller runs without --pause: kubectl get leases -A"
MAX_REASON: Final = 300
# Everybody who watches a drain knows of its taint.
_OWN: Final = f"taint {DRAIN_TAINT}:{NO_SCHEDULE}: "


class Entry(NamedTuple):
    """A cluster of an object. `replicas` is None if nobody knows, because the cluster does not answer.

    A lost cluster counts with 0 once the others have its replicas, and may run them still.
    """

    name: str
    state: str
    membership: str
    waits_for: str
    replicas: int | None


def clusters_of(raw: object) -> list[Entry]:
    """Returns the entries of status.clusters of a FederatedHPA."""
    found = []
    for one in entries(raw, "status", "clusters"):
        counts = [
            each for key in ("currentReplicas", "readyReplicas") if isinstance(each := one.get(key), int)
        ]
        name, state, membership, waits_for = (
            text_at(one, key) for key in ("name", "state", "membership", "waitsFor")
        )
        known = max(counts, default=0)
        is_unknown = not known and (state == "Lost" or (bool(state) and not counts))
        found.append(Entry(name, state, membership, waits_for, None if is_unknown else known))
    return found


def entry_of(raw: object, cluster: str) -> Entry | None:
    """Returns the entry of a cluster, if there is one."""
    return next((one for one in clusters_of(raw) if one.name == cluster), None)


def obstacle_of(raw: object) -> str:
    """Returns the setting of an object by which nothing is moved, "" without one."""
    return "spec.dryRun is true, so nothing is moved" if at(raw, "spec", "dryRun") is True else ""


def number_of(replicas: int | None) -> str:
    """Returns a number of replicas for people."""
    return "an unknown number of replicas" if replicas is None else counted(replicas, "replica")


class Waiting(msgspec.Struct, frozen=True):
    """An object with replicas in the cluster, None if their number is unknown, and what it waits for."""

    name: str
    replicas: int | None
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {number_of(self.replicas)} still there: {self.reason}"


class Alone(msgspec.Struct, frozen=True):
    """A workload that only a CronFederatedHPA scales. Nothing moves it, and its replicas are not counted."""

    name: str
    target: str

    def __str__(self) -> str:
        return f"{self.name}: a CronFederatedHPA alone scales {self.target}, so its replicas stay"


def waiting(raws: Iterable[object], cluster: str, since: float, now: float) -> Iterator[Waiting]:
    """Yields the objects with replicas in a cluster that has been tainted `since`; both are POSIX seconds."""
    for raw in raws:
        status = at(raw, "status")
        if not isinstance(raw, dict) or not isinstance(status, dict | None):
            yield Waiting(name_of(raw), None, "its status cannot be read")
        elif status is None:
            yield Waiting(name_of(raw), None, f"it has no decision yet: {NO_CONTROLLER}")
        else:
            entry = entry_of(raw, cluster)
            # A leaving cluster has an entry until its last pod has ended.
            if entry is not None and (entry.replicas != 0 or entry.membership == LEAVING):
                yield Waiting(name_of(raw), entry.replicas, _reason(raw, entry, since, now))


def _reason(raw: dict[str, Any], entry: Entry, since: float, now: float) -> str:
    """Returns what the replicas of an object wait for."""
    if obstacle := obstacle_of(raw):
        return obstacle
    old = silent_seconds(raw, now)
    silence = "" if old is None else f" (the status is {age(old)} old: {NO_CONTROLLER})"
    if entry.membership and entry.waits_for:
        # Where every cluster drains, nothing moves, and the controller counts each as Cordoned.
        other = "" if entry.membership == LEAVING else f"{entry.membership}: "
        return one_line(f"{other}{entry.waits_for.removeprefix(_OWN)}", MAX_REASON) + silence
    if entry.membership != LEAVING:
        if now - since > max(REACTION_SECONDS, 4 * period_of(raw)):
            return f"no controller has answered the taint in {age(now - since)}: {NO_CONTROLLER}"
        return "waits for the controller's next decision"
    if entry.state in ("Missing", "Lost"):
        return f"the cluster does not answer (state {entry.state})"
    return f"moving{silence}"


def placed_by_karmada(raws: Iterable[object], cluster: str) -> list[str]:
    """Returns the objects that hold replicas in the cluster and whose replicas Karmada's scheduler places."""
    return [
        name_of(raw)
        for raw in raws
        if (entry := entry_of(raw, cluster)) is not None
        and entry.replicas != 0
        and text_at(raw, "status", "summary", "propagation") == KARMADA
        and at(raw, "spec", "mode") != DISTRIBUTED
    ]


def scaled_by_rules_alone(crons: Iterable[object], raws: Iterable[object]) -> Iterator[Alone]:
    """Yields the workloads of CronFederatedHPAs that no FederatedHPA scales."""
    taken = {one.target for raw in raws if (one := from_json(KIND, raw)) is not None}
    for raw in crons:
        one = from_json(CRON_KIND, raw)
        if one is None or not one.active or one.target.is_federatedhpa or one.target in taken:
            continue
        name = one_line(f"{one.namespace}/{one.name}")
        yield Alone(name, one_line(f"{one.target.kind} {one.target.name}"))


def name_of(raw: object) -> str:
    """Returns an object as NAMESPACE/NAME."""
    if not isinstance(at(raw, "metadata"), dict):
        return "an object without a name"
    return one_line(f"{text_at(raw, 'metadata', 'namespace')}/{text_at(raw, 'metadata', 'name')}")
