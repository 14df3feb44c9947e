"""The hub's objects as a drain sees them: their replicas in one cluster, and what they wait for. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from fedhpa.api.autoscalers import Autoscaler, StoredAutoscaler, from_stored
from fedhpa.api.cronfederatedhpa import KIND as CRON_KIND
from fedhpa.api.default_values import SYNC_PERIOD_SECONDS
from fedhpa.api.errors import InvalidObject
from fedhpa.api.federatedhpa import KIND
from fedhpa.api.json import InvalidJson, convert_json
from fedhpa.api.taints import DRAIN_TAINT, LEAVING, NO_SCHEDULE
from fedhpa.api.texts import counted, one_line
from fedhpa.api.times import parse_time
from fedhpa.cli.explain import STILL_SECONDS, age

DISTRIBUTED: Final = "Distributed"
KARMADA: Final = "karmada"
# The taint acts at once, so a controller answers it within a few of its periods.
REACTION_SECONDS: Final = 60
NO_CONTROLLER: Final = "check that a controller runs without --pause: kubectl get leases -A"
MAX_REASON: Final = 300
# Everybody who watches a drain knows of its taint.
_OWN: Final = f"taint {DRAIN_TAINT}:{NO_SCHEDULE}: "

Raw = Mapping[str, Any]


class Entry(msgspec.Struct, frozen=True):
    """The read fields of an entry of status.clusters."""

    name: str = ""
    state: str = ""
    membership: str = ""
    waitsFor: str = ""
    currentReplicas: int | None = None
    readyReplicas: int | None = None

    @property
    def replicas(self) -> int | None:
        """The replicas in the cluster; None if nobody knows, because the cluster does not answer.

        A lost cluster counts with 0 once the others have its replicas, and may run them still.
        """
        known = max(self.currentReplicas or 0, self.readyReplicas or 0)
        unread = self.currentReplicas is None and self.readyReplicas is None
        if not known and (self.state == "Lost" or (self.state and unread)):
            return None
        return known


class Condition(msgspec.Struct, frozen=True):
    """The read fields of a condition."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class _Metadata(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""


class _Spec(msgspec.Struct, frozen=True):
    mode: str | None = None
    dryRun: bool | None = None
    syncPeriodSeconds: int | None = None


class _Summary(msgspec.Struct, frozen=True):
    propagation: str = ""


class _Status(msgspec.Struct, frozen=True):
    clusters: list[Entry] | None = None
    conditions: list[Condition] | None = None
    lastSeen: str | None = None
    summary: _Summary | None = None


class Scaled(msgspec.Struct, frozen=True):
    """The read fields of a FederatedHPA."""

    metadata: _Metadata = _Metadata()
    spec: _Spec = _Spec()
    status: _Status | None = None

    @property
    def name(self) -> str:
        """The object as NAMESPACE/NAME."""
        return one_line(f"{self.metadata.namespace}/{self.metadata.name}")

    @property
    def clusters(self) -> list[Entry]:
        """The entries of status.clusters."""
        return (self.status.clusters if self.status else None) or []

    def entry(self, cluster: str) -> Entry | None:
        """Returns the entry of a cluster, if there is one."""
        return next((one for one in self.clusters if one.name == cluster), None)

    @property
    def propagation(self) -> str:
        """--propagation of the controller at the last decision, "" without one."""
        return self.status.summary.propagation if self.status and self.status.summary else ""

    @property
    def obstacle(self) -> str:
        """The setting of the object by which nothing is moved, "" without one."""
        if self.spec.dryRun:
            return "spec.dryRun is true, so nothing is moved"
        return ""


class Waiting(msgspec.Struct, frozen=True):
    """An object with replicas in the cluster, None if their number is unknown, and what it waits for."""

    name: str
    replicas: int | None
    reason: str

    def to_json(self) -> dict[str, str | int | None]:
        """Returns it as data."""
        return {"name": self.name, "replicas": self.replicas, "reason": self.reason}

    def __str__(self) -> str:
        count = (
            "an unknown number of replicas" if self.replicas is None else counted(self.replicas, "replica")
        )
        return f"{self.name}: {count} still there: {self.reason}"


