"""The pods of a namespace of one cluster by selector, and their usage, kept ready for every look.

A namespace may hold thousands of pods and autoscalers: what each selector selects is kept up to date by the
watch's changes instead of being searched at each look. Pods of one workload share one set of labels
(`fedhpa.scaling.records`), so each set is compared with each selector once.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from fedhpa.api.selectors import Selector
from fedhpa.cache import Fetched
from fedhpa.kube.reflector import Change, Key, Reflector
from fedhpa.scaling.records import PodRecord, UsageRecord

# A selector that nobody used for this long belongs to no autoscaler any more: the longest period is 300 s.
KEEP_SECONDS: Final = 900.0

Labels = Mapping[str, str]


@dataclass(eq=False)
class _LabelSet:
    """Labels that some pods share, these pods by name, and the selectors that match the labels."""

    labels: Labels
    matching: list[Selected]
    pods: dict[str, PodRecord] = field(default_factory=dict)


class Selected:
    """The pods of one selector: those of the label sets that it matches."""

    def __init__(self, selector: Selector, used_at: float, sets: Iterable[_LabelSet]) -> None:
        self.selector = selector
        self.used_at = used_at
        self.sets = list(sets)
        self._pods: tuple[PodRecord, ...] | None = None

    @property
    def pods(self) -> tuple[PodRecord, ...]:
        """All of them; the same tuple until one changes."""
        if self._pods is None:
            self._pods = tuple([pod for one in self.sets for pod in one.pods.values()])
        return self._pods

    @property
    def names(self) -> Collection[str]:
        """Their names."""
        if len(self.sets) == 1:
            return self.sets[0].pods.keys()
        return {name for one in self.sets for name in one.pods}

    @property
    def label_sets(self) -> tuple[Labels, ...]:
        """The sets of labels that they have."""
        return tuple([one.labels for one in self.sets])

    def stale(self) -> None:
        """Note that one of them changed."""
        self._pods = None


@dataclass
class _Usage:
    """One list of usage by pod's name; `odd` are the names whose pods are not listed with the same labels."""

    fetched: Fetched[tuple[UsageRecord, ...]]
    by_name: dict[str, UsageRecord]
    odd: set[str] = field(default_factory=set)


class PodSelections:
    """One namespace of one cluster; follows the changes of its pods from `subscribe` on."""

    def __init__(
        self, namespace: str, pods: Mapping[Key, PodRecord], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._namespace = namespace
        self._pods = pods
        self._clock = clock
        self._selected: dict[str, Selected] = {}
        self._label_sets: dict[int, _LabelSet] = {}
        self._usage: _Usage | None = None
        for pod in pods.values():
            if self._is_here(pod):
                self._enter(pod)

    def selected(self, text: str, selector: Selector) -> Selected:
        """The pods of the selector, which is written as `text`."""
        found = self._selected.get(text)
        if found is None:
            found = self._add(text, selector)
        found.used_at = self._clock()
        return found

    def usage(self, fetched: Fetched[tuple[UsageRecord, ...]], selected: Selected) -> tuple[UsageRecord, ...]:
        """The usage of the selected pods, and of pods that are not listed and would be selected."""
        usage = self._usage
        if usage is None or usage.fetched is not fetched:
            usage = self._usage = self._read(fetched)
        records = usage.by_name
        names = selected.names
        own = [records[name] for name in names if name in records]
        for name in usage.odd:
            labels = records[name].labels
            if name not in names and labels is not None and selected.selector.matches(labels):
                own.append(records[name])
        return tuple(own)

    def change(self, change: Change[PodRecord]) -> None:
        """Take over a change of the pods."""
        old = change.old if change.old is not None and self._is_here(change.old) else None
        new = change.new if change.new is not None and self._is_here(change.new) else None
        if old is not None and (new is None or new.labels is not old.labels):
            self._leave(old)
            old = None
        if new is not None:
            if old is None:
                self._enter(new)
            else:
                known = self._label_sets[id(new.labels)]
                known.pods[new.name] = new
                for selected in known.matching:
                    selected.stale()
        usage = self._usage
        if usage is not None and change.key[1] in usage.by_name and old is None:
            self._judge(usage, change.key[1], usage.by_name[change.key[1]])

    def _add(self, text: str, selector: Selector) -> Selected:
        now = self._clock()
        for other, unused in [(t, s) for t, s in self._selected.items() if now - s.used_at > KEEP_SECONDS]:
            del self._selected[other]
            for known in self._label_sets.values():
                known.matching = [one for one in known.matching if one is not unused]
        sets = [known for known in self._label_sets.values() if selector.matches(known.labels)]
        found = self._selected[text] = Selected(selector, now, sets)
        for known in sets:
            known.matching.append(found)
        return found

    def _is_here(self, pod: PodRecord) -> bool:
        # A member that lists pods of other namespaces must not hide ours behind them.
        return pod.namespace in ("", self._namespace)

    def _enter(self, pod: PodRecord) -> None:
        known = self._label_sets.get(id(pod.labels))
        if known is None:
            matching = [one for one in self._selected.values() if one.selector.matches(pod.labels)]
            known = self._label_sets[id(pod.labels)] = _LabelSet(pod.labels, matching)
            for selected in matching:
                selected.sets.append(known)
        known.pods[pod.name] = pod
        for selected in known.matching:
            selected.stale()

    def _leave(self, pod: PodRecord) -> None:
        known = self._label_sets[id(pod.labels)]
        known.pods.pop(pod.name, None)
        for selected in known.matching:
            selected.stale()
        if not known.pods:
            del self._label_sets[id(pod.labels)]
            for selected in known.matching:
                selected.sets.remove(known)

    def _read(self, fetched: Fetched[tuple[UsageRecord, ...]]) -> _Usage:
        places = ("", self._namespace)
        usage = _Usage(fetched, {one.name: one for one in fetched.value if one.namespace in places})
        for name, record in usage.by_name.items():
            self._judge(usage, name, record)
        return usage

    def _judge(self, usage: _Usage, name: str, record: UsageRecord) -> None:
        """Note whether a record must be looked at beside the pods: it has labels that no listed pod shows."""
        pod = self._pods.get((self._namespace, name))
        known = pod is not None and (record.labels is pod.labels or record.labels == pod.labels)
        if known or record.labels is None:
            usage.odd.discard(name)
        else:
            usage.odd.add(name)


class Selections:
    """The selections of every namespace that is watched, by what watches it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: weakref.WeakKeyDictionary[Reflector[PodRecord], PodSelections] = (
            weakref.WeakKeyDictionary()
        )

    def of(self, reflector: Reflector[PodRecord], namespace: str) -> PodSelections:
        """The selections of a namespace's pods; they end with the reflector."""
        found = self._known.get(reflector)
        if found is None:
            found = self._known[reflector] = PodSelections(namespace, reflector.store, self._clock)
            reflector.subscribe(found.change)
        return found
