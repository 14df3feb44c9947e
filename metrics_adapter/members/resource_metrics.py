"""PodMetrics and NodeMetrics of one member, ready to be passed on.

The items of a list stay the bytes that the member sent. In the form that metrics-server writes, one
replacement puts the name of the cluster into all items, and one pass of the decoder proves that each item of
the result has it. A list of 20,000 pods therefore costs a microsecond a pod. Items of any other form are
rewritten one by one.

One value that a client cannot read would spoil the whole answer for kubectl and every other client, and
negative usage would mislead them. A member that sends either counts as unavailable.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Generic, TypeVar

import msgspec

from fedhpa.api.errors import InvalidObject, InvalidQuantity, MetricsUnavailable
from fedhpa.api.json import InvalidJson, check_list_type, decode_json
from fedhpa.api.quantity import Quantity
from fedhpa.api.selectors import FieldSelector, Selector
from fedhpa.api.wire import CLUSTER_ANNOTATION, RawQuantity
from fedhpa.kube import Turns
from fedhpa.members import METRICS_API
from metrics_adapter.pace import in_slices, take

T = TypeVar("T")

LIST_KINDS = ("PodMetricsList", "NodeMetricsList")
# How a list, an item and its metadata begin in answers of Go servers.
LIST_OPENING = b'"items":['
ITEM_OPENING = b'{"metadata":{'
COMMON_ITEM = ITEM_OPENING + b'"name":"'
# Finds usage in another form than metrics-server writes. One letter less makes the search twice as fast.
UNCOMMON_USAGE = re.compile(
    rb'usage"(?!:\{"cpu":"[0-9]++[num]?+","memory":"[0-9]++(?:[KMGTPE]i|[kMGTPE])?+"\})'
).search
# An escape sequence can spell the same key in another way.
ESCAPE = b"\\"
ANNOTATION = CLUSTER_ANNOTATION.encode()
ABSENT = msgspec.Raw()
# Bytes, and number, of items that are passed on or decoded in one go. A process returns larger blocks to the
# system when they are freed (`fedhpa.serving.process`), and TLS would clear the pages of each piece again.
MAX_TEXT = 240 * 1024
PART = 512


class _Annotations(msgspec.Struct, frozen=True, gc=False):
    """Annotations with that of the cluster."""

    cluster: str = msgspec.field(name=CLUSTER_ANNOTATION)


class _CommonMetadata(msgspec.Struct, frozen=True, gc=False):
    name: str
    annotations: _Annotations
    namespace: str = ""


class _Object(msgspec.Struct, frozen=True, gc=False):
    """Any object."""


class _CommonItem(msgspec.Struct, frozen=True, gc=False):
    """An item after the name of its cluster was put in. UNCOMMON_USAGE has read its usage."""

    metadata: _CommonMetadata
    containers: list[_Object] = []


class _Metadata(msgspec.Struct, frozen=True, gc=False):
    name: str
    namespace: str = ""
    annotations: dict[str, str] | msgspec.UnsetType | None = msgspec.UNSET


class _Container(msgspec.Struct, frozen=True, gc=False):
    usage: dict[str, RawQuantity] | None = None


class _AnyItem(msgspec.Struct, frozen=True, gc=False):
    metadata: _Metadata
    containers: list[_Container] | None = None
    usage: dict[str, RawQuantity] | None = None


class _List(msgspec.Struct, Generic[T], frozen=True, gc=False):
    items: list[T] | None
    kind: str = ""
    apiVersion: str = ""


class _Fields(msgspec.Struct, frozen=True):
    """The fields that are passed on of an item that does not begin with its metadata."""

    metadata: dict[str, msgspec.Raw]
    timestamp: msgspec.Raw = ABSENT
    window: msgspec.Raw = ABSENT
    containers: msgspec.Raw = ABSENT
    usage: msgspec.Raw = ABSENT


class _Labels(msgspec.Struct, frozen=True, gc=False):
    labels: dict[str, str] | None = None


class _LabelledItem(msgspec.Struct, frozen=True, gc=False):
    metadata: _Labels = _Labels()


class _NamedItem(msgspec.Struct, frozen=True, gc=False):
    metadata: _Metadata


class Item(msgspec.Struct, frozen=True, gc=False):
    """One PodMetrics or NodeMetrics of one cluster. `json` is the object without kind and apiVersion."""

    cluster: str
    namespace: str
    name: str
    json: bytes


class MemberItems:
    """One member's items in the order in which it sent them; immutable and shared by all requests.

    `texts` are their JSON in parts of some hundred kilobytes. Each item follows a comma, and `size` is the
    sum of the bytes.
    """

    def __init__(
        self, cluster: str, texts: Sequence[bytes] = (), count: int = 0, namespaces: Iterable[str] = ()
    ) -> None:
        self.cluster = cluster
        self.texts = texts
        self.size = sum(map(len, texts))
        self.namespaces = frozenset(namespaces)
        self._count = count
        # The items and their labels, read by the first selector: of so many parts until now.
        self._labelled: list[tuple[msgspec.Raw, Mapping[str, str]]] = []
        self._parts_labelled = 0

    @classmethod
    def of(
        cls, cluster: str, objects: Sequence[bytes | msgspec.Raw], namespaces: Iterable[str]
    ) -> MemberItems:
        """Returns the items with these texts, which have the annotation of the cluster."""
        parts = (objects[begin : begin + PART] for begin in range(0, len(objects), PART))
        return cls(cluster, [b",".join((b"", *part)) for part in parts], len(objects), namespaces)

    def __len__(self) -> int:
        return self._count

    async def joined(self, pieces: Sequence[MemberItems], turns: Turns) -> MemberItems:
        """Returns the items of all pieces of one list."""
        texts = []
        for text in grouped(text for piece in pieces for text in piece.texts):
            texts.append(text)
            await turns.pause()
        namespaces = frozenset().union(*(piece.namespaces for piece in pieces))
        return MemberItems(self.cluster, texts, sum(map(len, pieces)), namespaces)

    def items(self) -> Iterator[list[Item]]:
        """Yields the items of one part after the other."""
        for text in self.texts:
            yield [
                Item(self.cluster, item.metadata.namespace, item.metadata.name, bytes(json))
                for item, json in _read(text, _NamedItem)
            ]

    async def select(self, selector: Selector) -> MemberItems | None:
        """Returns the items whose labels match the selector.

        Returns None if no item has labels: only the member itself can then apply a selector. Raises
        MetricsUnavailable for labels that are not strings.
        """
        try:
            for index in range(len(self.texts)):
                await take(partial(self._read_labels, index))
        except InvalidJson as error:
            raise MetricsUnavailable(f"its metrics cannot be read: {error}") from error
        if not any(labels for _, labels in self._labelled):
            return None

        def selected(part: slice) -> list[msgspec.Raw]:
            return [json for json, labels in self._labelled[part] if selector.matches(labels)]

        found = await in_slices(len(self._labelled), selected)
        return MemberItems.of(self.cluster, found, self.namespaces)

    async def filter(self, fields: FieldSelector) -> MemberItems:
        """Returns the items that a field selector selects."""
        found: list[msgspec.Raw] = []
        for text in self.texts:
            pairs = await take(partial(_read, text, _NamedItem))
            found += await in_slices(len(pairs), partial(_named, pairs, fields))
        return MemberItems.of(self.cluster, found, self.namespaces)

    def _read_labels(self, index: int) -> None:
        if index == self._parts_labelled:
            pairs = _read(self.texts[index], _LabelledItem)
            self._labelled += [(json, item.metadata.labels or {}) for item, json in pairs]
            self._parts_labelled += 1


def all_items(answers: Iterable[MemberItems]) -> Iterator[list[Item]]:
    """Yields the items of all clusters, of one part after the other."""
    return chain.from_iterable(answer.items() for answer in answers)


def grouped(texts: Iterable[bytes]) -> Iterator[bytes]:
    """Yields texts joined to some hundred kilobytes each. A long one is not copied."""
    held: list[bytes] = []
    size = 0
    for text in texts:
        if held and size + len(text) > MAX_TEXT:
            yield b"".join(held)
            held, size = [], 0
        held.append(text)
        size += len(text)
    if held:
        yield b"".join(held)


def _named(
    pairs: Sequence[tuple[_NamedItem, msgspec.Raw]], fields: FieldSelector, part: slice
) -> list[msgspec.Raw]:
    return [
        json
        for item, json in pairs[part]
        if fields.matches(name=item.metadata.name, namespace=item.metadata.namespace)
    ]


def _read(text: bytes, kind: type[T]) -> Sequence[tuple[T, msgspec.Raw]]:
    """Returns the items of a part, each with its JSON. Only labels can be refused here."""
    body = b"".join((b"[", memoryview(text)[1:], b"]"))
    # The part was decoded before, so that it is not too large.
    decoded = [decode_json(body, list[each], max_values=len(text)) for each in (kind, msgspec.Raw)]  # type: ignore[valid-type]  # types made at run time
    return list(zip(*decoded, strict=True))


def decode_list(body: bytes, cluster: str) -> MemberItems:
    """Decodes a member's PodMetricsList or NodeMetricsList. Raises MetricsUnavailable."""
    try:
        return _common_list(body, cluster) or _any_list(body, cluster)
    except (InvalidObject, UnicodeDecodeError) as error:
        raise MetricsUnavailable(f"its metrics cannot be read: {error}") from error


