"""Lists: label and field selectors, and pages of one version."""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from fedhpa.api.errors import InvalidObject
from fedhpa.api.selectors import Selector, parse_selector
from testbed.embedded.api import statuses
from testbed.embedded.api.requests import ResourceRequest
from testbed.embedded.api.types import Object, StatusError
from testbed.embedded.objects.kinds import Kind
from testbed.embedded.storage.store import Store

_EVERY_KIND: Final = ("metadata.name", "metadata.namespace")
_INVOLVED: Final = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "pods": ("spec.nodeName", "spec.restartPolicy", "spec.serviceAccountName", "status.phase"),
    "events": (
        *(f"involvedObject.{field}" for field in _INVOLVED),
        *("reason", "reportingComponent", "source", "type"),
    ),
    "secrets": ("type",),
    "namespaces": ("status.phase",),
    "nodes": ("spec.unschedulable",),
}
_TERM: Final = re.compile(r"([^=!]+)(!=|==|=)(.*)", re.DOTALL)
_EXPIRED: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new "
    "list without the continue parameter."
)


def list_objects(store: Store, request: ResourceRequest) -> Object:
    """Returns the list. Raises StatusError: BadRequest for a wrong query, Expired for an old version."""
    kind, query = request.kind, request.query
    wanted = selection(kind, query)
    version, start = store.version, ""
    if query.get("continue"):
        version, start = _read_token(query["continue"])
    try:
        found = store.at(kind.collection, version, request.namespace)
    except StatusError as error:
        raise statuses.expired(_EXPIRED) if start else error from error
    items = [obj for obj in found if _key(obj) > start and wanted(obj)]
    metadata: Object = {"resourceVersion": str(version)}
    # A real API server answers resourceVersion=0 from its cache, without pages.
    limit = 0 if query.get("resourceVersion") == "0" else int(query.get("limit") or 0)
    if limit and len(items) > limit:
        metadata["continue"] = _token(version, _key(items[limit - 1]))
        if wanted.everything:
            metadata["remainingItemCount"] = len(items) - limit
        items = items[:limit]
    for obj in items:
        # Items of built-in kinds carry no kind; the list has it.
        for name in ("kind", "apiVersion"):
            obj.pop(name, None)
        if kind.custom:
            obj |= {"kind": kind.kind, "apiVersion": kind.api_version}
    return {"kind": kind.list_kind, "apiVersion": kind.api_version, "metadata": metadata, "items": items}


def _key(obj: Object) -> str:
    return f"{obj['metadata'].get('namespace', '')}/{obj['metadata']['name']}"


def _token(version: int, last: str) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode((version, last))).decode()


def _read_token(token: str) -> tuple[int, str]:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(token), type=tuple[int, str])
    except (ValueError, msgspec.DecodeError) as error:
        raise statuses.bad_request(f"continue key is not valid: {error}") from error


@dataclass(frozen=True)
class Selection:
    """A condition on objects; `fields` are (path, equal or not, value)."""

    labels: Selector
    fields: tuple[tuple[str, bool, str], ...]

    def __call__(self, obj: Object) -> bool:
        """True if the object is selected."""
        return self.labels.matches(obj["metadata"].get("labels")) and all(
            (_field(obj, path) == value) is equal for path, equal, value in self.fields
        )

    @property
    def everything(self) -> bool:
        """True if every object is selected."""
        return not self.labels.requirements and not self.fields


def selection(kind: Kind, query: Mapping[str, str]) -> Selection:
    """Returns the selection of a query. Raises StatusError BadRequest."""
    try:
        labels = parse_selector(query.get("labelSelector", ""))
    except InvalidObject as error:
        raise statuses.bad_request(f"unable to parse requirement: {error}") from error
    return Selection(labels, tuple(_terms(kind, query.get("fieldSelector", ""))))


def _terms(kind: Kind, text: str) -> list[tuple[str, bool, str]]:
    terms = []
    for term in filter(None, text.split(",")):
        match = _TERM.fullmatch(term)
        if match is None:
            raise statuses.bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        path, operator, value = match.groups()
        known = () if kind.custom else _FIELDS.get(kind.plural, ())
        if path not in (*_EVERY_KIND, *known):
            raise statuses.bad_request(f"field label not supported: {path}")
        terms.append((path, operator != "!=", value))
    return terms


def _field(obj: Object, path: str) -> str:
    value: object = obj
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if path == "source" and isinstance(value, dict):
        value = value.get("component")
    if path == "spec.unschedulable":
        return "true" if value else "false"
    return "" if value is None else str(value)
