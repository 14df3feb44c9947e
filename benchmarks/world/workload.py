"""The pods of one workload, as the Deployment and the StatefulSet controller keep them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

# The defaults of a Deployment's rolling update.
MAX_SURGE: Final = 0.25
MAX_UNAVAILABLE: Final = 0.25


@dataclass(slots=True, eq=False)
class Pod:
    """A pod. Times are seconds; `bound` is when it got its node, `leaves` when its processes will be gone."""

    name: str
    created: float
    revision: int
    ordinal: int
    node: str = ""
    bound: float | None = None
    ready: bool = False
    changed: float = 0.0
    leaves: float | None = None
    # The cluster's CPU counter when the pod became ready, or at the last scrape.
    counted: float = 0.0


@dataclass(slots=True)
class Revision:
    """A version of the pod template; `broken` pods never get ready."""

    start_seconds: float = 30.0
    broken: bool = False


@dataclass
class Workload:
    """The pods of a Deployment, or of a StatefulSet with OrderedReady.

    `note` is called with each pod that was created, or begins to end.
    """

    name: str
    ordered: bool = False
    revisions: list[Revision] = field(default_factory=lambda: [Revision()])
    stop_seconds: float = 5.0
    note: Callable[[Pod], None] = lambda _: None
    pods: list[Pod] = field(default_factory=list)
    created: int = 0
    # A quota: no more pods than this are created.
    most: int | None = None
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    # The desired replicas of the last step; a rollout divides a change over both revisions.
    _desired: int = 0

    @property
    def active(self) -> list[Pod]:
        """The pods that do not end."""
        return [pod for pod in self.pods if pod.leaves is None]

    @property
    def newest(self) -> int:
        """The number of the current revision."""
        return len(self.revisions) - 1

    def begin(self, replicas: int, now: float) -> None:
        """Starts with pods that have been ready for an hour, once they get their nodes."""
        for _ in range(replicas):
            self._create(self.newest, now - 3600)
        self._desired = replicas

    def step(self, desired: int, now: float) -> None:
        """Lets pods end that are due, and takes the workload's controller one step on."""
        if any(pod.leaves is not None and pod.leaves <= now for pod in self.pods):
            self.pods = [pod for pod in self.pods if pod.leaves is None or pod.leaves > now]
        active = self.active
        if self.ordered:
            self._step_in_order(active, desired, now)
        elif all(pod.revision == self.newest for pod in active):
            self._resize(active, desired, self.newest, now)
        else:
            self._roll(active, desired, now)
        self._desired = desired

    def start(self, ready: Callable[[Pod], None], now: float) -> None:
        """Makes pods ready whose time has come, and calls `ready` with each."""
        for pod in self.pods:
            revision = self.revisions[pod.revision]
            due = not pod.ready and pod.bound is not None and pod.leaves is None and not revision.broken
            if due and now - (pod.bound or 0.0) >= revision.start_seconds:
                pod.ready, pod.changed = True, now
                ready(pod)

    # -- Deployment ------------------------------------------------------------------------------------
    def _resize(self, pods: list[Pod], desired: int, revision: int, now: float) -> None:
        for _ in range(desired - len(pods)):
            self._create(revision, now)
        self._end(victims(pods, now)[: max(len(pods) - desired, 0)], now)

    def _roll(self, active: list[Pod], desired: int, now: float) -> None:
        """One step of a rolling update: more new pods within the surge, fewer old ones within the rest."""
        most = desired + math.ceil(desired * MAX_SURGE)
        least = desired - math.floor(desired * MAX_UNAVAILABLE)
        if desired != self._desired:
            self._scale_both(active, most, now)
            active = self.active
        new = [pod for pod in active if pod.revision == self.newest]
        old = [pod for pod in active if pod.revision != self.newest]
        for _ in range(min(most - len(active), desired - len(new))):
            self._create(self.newest, now)
        unready = sum(not pod.ready for pod in new)
        spare = len(active) - least - unready
        sick = [pod for pod in old if not pod.ready][: max(spare, 0)]
        self._end(sick, now)
        healthy = [pod for pod in old if pod.ready]
        available = len(healthy) + len(new) - unready
        self._end(victims(healthy, now)[: max(min(available - least, len(healthy)), 0)], now)

    def _scale_both(self, active: list[Pod], most: int, now: float) -> None:
        """Divides a change of the size over the revisions in proportion to their pods."""
        before = self._desired + math.ceil(self._desired * MAX_SURGE)
        sizes = {
            one: [pod for pod in active if pod.revision == one] for one in {pod.revision for pod in active}
        }
        left = most - len(active)
        for revision, pods in sorted(sizes.items(), key=lambda item: -len(item[1])):
            part = round(len(pods) * most / max(before, 1)) - len(pods)
            part = max(min(part, left), 0) if left > 0 else min(max(part, left), 0)
            left -= part
            self._resize(pods, len(pods) + part, revision, now)

    # -- StatefulSet -----------------------------------------------------------------------------------
    def _step_in_order(self, active: list[Pod], desired: int, now: float) -> None:
        """One pod at a time: the next is created when all others are ready, the last one ends first.

        A rolling update replaces the last pod of an old revision when all are ready.
        """
        if len(active) < len(self.pods):
            return
        if len(active) > desired:
            self._end([max(active, key=_ordinal)], now)
        elif all(pod.ready for pod in active):
            if len(active) < desired:
                self._create(self.newest, now)
            elif old := [pod for pod in active if pod.revision != self.newest]:
                self._end([max(old, key=_ordinal)], now)

    # ------------------------------------------------------------------------------------------------------
    def _create(self, revision: int, now: float) -> None:
        if self.most is not None and len(self.active) >= self.most:
            return
        taken = {pod.ordinal for pod in self.pods}
        ordinal = next(number for number in itertools.count() if number not in taken) if self.ordered else -1
        suffix = str(ordinal) if self.ordered else f"{revision}-{next(self._numbers)}"
        pod = Pod(f"{self.name}-{suffix}", now, revision, ordinal, changed=now)
        self.pods.append(pod)
        self.created += 1
        self.note(pod)

    def _end(self, pods: Iterable[Pod], now: float) -> None:
        for pod in pods:
            # A pod without a node has nothing to stop.
            pod.leaves = now + (self.stop_seconds if pod.bound is not None else 0.0)
            self.note(pod)


def _ordinal(pod: Pod) -> int:
    return pod.ordinal


def victims(pods: list[Pod], now: float) -> list[Pod]:
    """Returns pods in the order in which a ReplicaSet removes them.

    First those without a node, then those that are not ready, then those that became ready last, and the
    youngest. Kubernetes compares ready times in powers of two, so that pods of about the same age are equal.
    """

    def rank(pod: Pod) -> tuple[bool, bool, float, float]:
        age = math.floor(math.log2(max(now - pod.changed, 1.0))) if pod.ready else -1.0
        return (pod.bound is not None, pod.ready, age, -pod.created)

    return sorted(pods, key=rank)
