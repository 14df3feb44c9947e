"""PodMetrics and NodeMetrics of one member, ready to be passed on.

A list is decoded only as far as needed: where each item ends, its name and its namespace. The rest stays a
slice of the member's bytes. What stands before it, with the name of the cluster, is shared by all items of
the cluster. A list of 20,000 pods therefore costs microseconds a pod.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from operator import attrgetter

import msgspec

from fedhpa.api.errors import InvalidObject, MetricsUnavailable
from fedhpa.api.json import InvalidJson, check_list_type, decode_json
from fedhpa.api.selectors import FieldSelector, Selector
from fedhpa.api.wire import CLUSTER_ANNOTATION
from fedhpa.kube import Turns
from fedhpa.members import METRICS_API
from metrics_adapter.members.usage_validation import check_list, check_one
from metrics_adapter.pace import in_slices

# The start of a list item from Go servers: its metadata. The cluster annotation follows it in our answers.
ITEM_PREFIX = b'{"metadata":{'
ITEM_END = b"}"
# The bytes between two items: the end of one, and what separates it from the next.
SEPARATOR = ITEM_END + b","
LIST_KINDS = ("PodMetricsList", "NodeMetricsList")
ABSENT = msgspec.Raw()
# Separates namespace and name in the key by which items are sorted. No name contains it.
KEY_SEPARATOR = "\0"
# Items sorted in one go. A slice of this size stays in the processor's caches.
SLICE = 512


class _Metadata(msgspec.Struct, frozen=True, gc=False):
    name: str
    namespace: str = ""
    annotations: msgspec.Raw = ABSENT


class _ItemName(msgspec.Struct, frozen=True, gc=False):
    metadata: _Metadata


class _ItemNameList(msgspec.Struct, frozen=True, gc=False):
    items: list[_ItemName] | None
    kind: str = ""
    apiVersion: str = ""


class _RawItemList(msgspec.Struct, frozen=True, gc=False):
    items: list[msgspec.Raw] | None = None


class _Fields(msgspec.Struct, frozen=True):
    """The fields that are passed on of an item whose layout differs from that of Go servers."""

    metadata: dict[str, msgspec.Raw]
    timestamp: msgspec.Raw = ABSENT
    window: msgspec.Raw = ABSENT
    containers: msgspec.Raw = ABSENT
    usage: msgspec.Raw = ABSENT


class _Labels(msgspec.Struct, frozen=True, gc=False):
    labels: dict[str, str] | None = None


class _ItemLabels(msgspec.Struct, frozen=True, gc=False):
    metadata: _Labels = _Labels()


class Item(msgspec.Struct, frozen=True, gc=False):
    """One PodMetrics or NodeMetrics of one cluster.

    `key` is namespace and name in one string, because strings are compared ten times as fast as objects.
    It is unique within a cluster. `opening` and `rest` are the object without kind and apiVersion, after a
    SEPARATOR and without ITEM_END. All items of a cluster share the opening.
    """

    key: str
    cluster: str
    opening: bytes
    rest: bytes

    @classmethod
    def of(cls, key: str, cluster: str, json: bytes) -> Item:
        """Returns the item with this JSON."""
        return cls(key, cluster, SEPARATOR, json[: -len(ITEM_END)])

    @property
    def json(self) -> bytes:
        """The object without kind and apiVersion."""
        return self.opening[len(SEPARATOR) :] + self.rest + ITEM_END

    @property
    def namespace(self) -> str:
        """Empty for cluster-scoped items."""
        return self.key.partition(KEY_SEPARATOR)[0]

    @property
    def name(self) -> str:
        """The name within the namespace."""
        return self.key.partition(KEY_SEPARATOR)[2]


_KEY = attrgetter("key")


class MemberItems:
    """One member's items, sorted by key, and their total size in bytes.

    Immutable and shared by all requests that may use it.
    """

    def __init__(self, cluster: str, items: Sequence[Item]) -> None:
        self.cluster = cluster
        self.items = sorted(items, key=_KEY)
        # The labels of the items that were decoded already.
        self._labels: list[Mapping[str, str]] = []
        # Computed here for one member at a time, so that no request computes it for all members at once.
        self.size = sum([len(item.opening) + len(item.rest) for item in self.items])
        self.size += (len(ITEM_END) - len(SEPARATOR)) * len(self.items)

    def __len__(self) -> int:
        return len(self.items)

    async def joined(self, pieces: Sequence[MemberItems], turns: Turns) -> MemberItems:
        """Returns the items of all pieces of one list."""
        whole = MemberItems(self.cluster, ())
        whole.size = sum(piece.size for piece in pieces)
        runs = [piece.items for piece in pieces if piece.items]
        if all(before[-1].key <= after[0].key for before, after in pairwise(runs)):
            whole.items = [item for run in runs for item in run]
            return whole
        # Two sorted runs are merged at a time, so that no step takes long.
        while len(runs) > 1:
            merged = []
            for index in range(0, len(runs), 2):
                merged.append(sorted(chain.from_iterable(runs[index : index + 2]), key=_KEY))
                await turns.pause()
            runs = merged
        whole.items = runs[0] if runs else []
        return whole

    async def labels(self) -> Sequence[Mapping[str, str]]:
        """Returns the labels of each item, in the order of the items. Decoded once, for all selectors.

        Raises MetricsUnavailable for labels that are not strings.
        """

        def decode(part: slice) -> tuple[()]:
            if len(self._labels) <= part.start:
                found = (decode_json(item.json, _ItemLabels).metadata.labels for item in self.items[part])
                self._labels += [labels or {} for labels in found]
            return ()

        if len(self._labels) < len(self.items):
            try:
                await in_slices(len(self.items), decode)
            except InvalidJson as error:
                raise MetricsUnavailable(f"its metrics cannot be read: {error}") from error
        return self._labels

    async def has_labels(self) -> bool:
        """True if any item has labels. If none has, only the member itself can apply a selector."""
        return any(await self.labels())

    async def select(self, selector: Selector) -> MemberItems:
        """Returns the items whose labels match the selector."""
        labels = await self.labels()

        def selected(part: slice) -> list[Item]:
            pairs = zip(self.items[part], labels[part], strict=True)
            return [item for item, own in pairs if selector.matches(own)]

        return MemberItems(self.cluster, await in_slices(len(labels), selected))

    async def filter(self, fields: FieldSelector) -> MemberItems:
        """Returns the items that a field selector selects."""

        def selected(part: slice) -> list[Item]:
            items = self.items[part]
            return [item for item in items if fields.matches(name=item.name, namespace=item.namespace)]

        return MemberItems(self.cluster, await in_slices(len(self.items), selected))


def merge(answers: Sequence[MemberItems]) -> Sequence[Item]:
    """Returns all items, sorted by namespace, name and cluster."""
    if len(answers) == 1:
        return answers[0].items
    return [item for part in merge_in_slices(answers) for item in part]


def merge_in_slices(answers: Sequence[MemberItems]) -> Iterator[Sequence[Item]]:
    """Yields the same items in slices of some hundreds, so that other requests are served between two slices.

    All answers are cut at the key at which the longest one is cut, so each slice is sorted on its own.
    """
    answers = sorted(answers, key=attrgetter("cluster"))
    longest = max((answer.items for answer in answers), key=len, default=[])
    step = max(SLICE // max(len(answers), 1), 1)
    begins = [0] * len(answers)
    for cut in (*longest[step::step], None):
        part: list[Item] = []
        for number, answer in enumerate(answers):
            items, begin = answer.items, begins[number]
            end = len(items) if cut is None else bisect_left(items, cut.key, begin, key=_KEY)
            part += items[begin:end]
            begins[number] = end
        # The sort is stable: items with equal keys stay sorted by cluster.
        part.sort(key=_KEY)
        yield part


def decode_list(body: bytes, cluster: str) -> MemberItems:
    """Decodes a member's PodMetricsList or NodeMetricsList. Raises MetricsUnavailable."""
    try:
        _check_text(body)
        page = decode_json(body, _ItemNameList)
        check_list_type(page, len(body), LIST_KINDS, (METRICS_API,))
        names = page.items or ()
        check_list(body, len(names))
        # A second pass over the bytes is cheaper than a decode for each item.
        raws = decode_json(body, _RawItemList).items or ()
        return MemberItems(cluster, _items(names, map(bytes, raws), cluster))
    except (InvalidObject, UnicodeDecodeError) as error:
        raise MetricsUnavailable(f"its metrics cannot be read: {error}") from error


