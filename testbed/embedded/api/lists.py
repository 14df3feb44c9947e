"""Lists: label and field selectors, and pages. A page has the objects as they are when it is read."""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fedhpa.api.errors import InvalidObject
from fedhpa.api.selectors import Selector, parse_selector
from testbed.embedded.api import statuses
from testbed.embedded.api.requests import ResourceRequest
from testbed.embedded.api.types import Object
from testbed.embedded.storage.store import Store

_TERM: Final = re.compile(r"([^=!]+)(!=|==|=)(.*)", re.DOTALL)


def list_objects(store: Store, request: ResourceRequest) -> Object:
    """Returns the list. Raises StatusError BadRequest for a wrong selector."""
    kind, query = request.kind, request.query
    wanted = selection(query)
    start = base64.urlsafe_b64decode(query.get("continue", "")).decode()
    found = store.list(kind.collection, request.namespace)
    items = [obj for obj in found if _key(obj) > start and wanted(obj)]
    metadata: Object = {"resourceVersion": str(store.version)}
    # A real API server answers resourceVersion=0 from its cache, without pages.
    limit = 0 if query.get("resourceVersion") == "0" else int(query.get("limit") or 0)
    if limit and len(items) > limit:
        metadata["continue"] = base64.urlsafe_b64encode(_key(items[limit - 1]).encode()).decode()
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


def selection(query: Mapping[str, str]) -> Selection:
    """Returns the selection of a query. Raises StatusError BadRequest."""
    try:
        labels = parse_selector(query.get("labelSelector", ""))
    except InvalidObject as error:
        raise statuses.bad_request(f"unable to parse requirement: {error}") from error
    return Selection(labels, tuple(_terms(query.get("fieldSelector", ""))))


def _terms(text: str) -> list[tuple[str, bool, str]]:
    terms = []
    for term in filter(None, text.split(",")):
        match = _TERM.fullmatch(term)
        if match is None:
            raise statuses.bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        path, operator, value = match.groups()
        terms.append((path, operator != "!=", value))
    return terms


def _field(obj: Object, path: str) -> str:
    value: object = obj
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return "" if value is None else str(value)
