"""Which objects of a collection a request wants: label selectors and the field selectors of each kind."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fedhpa.api.errors import InvalidObject
from fedhpa.api.selectors import Selector, parse_selector
from testbed.embedded.api import statuses as refusals
from testbed.embedded.api.types import Object
from testbed.embedded.objects.kinds import Kind

_EVERYWHERE: Final = ("metadata.name", "metadata.namespace")
_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "pods": (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "status.phase",
    ),
    "events": (
        *(
            f"involvedObject.{field}"
            for field in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
        ),
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
    "secrets": ("type",),
    "namespaces": ("status.phase",),
    "nodes": ("spec.unschedulable",),
    "replicasets": ("status.replicas",),
}
_TERM = re.compile(r"([^=!]+)(!=|==|=)(.*)", re.DOTALL)


@dataclass(frozen=True)
class Selection:
    """A condition on objects."""

    labels: Selector
    fields: tuple[tuple[str, bool, str], ...]

    def __call__(self, obj: Object) -> bool:
        """Whether an object is wanted."""
        return self.labels.matches(obj["metadata"].get("labels")) and all(
            (_field(obj, path) == value) is equal for path, equal, value in self.fields
        )

    @property
    def everything(self) -> bool:
        """Whether nothing is left out."""
        return not self.labels.requirements and not self.fields


def selection(kind: Kind, query: Mapping[str, str]) -> Selection:
    """What a request selects. Refusal BadRequest."""
    try:
        labels = parse_selector(query.get("labelSelector", ""))
    except InvalidObject as error:
        raise refusals.bad_request(
            f"unable to parse requirement: {error}" if "unable" not in str(error) else str(error)
        ) from error
    return Selection(labels, tuple(_terms(kind, query.get("fieldSelector", ""))))


def _terms(kind: Kind, text: str) -> list[tuple[str, bool, str]]:
    terms = []
    for term in filter(None, text.split(",")):
        match = _TERM.fullmatch(term)
        if match is None:
            raise refusals.bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        path, operator, value = match.groups()
        known = () if kind.custom else _FIELDS.get(kind.plural, ())
        if path not in (*_EVERYWHERE, *known):
            raise refusals.bad_request(
                f"field label not supported: {path}"
                if kind.custom or known
                else f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"'
            )
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