def decode_one(body: bytes, cluster: str) -> MemberItems:
    """Decodes a member's single PodMetrics or NodeMetrics. Raises MetricsUnavailable."""
    try:
        _check_text(body)
        check_one(body)
        return MemberItems(cluster, _items([decode_json(body, _ItemName)], [body.strip()], cluster))
    except (InvalidJson, UnicodeDecodeError) as error:
        raise MetricsUnavailable(f"its metrics cannot be read: {error}") from error


def _check_text(body: bytes) -> None:
    """Raises UnicodeDecodeError for invalid UTF-8. The decoder does not check the parts that it skips."""
    if not body.isascii():
        body.decode()


def _items(names: Iterable[_ItemName], raws: Iterable[bytes], cluster: str) -> list[Item]:
    opening, rest = _opening(cluster), slice(len(ITEM_PREFIX), -len(ITEM_END))
    items = []
    for item, json in zip(names, raws, strict=True):
        metadata = item.metadata
        key = f"{metadata.namespace}{KEY_SEPARATOR}{metadata.name}"
        if json.startswith(ITEM_PREFIX) and not metadata.annotations:
            items.append(Item(key, cluster, opening, json[rest]))
        else:
            items.append(Item.of(key, cluster, _rewritten(json, cluster)))
    return items


def _opening(cluster: str) -> bytes:
    """Returns what stands before an item that has no annotation but that of its cluster."""
    annotations = msgspec.json.encode({CLUSTER_ANNOTATION: cluster})
    return b'%b%b"annotations":%b,' % (SEPARATOR, ITEM_PREFIX, annotations)


def _rewritten(json: bytes, cluster: str) -> bytes:
    item = decode_json(json, _Fields)
    given = item.metadata.get("annotations", b"null")
    annotations = decode_json(given, dict[str, str] | None) or {}
    annotations[CLUSTER_ANNOTATION] = cluster
    parts = [b'{"metadata":', msgspec.json.encode({**item.metadata, "annotations": annotations})]
    for name in ("timestamp", "window", "containers", "usage"):
        value = getattr(item, name)
        if value:
            parts += (b',"', name.encode(), b'":', value)
    return b"".join((*parts, b"}"))
