"""PodMetrics and NodeMetrics of one member, ready to be passed on.

A list is decoded only as far as needed: where each item ends, its name and its namespace. The rest stays a
slice of the member's bytes, into which the name of the cluster is inserted. A list of 20,000 pods therefore
costs microseconds a pod.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise, repeat
from operator import attrgetter

import msgspec

from fedhpa.api.answers import check_list_type
from fedhpa.api.errors import InvalidObject, MetricsUnavailable
from fedhpa.api.json import InvalidJson, decode_json
from fedhpa.api.selectors import FieldSelector, Selector
from fedhpa.api.wire import CLUSTER_ANNOTATION
from fedhpa.kube import Turns
from fedhpa.members import METRICS_API
from metrics_adapter.members.usage_validation import ESCAPE, check_list, check_one
from metrics_adapter.pace import in_slices

# The start of a list item from Go servers: its metadata. The cluster annotation is inserted after this.
ITEM_PREFIX = b'{"metadata":{'
# The start and the end of such a list, and what separates its items.
LIST_HEAD = re.compile(
    rb'\{"kind":"[A-Za-z]+","apiVersion":"[A-Za-z0-9./]+","metadata":\{[^{}\[\]]*\},"items":\[\{"metadata":\{'
)
LIST_END = b"}]}"
ITEM_SEPARATOR = b"}," + ITEM_PREFIX
METADATA_KEY = b'"metadata":'
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
    """One PodMetrics or NodeMetrics of one cluster. `json` is the object without kind and apiVersion.

    `key` is namespace and name in one string, because strings are compared ten times as fast as objects.
    It is unique within a cluster.
    """

    key: str
    cluster: str
    json: bytes

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
        self.size = sum([len(item.json) for item in self.items])

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
        items = _cut(names, body, cluster)
        if items is None:
            # A second pass over the bytes is cheaper than a decode for each item.
            items = _items(names, map(bytes, decode_json(body, _RawItemList).items or ()), cluster)
        return MemberItems(cluster, items)
    except (InvalidObject, UnicodeDecodeError) as error:
        raise MetricsUnavailable(f"its metrics cannot be read: {error}") from error


def decode_one(body: bytes, cluster: str) -> MemberItems:
    """Decodes a member's single PodMetrics or NodeMetrics. Raises MetricsUnavailable."""
    try:
        _check_text(body)
        check_one(body)
        return MemberItems(cluster, _items([decode_json(body, _ItemName)], [body], cluster))
    except (InvalidJson, UnicodeDecodeError) as error:
        raise MetricsUnavailable(f"its metrics cannot be read: {error}") from error


def _check_text(body: bytes) -> None:
    """Raises UnicodeDecodeError for invalid UTF-8. The decoder does not check the parts that it skips."""
    if not body.isascii():
        body.decode()


def _cut(names: Sequence[_ItemName], body: bytes, cluster: str) -> list[Item] | None:
    """Returns the items of a list in the layout of Go servers; None for another layout.

    Each item has metadata. So if the word occurs once for each item, it is nowhere else, and an item begins
    where an object begins with it. Strings cannot contain it, because their quotes would be escaped.
    """
    head, end = LIST_HEAD.match(body), body.rfind(LIST_END)
    if head is None or ESCAPE in body or body[end:].rstrip() != LIST_END:
        return None
    if body.count(METADATA_KEY, head.end()) != len(names) - 1:
        return None
    parts = body[head.end() : end].split(ITEM_SEPARATOR)
    if len(parts) != len(names) or not _is_json(ITEM_PREFIX + parts[-1] + b"}"):
        return None  # Something follows the items, and seems to belong to the last one.
    start, separator = ITEM_PREFIX + _annotation(cluster) + b",", KEY_SEPARATOR
    known = [item.metadata for item in names]
    keys = [one.namespace + separator + one.name for one in known]
    if b'"annotations":' not in body:
        return [Item(key, cluster, b"%b%b}" % (start, part)) for key, part in zip(keys, parts, strict=True)]
    texts = [
        _rewritten(ITEM_PREFIX + part + b"}", cluster) if one.annotations else start + part + b"}"
        for one, part in zip(known, parts, strict=True)
    ]
    return list(map(Item, keys, repeat(cluster), texts))


def _is_json(text: bytes) -> bool:
    try:
        decode_json(text, msgspec.Raw)
    except InvalidJson:
        return False
    return True


def _items(names: Iterable[_ItemName], raws: Iterable[bytes], cluster: str) -> list[Item]:
    start, opening = ITEM_PREFIX + _annotation(cluster) + b",", len(ITEM_PREFIX)
    items, separator = [], KEY_SEPARATOR
    for item, json in zip(names, raws, strict=True):
        metadata = item.metadata
        if json.startswith(ITEM_PREFIX) and not metadata.annotations:
            json = start + json[opening:]
        else:
            json = _rewritten(json, cluster)
        items.append(Item(metadata.namespace + separator + metadata.name, cluster, json))
    return items


def _annotation(cluster: str) -> bytes:
    return b'"annotations":' + msgspec.json.encode({CLUSTER_ANNOTATION: cluster})


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