def decode_one(body: bytes, cluster: str) -> MemberItems:
    """Decodes a member's single PodMetrics or NodeMetrics. Raises MetricsUnavailable."""
    try:
        _check_text(body)
        return _annotated([decode_json(body, _AnyItem)], [body.strip()], cluster)
    except (InvalidJson, UnicodeDecodeError) as error:
        raise MetricsUnavailable(f"its metrics cannot be read: {error}") from error


def _common_list(body: bytes, cluster: str) -> MemberItems | None:
    """Returns the items of a list in the form that metrics-server writes; None for another form."""
    begin, end = body.find(LIST_OPENING) + len(LIST_OPENING), body.rfind(b"]")
    if not body.isascii() or ESCAPE in body or ANNOTATION in body or UNCOMMON_USAGE(body):
        return None
    annotation = b'"annotations":%b,' % msgspec.json.encode({CLUSTER_ANNOTATION: cluster})
    # The list with its brackets.
    text = body[begin - 1 : end + 1].replace(COMMON_ITEM, b'%b%b"name":"' % (ITEM_OPENING, annotation))
    try:
        page = decode_json(body[:begin] + body[end:], _List[_Object])
        items = decode_json(text, list[_CommonItem])
    except InvalidJson:
        return None  # The other decoder finds out why.
    # No item had the annotation, and each has it now. It was put in once for each item, and not into an
    # unknown field in which another item seems to begin.
    if page.items != [] or not items or len(text) - (end - begin + 2) != len(annotation) * len(items):
        return None
    check_list_type(page.kind, page.apiVersion, len(body), LIST_KINDS, (METRICS_API,))
    objects = b"".join((b",", memoryview(text)[1:-1]))
    return MemberItems(cluster, [objects], len(items), {item.metadata.namespace for item in items})


