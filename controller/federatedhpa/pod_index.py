"""An index of one namespace's pods by selector, with their usage, kept up to date by the watch.

A namespace may hold thousands of pods and autoscalers, so a reconcile must not search them. The pods of one
workload share one label set (`fedhpa.scaling.records`), and each label set is compared with each selector
once.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Mapping
from typing import Final, TypeAlias

import msgspec

from fedhpa.api.selectors import Selector
from fedhpa.api.wire import Scale
from fedhpa.cache import Entry, Fetched
from fedhpa.decision import Answers, ClusterScale, ClusterSnapshot, Failure, WorkloadReading
from fedhpa.kube import Key, Reflector
from fedhpa.members import Member, Query, ScaleCache, SharedLists
from fedhpa.scaling import IGNORED, PodRecord, UsageRecord

# A selector without use for this long has no autoscaler any more: the longest sync period is 300 s.
KEEP_SECONDS: Final = 900.0

# The status of a workload and its pods come from two watches, so for a moment they may differ.
DOUBT_SECONDS: Final = 30.0
# A watch that delivers nothing may make each change look wrong, so lists of one namespace are this rare.
LIST_AGAIN_SECONDS: Final = 60.0
# The same difference after a new list is not the watch's fault, but may end.
SAME_AGAIN_SECONDS: Final = 300.0

Labels = Mapping[str, str]
UsageList = Fetched[tuple[UsageRecord, ...]]
NO_USAGE: Final[UsageList] = Fetched((), 0.0)


# The pods that share one label set, by name; and those of several label sets, by the id of each.
LabelSet: TypeAlias = dict[str, PodRecord]
LabelSets: TypeAlias = dict[int, LabelSet]


class Doubt(msgspec.Struct, gc=False):
    """Since when the selected pods do not fit the workload's status, None if they do.

    `checked` are the pods and the replicas that differed at the last new list.
    """

    since: float | None = None
    checked: tuple[int, int] | None = None


def numbers_of(scale: Scale) -> ClusterScale:
    """The numbers and the selector of a scale."""
    return ClusterScale(scale.spec.replicas, scale.status.replicas, scale.status.selector)


class PodSelection:
    """The pods that one selector matches."""

    def __init__(self, selector: Selector, used_at: float, sets: LabelSets) -> None:
        self.selector = selector
        self.used_at = used_at
        self.sets = sets
        self.doubt = Doubt()
        self._pods: tuple[PodRecord, ...] | None = None
        self._active: int | None = None
        self._workload: tuple[ClusterScale, WorkloadReading] | None = None
        # The last reading of them, with its list of usage; None after a change.
        self.reading: ClusterSnapshot | None = None
        self.usage: UsageList | None = None

    @property
    def pods(self) -> tuple[PodRecord, ...]:
        """All pods; the same tuple until one changes."""
        if self._pods is None:
            self._pods = tuple([pod for one in self.sets.values() for pod in one.values()])
        return self._pods

    @property
    def active(self) -> int:
        """The number of pods that have neither failed nor are being deleted."""
        if self._active is None:
            self._active = len([pod for pod in self.pods if pod.state != IGNORED])
        return self._active

    @property
    def names(self) -> Collection[str]:
        """The names of all pods."""
        if len(self.sets) == 1:
            return next(iter(self.sets.values())).keys()
        return {name for one in self.sets.values() for name in one}

    def scaled_by(self, path: str, scale: Scale) -> tuple[ClusterScale, WorkloadReading]:
        """The numbers of the scale, and the workload at `path` with its pods; the same until one changes."""
        if self._workload is None or self._workload[1].scale is not scale:
            sets = tuple([_labels_of(one) for one in self.sets.values()])
            reading = WorkloadReading(path=path, scale=scale, selector=self.selector, label_sets=sets)
            self._workload = numbers_of(scale), reading
        return self._workload

    def invalidate(self) -> None:
        """Drop what was computed, because a pod changed."""
        self._pods = self._active = self._workload = self.reading = self.usage = None


class PodIndex:
    """The pods of one namespace of one cluster, by selector. `change` keeps it up to date.

    It also has the last list of usage by pod name, and the names in it that no listed pod of the same labels
    has.
    """

    def __init__(
        self,
        namespace: str,
        pods: Mapping[Key, PodRecord],
        clock: Callable[[], float],
        list_anew: Callable[[], None] = lambda: None,
    ) -> None:
        self._namespace = namespace
        self._list_anew = list_anew
        self._listed_at = float("-inf")
        self._pods = pods
        self._clock = clock
        self._selections: dict[str, PodSelection] = {}
        self._label_sets: LabelSets = {}
        # The selections that match each label set.
        self._matching: dict[int, list[PodSelection]] = {}
        self._fetched: UsageList | None = None
        self._usage: dict[str, UsageRecord] = {}
        self._unmatched: set[str] = set()
        for pod in pods.values():
            if self._in_namespace(pod):
                self._insert(pod)

    def known(self, text: str, now: float) -> PodSelection | None:
        """The pods of a selector in its serialized form; None if `selected` was never called for it."""
        found = self._selections.get(text)
        if found is not None:
            found.used_at = now
        return found

    def selected(self, text: str, selector: Selector) -> PodSelection:
        """The pods of the selector; `text` is its serialized form."""
        found = self._selections.get(text)
        if found is None:
            found = self._add(text, selector)
        found.used_at = self._clock()
        return found

    def compare(self, selection: PodSelection, replicas: int) -> None:
        """Ask for a new list if the pods have not fitted `replicas`, those of the status, for half a minute.

        A StatefulSet counts pods that are being deleted, and other pods may have the same labels.
        """
        doubt = selection.doubt
        is_short = len(selection.pods) < replicas
        if not is_short and selection.active <= replicas:
            doubt.since = None
            return
        now = self._clock()
        doubt.since = now if doubt.since is None else doubt.since
        found = selection.active, replicas
        wait = LIST_AGAIN_SECONDS
        if doubt.checked == found:
            wait = SAME_AGAIN_SECONDS if is_short else float("inf")
        if now - doubt.since >= DOUBT_SECONDS and now - self._listed_at >= wait:
            self._listed_at, doubt.checked = now, found
            self._list_anew()

    def usage(self, fetched: UsageList, selection: PodSelection) -> tuple[UsageRecord, ...]:
        """The usage of the selected pods, and of unlisted pods that the selector would select."""
        if self._fetched is not fetched:
            self._index_usage(fetched)
        records = self._usage
        own = [records[name] for one in selection.sets.values() for name in one if name in records]
        if self._unmatched:
            names = selection.names
            for name in self._unmatched:
                labels = records[name].labels
                if name not in names and labels is not None and selection.selector.matches(labels):
                    own.append(records[name])
        return tuple(own)

    def reading(
        self,
        member: Member,
        path: str,
        scale: Scale,
        selection: PodSelection,
        usage: UsageList | Failure,
        metrics: Answers | None = None,
    ) -> ClusterSnapshot:
        """The reading of the workload at `path` that has this scale and selects these pods.

        It has all that a usual cluster's snapshot has (`controller.federatedhpa.clusters`).
        """
        self.compare(selection, scale.status.replicas)
        numbers, found = selection.scaled_by(path, scale)
        return ClusterSnapshot(
            name=member.name,
            scale=numbers,
            last_replicas=scale.spec.replicas,
            cluster=member.known,
            uid=member.short_uid,
            pods=selection.pods,
            # The list is of the whole namespace. Each decision would otherwise pay for all its pods.
            usage=usage if isinstance(usage, Failure) else self.usage(usage, selection),
            metrics=metrics or {},
            workload=found,
            implausible_for=0.0,
        )

    def change(self, key: Key, old: PodRecord | None, new: PodRecord | None) -> None:
        """Apply a change of the watched pods."""
        old = old if old is not None and self._in_namespace(old) else None
        new = new if new is not None and self._in_namespace(new) else None
        if old is not None and (new is None or new.labels is not old.labels):
            self._remove(old)
            old = None
        if new is not None:
            if old is None:
                self._insert(new)
            else:
                self._label_sets[id(new.labels)][new.name] = new
                self._invalidate(new)
        if (name := key[1]) in self._usage and old is None:
            self._unmatched.discard(name)
            self._unmatched |= self._match({name: self._usage[name]})
            for selection in self._selections.values():
                selection.usage = None  # it may have unlisted pods

    def _add(self, text: str, selector: Selector) -> PodSelection:
        now = self._clock()
        for other, unused in [(t, s) for t, s in self._selections.items() if now - s.used_at > KEEP_SECONDS]:
            del self._selections[other]
            unused.invalidate()  # a look that still has it must not use it
            for known in unused.sets:
                self._matching[known].remove(unused)
        sets = {key: one for key, one in self._label_sets.items() if selector.matches(_labels_of(one))}
        found = self._selections[text] = PodSelection(selector, now, sets)
        for known in sets:
            self._matching[known].append(found)
        return found

    def _in_namespace(self, pod: PodRecord) -> bool:
        # A faulty member may list pods of other namespaces; they must not replace ours.
        return pod.namespace in ("", self._namespace)

    def _insert(self, pod: PodRecord) -> None:
        key = id(pod.labels)
        known = self._label_sets.get(key)
        if known is None:
            matching = [one for one in self._selections.values() if one.selector.matches(pod.labels)]
            known, self._matching[key] = {}, matching
            for sets in (self._label_sets, *(one.sets for one in matching)):
                sets[key] = known
        known[pod.name] = pod
        self._invalidate(pod)

    def _remove(self, pod: PodRecord) -> None:
        key = id(pod.labels)
        self._label_sets[key].pop(pod.name, None)
        self._invalidate(pod)
        if not self._label_sets[key]:
            for sets in (self._label_sets, *(one.sets for one in self._matching.pop(key))):
                del sets[key]

    def _invalidate(self, pod: PodRecord) -> None:
        for selection in self._matching[id(pod.labels)]:
            selection.invalidate()

    def _index_usage(self, fetched: UsageList) -> None:
        places = ("", self._namespace)
        self._fetched = fetched
        self._usage = {one.name: one for one in fetched.value if one.namespace in places}
        self._unmatched = self._match(self._usage)

    def _match(self, records: Mapping[str, UsageRecord]) -> set[str]:
        """Returns the names of the records whose labels no listed pod of the name has."""
        pods, namespace = self._pods, self._namespace
        labelled = [one for one in records.values() if one.labels is not None]
        found = [(one, pods.get((namespace, one.name))) for one in labelled]
        return {one.name for one, pod in found if pod is None or one.labels != pod.labels}


class Look:
    """The parts of the last reading of a workload in one cluster, without the usage of its pods.

    `usage` is the place of the usage in the lists of the members, None if no usage is read.
    """

    __slots__ = ("_changes", "_path", "_pods", "_scales", "index", "member", "scale", "selected", "usage")

    def __init__(
        self,
        member: Member,
        path: str,
        scales: Reflector[Scale],
        pods: Reflector[PodRecord],
        scale: Scale,
        index: PodIndex,
        selected: PodSelection,
    ) -> None:
        self.member, self._path, self._scales, self._pods = member, path, scales, pods
        self._changes = scales.records.changes
        self.scale, self.index, self.selected = scale, index, selected
        self.usage: tuple[Query, Entry[tuple[UsageRecord, ...]] | None] | None = None

    def reading(self, usage: UsageList) -> ClusterSnapshot:
        """The reading with this usage. It is kept unless the pods may be incomplete."""
        selected, known = self.selected, self.selected.reading
        if known is None or known.workload.scale is not self.scale:
            known = self.index.reading(self.member, self._path, self.scale, selected, usage)
        elif selected.usage is not usage:
            known = msgspec.structs.replace(known, usage=self.index.usage(usage, selected))
        if selected.doubt.since is None:
            selected.reading, selected.usage = known, usage
        return known

    def again(
        self,
        member: Member,
        written: ScaleCache,
        lists: SharedLists,
        path: str,
        key: Key,
        max_age: float | None,
        now: float,
    ) -> ClusterSnapshot | None:
        """The reading if nothing but the usage has changed since the last one; None if more may have.

        `max_age` is that of the usage, None without any. Every object asks this of every cluster in every
        period, so all is compared in place.
        """
        scales, pods, selected, generation = self._scales, self._pods, self.selected, member.client.generation
        known = selected.reading
        if known is None or known.workload.scale is not self.scale or self._path != path:
            return None
        if self.member is not member or member.closed or not member.is_sound:
            return None
        if member.client.breaker.reason is not None:
            return None
        if not (scales.proven and pods.proven and scales.generation == generation == pods.generation):
            return None
        if (written.pending or written.forgotten) and written.awaits(member, path):
            return None
        if scales.records.changes != self._changes:
            if scales.get(key) is not self.scale:
                return None
            self._changes = scales.records.changes
        usage = NO_USAGE
        if max_age is not None:
            place, kept = self.usage or (None, None)
            if kept is None or place in lists.slow or kept.flight is not None or kept.error is not None:
                return None
            if kept.fetched is None or now - kept.at > max_age or now >= kept.expires:
                return None
            usage = kept.fetched
        scales.needed_at = pods.needed_at = selected.used_at = now
        if selected.usage is not usage:
            known = msgspec.structs.replace(known, usage=self.index.usage(usage, selected))
            selected.reading, selected.usage = known, usage
        return known


def _labels_of(known: LabelSet) -> Labels:
    return next(iter(known.values())).labels


def pod_index(reflector: Reflector[PodRecord], namespace: str, clock: Callable[[], float]) -> PodIndex:
    """The index of a namespace's pods. It lives as long as the reflector."""
    found = reflector.derived
    if isinstance(found, PodIndex):
        return found
    # The index must not keep the reflector alive.
    list_anew = weakref.WeakMethod(reflector.list_anew)

    def call() -> None:
        if (method := list_anew()) is not None:
            method()

    reflector.derived = index = PodIndex(namespace, reflector.store, clock, call)
    reflector.subscribe(index.change)
    return index
