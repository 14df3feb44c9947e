"""FederatedHPAs that select the same pods stop each other (Kubernetes HPA 1.36: AmbiguousSelector).

The objects of a namespace may be the work of several processes. Each process watches all of them, and takes
the selectors of those that are not its own from their statuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from controller.federatedhpa.memory import ObjectMemory
from controller.loop import Foreign
from fedhpa.api.errors import InvalidObject
from fedhpa.api.free_json import at, text_at
from fedhpa.api.selectors import EQUALS, IN, Selector, parse_selector
from fedhpa.decision import SELECTOR_SEPARATOR, Blocked, ClusterSnapshot
from fedhpa.kube import Key

# An object without a status delays the others of its namespace for no longer: two times a Lease. Until then
# its process may not have begun, and two new objects must not both scale before they know each other.
UNKNOWN_SECONDS: Final = 30.0
NEIGHBOURS_UNKNOWN: Final = "NeighboursUnknown"


def ambiguous_with(
    key: Key,
    labels: Mapping[str, Iterable[Mapping[str, str]]],
    selectors: Mapping[Key, Mapping[str, Selector]],
    same_target: Iterable[Key] = (),
) -> tuple[str, ...]:
    """The FederatedHPAs (namespace/name, `key` included) that select pods of `key`; empty if only `key` does.

    `labels` are the label sets of its pods, by cluster; `selectors` are those of all objects, by cluster.
    `same_target` are the objects with the same target, which select the same pods once there are any.
    """
    namespace = key[0]
    found = {other for other in same_target if other != key and other[0] == namespace}
    for other, by_cluster in selectors.items():
        if other == key or other[0] != namespace or other in found:
            continue
        for cluster, label_sets in labels.items():
            selector = by_cluster.get(cluster)
            if selector is not None and any(selector.matches(own) for own in label_sets):
                found.add(other)
                break
    if not found:
        return ()
    return tuple(sorted(f"{one[0]}/{one[1]}" for one in (*found, key)))


class Neighbour(Foreign, frozen=True):
    """An object of another shard: its selectors as its status shows them, and if it has a status."""

    selectors: str = ""
    decided: bool = False

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Neighbour:
        """Returns what is known of an object. One that is being deleted scales nothing any more."""
        if raw["metadata"].get("deletionTimestamp"):
            return cls(decided=True)
        decided = bool(at(raw, "status", "conditions"))
        return cls(text_at(raw, "status", "summary", "selector"), decided=decided)


def _required_label(selector: Selector) -> tuple[str, str] | None:
    """Returns a label that each matching object has; None if the selector requires no single value."""
    for each in selector.requirements:
        if each.operator in (EQUALS, IN) and len(each.values) == 1:
            return each.key, each.values[0]
    return None


class _Selectors:
    """The selectors of a namespace's objects, found by a label that they all require.

    A comparison of each object with each other one would need hours of CPU where a namespace has thousands.
    """

    def __init__(self) -> None:
        self._of: dict[Key, frozenset[Selector]] = {}
        # By a label that the selector requires; None for selectors that require none.
        self._keys: dict[tuple[str, str] | None, set[Key]] = {}

    def put(self, key: Key, selectors: Iterable[Selector]) -> bool:
        """Store the selectors of an object; none remove it. Returns False if it had these."""
        new, old = frozenset(selectors), self._of.get(key, frozenset())
        if new == old:
            return False
        for selector in old:
            place = _required_label(selector)
            keys = self._keys.get(place, set())
            keys.discard(key)
            if not keys:
                self._keys.pop(place, None)
        if new:
            self._of[key] = new
        else:
            self._of.pop(key, None)
        for selector in new:
            self._keys.setdefault(_required_label(selector), set()).add(key)
        return True

    def candidates(self, label_sets: Iterable[Mapping[str, str]]) -> set[Key]:
        """The objects whose selectors may match one of these label sets."""
        found = set(self._keys.get(None, ()))
        for label in {label for labels in label_sets for label in labels.items()}:
            found |= self._keys.get(label, set())
        return found

    def __getitem__(self, key: Key) -> Iterator[Selector]:
        return iter(self._of.get(key, ()))

    def __contains__(self, key: object) -> bool:
        return key in self._of

    def __len__(self) -> int:
        return len(self._of)


class Ambiguities:
    """The objects whose selectors or targets match the same pods; compared again only after a change."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        # By namespace, how often the selectors or targets of any of its objects changed.
        self._versions: dict[str, int] = {}
        # Group, kind and name of each object's target, and the objects of each target.
        self._targets: dict[Key, tuple[str, str, str]] = {}
        self._by_target: dict[tuple[str, tuple[str, str, str]], set[Key]] = {}
        # By namespace, the selectors of our objects, and those of other shards' objects.
        self._own: dict[str, _Selectors] = {}
        self._others: dict[str, _Selectors] = {}
        # By namespace, the objects of other shards without a status, and when they were first seen.
        self._undecided: dict[str, dict[Key, float]] = {}

    def forget(self, key: Key) -> None:
        """Drop what is known of a deleted object."""
        target = self._targets.pop(key, None)
        if target is not None:
            objects = self._by_target[key[0], target]
            objects.discard(key)
            if not objects:
                del self._by_target[key[0], target]
        if self._put(self._own, key, ()) or target is not None:
            self._compare_again(key[0])

    def note_target(self, key: Key, spec: Mapping[str, Any], *, scales: bool) -> None:
        """Store the object's target. An object that `scales` nothing is forgotten."""
        if not scales:
            self.forget(key)
            return
        reference = spec.get("scaleTargetRef")
        known = reference if isinstance(reference, Mapping) else {}
        # All versions of a group serve the same object.
        group = str(known.get("apiVersion") or "").rpartition("/")[0]
        target = (group, str(known.get("kind") or ""), str(known.get("name") or ""))
        if self._targets.get(key) != target:
            self.forget(key)
            self._targets[key] = target
            self._by_target.setdefault((key[0], target), set()).add(key)
            self._compare_again(key[0])

    def note_selectors(self, key: Key, memory: ObjectMemory, readings: Mapping[str, ClusterSnapshot]) -> None:
        """Store the object's selectors, as they were read in each cluster."""
        workloads = {name: reading.workload for name, reading in readings.items()}
        if workloads != memory.workloads:
            memory.workloads = workloads  # the same object until one differs
        elif key in self._own.get(key[0], ()):
            return
        found = ((name, workload.selector) for name, workload in workloads.items())
        selectors = {name: selector for name, selector in found if selector is not None}
        if self._put(self._own, key, selectors.values()) or selectors != memory.selectors:
            self._compare_again(key[0])
            memory.selectors = selectors

    def note_neighbour(self, key: Key, neighbour: Neighbour | None) -> None:
        """Store what is known of an object of another shard; None if it is gone, or ours."""
        undecided = self._undecided.setdefault(key[0], {})
        if neighbour is None or neighbour.decided:
            undecided.pop(key, None)
        else:
            undecided.setdefault(key, self._clock())
        if not undecided:
            del self._undecided[key[0]]
        if self._put(self._others, key, () if neighbour is None else _parsed(neighbour.selectors)):
            self._compare_again(key[0])

    def waits(self, key: Key, known: Iterable[Key], memories: Mapping[Key, ObjectMemory]) -> Blocked | bool:
        """True while an own object of the namespace was never reconciled; else what to show of others.

        `known` are the keys of all own objects. Any of them may select the same pods. What is shown names
        objects of other shards that have no status yet and were created lately.
        """
        near = (memories.get(other) for other in known if other[0] == key[0])
        if not all(memory is not None and memory.reconciled for memory in near):
            return True
        now, undecided = self._clock(), self._undecided.get(key[0], {})
        unknown = [other for other, since in undecided.items() if now - since < UNKNOWN_SECONDS]
        if not unknown:
            return False
        more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        text = f"waits for the first status of {'/'.join(min(unknown))}{more}, which may select the same pods"
        return Blocked(NEIGHBOURS_UNKNOWN, text)

    def of(
        self,
        key: Key,
        memory: ObjectMemory,
        readings: Mapping[str, ClusterSnapshot],
        memories: Mapping[Key, ObjectMemory],
    ) -> tuple[str, ...]:
        """The objects with the same target or the same pods; `memories` are those of all own objects.

        Two objects with one target are ambiguous while it has no pods, too: their bounds may differ.
        """
        version, workloads = self._versions.get(key[0], 0), memory.workloads
        before, seen, known = memory.ambiguity_basis or (None, None, None)
        if before == version and seen is workloads:
            return memory.ambiguous_with
        found = {name: reading.workload.label_sets for name, reading in readings.items()}
        labels = {name: sets for name, sets in found.items() if sets}
        if before != version or known != labels:
            memory.ambiguous_with = self._compare(key, labels, memories)
        memory.ambiguity_basis = version, workloads, labels
        return memory.ambiguous_with

    def _compare(
        self,
        key: Key,
        labels: Mapping[str, Iterable[Mapping[str, str]]],
        memories: Mapping[Key, ObjectMemory],
    ) -> tuple[str, ...]:
        sets = [each for label_sets in labels.values() for each in label_sets]
        own, others = (table.get(key[0], _Selectors()) for table in (self._own, self._others))
        selectors = {other: memories[other].selectors for other in own.candidates(sets) if other in memories}
        target = self._targets.get(key)  # None if the object was deleted meanwhile
        same = set() if target is None else self._by_target.get((key[0], target), set())
        # A status has the selectors of all clusters, which are nearly always one.
        far = {
            other
            for other in others.candidates(sets)
            if any(selector.matches(each) for selector in others[other] for each in sets)
        }
        return ambiguous_with(key, labels, selectors, {*same, *far})

    def _put(self, table: dict[str, _Selectors], key: Key, selectors: Iterable[Selector]) -> bool:
        known = table.setdefault(key[0], _Selectors())
        changed = known.put(key, selectors)
        if not known:
            del table[key[0]]
        return changed

    def _compare_again(self, namespace: str) -> None:
        self._versions[namespace] = self._versions.get(namespace, 0) + 1


def _parsed(text: str) -> list[Selector]:
    """Returns the selectors of a status. One that another program spoiled selects nothing."""
    found = []
    for each in filter(None, text.split(SELECTOR_SEPARATOR)):
        try:
            found.append(parse_selector(each))
        except InvalidObject:
            continue
    return found