def _any_list(body: bytes, cluster: str) -> MemberItems:
    _check_text(body)
    page = decode_json(body, _List[_AnyItem])
    check_list_type(page.kind, page.apiVersion, len(body), LIST_KINDS, (METRICS_API,))
    # A second pass over the bytes is cheaper than a decode for each item.
    objects = decode_json(body, _List[msgspec.Raw]).items or ()
    return _annotated(page.items or (), [bytes(json) for json in objects], cluster)


def _check_text(body: bytes) -> None:
    """Raises UnicodeDecodeError for invalid UTF-8. The decoder does not check the parts that it skips."""
    if not body.isascii():
        body.decode()


def _annotated(items: Sequence[_AnyItem], objects: Sequence[bytes], cluster: str) -> MemberItems:
    """Returns items with the annotation of the cluster, after a check of their usage."""
    annotations = msgspec.json.encode({CLUSTER_ANNOTATION: cluster})
    opening = b'%b"annotations":%b,' % (ITEM_OPENING, annotations)
    found = []
    for item, json in zip(items, objects, strict=True):
        _check_usage(item)
        is_plain = json.startswith(ITEM_OPENING) and item.metadata.annotations is msgspec.UNSET
        found.append(opening + json[len(ITEM_OPENING) :] if is_plain else _rewritten(json, item, cluster))
    return MemberItems.of(cluster, found, {item.metadata.namespace for item in items})


def _rewritten(json: bytes, item: _AnyItem, cluster: str) -> bytes:
    fields = decode_json(json, _Fields)
    annotations = {**(item.metadata.annotations or {}), CLUSTER_ANNOTATION: cluster}
    parts = [b'{"metadata":', msgspec.json.encode({**fields.metadata, "annotations": annotations})]
    for name in ("timestamp", "window", "containers", "usage"):
        value = getattr(fields, name)
        if value:
            parts += (b',"', name.encode(), b'":', value)
    return b"".join((*parts, b"}"))


def _check_usage(item: _AnyItem) -> None:
    for field, usage in _usages(item):
        for resource, value in (usage or {}).items():
            problem = _problem(value)
            if problem:
                name = f"{item.metadata.namespace}/{item.metadata.name}".strip("/")
                raise MetricsUnavailable(
                    f"its metrics cannot be used: {name}: {field}usage.{resource} {value!r} {problem}"
                )


def _usages(item: _AnyItem) -> Iterator[tuple[str, Mapping[str, RawQuantity] | None]]:
    yield "", item.usage
    for index, container in enumerate(item.containers or ()):
        yield f"containers[{index}].", container.usage


def _problem(value: RawQuantity) -> str:
    try:
        return "is negative" if Quantity.parse(value).nano < 0 else ""
    except InvalidQuantity:
        return "is not a quantity"