class Alone(msgspec.Struct, frozen=True):
    """A workload that only a CronFederatedHPA scales. Nothing moves it, and its replicas are not counted."""

    name: str
    target: str

    def to_json(self) -> dict[str, str]:
        """Returns it as data."""
        return {"name": self.name, "target": self.target}

    def __str__(self) -> str:
        return f"{self.name}: a CronFederatedHPA alone scales {self.target}, so its replicas stay"


def read(raw: object) -> Scaled | None:
    """Returns a stored FederatedHPA; None if it cannot be read."""
    try:
        return convert_json(raw, Scaled)
    except InvalidJson:
        return None


def waiting(raws: Iterable[object], cluster: str, since: float, now: float) -> Iterator[Waiting]:
    """Yields the objects with replicas in a cluster that has been tainted `since`; both are POSIX seconds."""
    for raw in raws:
        found = read(raw)
        if found is None:
            yield Waiting(name_of(raw), None, "its status cannot be read")
        elif found.status is None:
            yield Waiting(found.name, None, f"it has no decision yet: {NO_CONTROLLER}")
        else:
            entry = found.entry(cluster)
            # A leaving cluster has an entry until its last pod has ended.
            if entry is not None and (entry.replicas != 0 or entry.membership == LEAVING):
                yield Waiting(found.name, entry.replicas, _reason(found, entry, since, now))


def _reason(found: Scaled, entry: Entry, since: float, now: float) -> str:
    """Returns what the replicas of an object wait for."""
    if found.obstacle:
        return found.obstacle
    if entry.membership and entry.waitsFor:
        # Where every cluster drains, nothing moves, and the controller counts each as Cordoned.
        other = "" if entry.membership == LEAVING else f"{entry.membership}: "
        waits = entry.waitsFor.removeprefix(_OWN)
        return one_line(f"{other}{waits}", MAX_REASON) + _silence(found, now)
    if entry.membership != LEAVING:
        if now - since > max(REACTION_SECONDS, 4 * _period(found)):
            return f"no controller has answered the taint in {age(now - since)}: {NO_CONTROLLER}"
        return "waits for the controller's next decision"
    if entry.state in ("Missing", "Lost"):
        return f"the cluster does not answer (state {entry.state})"
    return f"moving{_silence(found, now)}"


def _silence(found: Scaled, now: float) -> str:
    """Returns a remark if the status is older than a running controller leaves it, else ""."""
    try:
        seen = parse_time(found.status.lastSeen if found.status else None)
    except InvalidObject:
        return ""
    if seen is None or now - seen <= STILL_SECONDS + 4 * _period(found):
        return ""
    return f" (the status is {age(now - seen)} old: {NO_CONTROLLER})"


def _period(found: Scaled) -> float:
    return found.spec.syncPeriodSeconds or SYNC_PERIOD_SECONDS


def placed_by_karmada(raws: Iterable[object], cluster: str) -> list[str]:
    """Returns the objects that hold replicas in the cluster and whose replicas Karmada's scheduler places."""
    found = []
    for one in map(read, raws):
        entry = None if one is None else one.entry(cluster)
        if one is None or entry is None or entry.replicas == 0:
            continue
        if one.propagation == KARMADA and one.spec.mode != DISTRIBUTED:
            found.append(one.name)
    return found


def scaled_by_rules_alone(crons: Iterable[object], raws: Iterable[object]) -> Iterator[Alone]:
    """Yields the workloads of CronFederatedHPAs that no FederatedHPA scales."""
    taken = {one.target for raw in raws if (one := _autoscaler(KIND, raw)) is not None}
    for raw in crons:
        one = _autoscaler(CRON_KIND, raw)
        if one is None or not one.active or one.target.is_federatedhpa or one.target in taken:
            continue
        name = one_line(f"{one.namespace}/{one.name}")
        yield Alone(name, one_line(f"{one.target.kind} {one.target.name}"))


def _autoscaler(kind: str, raw: object) -> Autoscaler | None:
    try:
        return from_stored(kind, convert_json(raw, StoredAutoscaler))
    except InvalidJson:
        return None


def name_of(raw: object) -> str:
    """Returns the name of an object that cannot be read otherwise."""
    metadata = raw.get("metadata") if isinstance(raw, Mapping) else None
    if not isinstance(metadata, Mapping):
        return "an object without a name"
    return one_line(f"{metadata.get('namespace', '')}/{metadata.get('name', '')}")
