"""Metrics of one member, ready to be passed on.

A list is decoded only as far as it must be understood: where each item ends, its name and namespace. The
rest is a slice of the member's bytes, into which the name of the cluster is spliced. That is what makes a
list of 20,000 pods cost microseconds a pod.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import compress
from operator import attrgetter

import msgspec

from fedhpa.api.errors import MetricsUnavailable
from fedhpa.api.selectors import Selector
from fedhpa.api.wire import CLUSTER_ANNOTATION
from metrics_adapter.members.usage import check_list, check_one

# How Go's servers write an item of a list: metadata first. The cluster is spliced in right behind this.
OPENING = b'{"metadata":{'
ABSENT = msgspec.Raw()
# Stands between namespace and name in what items sort by; no name has it.
BETWEEN = "\0"
# So many items are put in order at once: what is as large as this stays in the processor's caches.
SLICE = 512


class _Metadata(msgspec.Struct, frozen=True, gc=False):
    name: str
    namespace: str = ""
    annotations: msgspec.Raw = ABSENT


class _Named(msgspec.Struct, frozen=True, gc=False):
    metadata: _Metadata


class _NamedList(msgspec.Struct, frozen=True, gc=False):
    items: list[_Named] | None = None


class _RawList(msgspec.Struct, frozen=True, gc=False):
    items: list[msgspec.Raw] | None = None


class _Fields(msgspec.Struct, frozen=True):
    """What is passed on of an item that is not written as Go's servers write them."""

    metadata: dict[str, msgspec.Raw]
    timestamp: msgspec.Raw = ABSENT
    window: msgspec.Raw = ABSENT
    containers: msgspec.Raw = ABSENT
    usage: msgspec.Raw = ABSENT


class _Labels(msgspec.Struct, frozen=True, gc=False):
    labels: dict[str, str] | None = None


class _Labelled(msgspec.Struct, frozen=True, gc=False):
    metadata: _Labels = _Labels()


_DECODE_NAMES = msgspec.json.Decoder(_NamedList).decode
_DECODE_RAW = msgspec.json.Decoder(_RawList).decode
_DECODE_NAME = msgspec.json.Decoder(_Named).decode
_DECODE_LABELS = msgspec.json.Decoder(_Labelled).decode


class Item(msgspec.Struct, frozen=True, gc=False):
    """One PodMetrics or NodeMetrics of one cluster; `json` is the object without kind and apiVersion.

    `key` is its namespace and its name, in one string because strings are compared ten times as fast as
    objects. No two items of one cluster share it.
    """

    key: str
    cluster: str
    json: bytes

    @property
    def namespace(self) -> str:
        """Empty for what has none."""
        return self.key.partition(BETWEEN)[0]

    @property
    def name(self) -> str:
        """Within the namespace."""
        return self.key.partition(BETWEEN)[2]


_KEY = attrgetter("key")


class MemberItems:
    """What one member answered: its items, sorted, and the bytes of all. Immutable; shared by all requests
    that may use it.
    """

    def __init__(self, cluster: str, items: Sequence[Item]) -> None:
        self.cluster = cluster
        self.items = sorted(items, key=_KEY)
        # Reckoned here, a member at a time, not for all members in one go.
        self.size = sum([len(item.json) for item in self.items])

    @cached_property
    def labels(self) -> Sequence[Mapping[str, str]]:
        """The labels of each item, in the items' order; decoded once, when the first selector comes.

        Raises MetricsUnavailable where they are none.
        """
        try:
            return [_DECODE_LABELS(item.json).metadata.labels or {} for item in self.items]
        except msgspec.DecodeError as error:
            raise MetricsUnavailable(f"its metrics cannot be read: {error}") from error

    @property
    def labelled(self) -> bool:
        """Whether any item has labels; a member whose items have none must be asked with the selector."""
        return any(self.labels)

    def selected(self, selector: Selector) -> MemberItems:
        """The items whose labels the selector matches."""
        matches = [selector.matches(labels) for labels in self.labels]
        return MemberItems(self.cluster, list(compress(self.items, matches)))


def merge(answers: Sequence[MemberItems]) -> Sequence[Item]:
    """All items, by namespace, name and cluster."""
    if len(answers) == 1:
        return answers[0].items
    return [item for part in merged_slices(answers) for item in part]


def merged_slices(answers: Sequence[MemberItems]) -> Iterator[Sequence[Item]]:
    """The same, some hundreds at a time: between two of them others get their turn.

    Where the longest answer is cut, all others are, so that each slice can be sorted by itself.
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
        # Of equal keys the first cluster's stay first.
        part.sort(key=_KEY)
        yield part


def decode_list(body: bytes, cluster: str) -> MemberItems:
    """A member's PodMetricsList or NodeMetricsList. Raises MetricsUnavailable if it is none."""
    try:
        # Twice over the bytes, once for names and once for slices, is cheaper than once for each item.
        _check_text(body)
        named, raw = _DECODE_NAMES(body).items or (), _DECODE_RAW(body).items or ()
        check_list(body, len(named))
        return MemberItems(cluster, _items(named, raw, cluster))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MetricsUnavailable(f"its metrics cannot be read: {error}") from error


def decode_one(body: bytes, cluster: str) -> MemberItems:
    """A member's single PodMetrics or NodeMetrics. Raises MetricsUnavailable if it is none."""
    try:
        _check_text(body)
        check_one(body)
        return MemberItems(cluster, _items([_DECODE_NAME(body)], [msgspec.Raw(body)], cluster))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MetricsUnavailable(f"its metrics cannot be read: {error}") from error


def _check_text(body: bytes) -> None:
    """UnicodeDecodeError for bytes that are no text: what is passed over is not looked at by a decoder."""
    if not body.isascii():
        body.decode()


def _items(named: Iterable[_Named], raws: Iterable[msgspec.Raw], cluster: str) -> list[Item]:
    start, opening = OPENING + _annotation(cluster) + b",", len(OPENING)
    items, between = [], BETWEEN
    for item, raw in zip(named, raws, strict=True):
        metadata, json = item.metadata, bytes(raw)
        if json.startswith(OPENING) and not metadata.annotations:
            json = start + json[opening:]
        else:
            json = _rewritten(json, cluster)
        items.append(Item(metadata.namespace + between + metadata.name, cluster, json))
    return items


def _annotation(cluster: str) -> bytes:
    return b'"annotations":' + msgspec.json.encode({CLUSTER_ANNOTATION: cluster})


def _rewritten(json: bytes, cluster: str) -> bytes:
    item = msgspec.json.decode(json, type=_Fields)
    given = item.metadata.get("annotations", b"null")
    annotations = msgspec.json.decode(given, type=dict[str, str] | None) or {}
    annotations[CLUSTER_ANNOTATION] = cluster
    parts = [b'{"metadata":', msgspec.json.encode({**item.metadata, "annotations": annotations})]
    for name in ("timestamp", "window", "containers", "usage"):
        value = getattr(item, name)
        if value:
            parts += (b',"', name.encode(), b'":', value)
    return b"".join((*parts, b"}"))
