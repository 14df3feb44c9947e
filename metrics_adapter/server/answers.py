"""Metrics as HTTP answers: lists and single items as JSON, YAML or Table, and the refusals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import yaml
from aiohttp import web
from multidict import CIMultiDict

from fedhpa.api.selectors import FieldSelector
from fedhpa.serving.status import status_response
from metrics_adapter.kinds import API_VERSION, GROUP, MetricsKind
from metrics_adapter.members.gather import Gathered, MembersSource
from metrics_adapter.members.items import Item
from metrics_adapter.server.bodies import ListBody
from metrics_adapter.server.negotiation import JSON, YAML, Form, warnings_header
from metrics_adapter.server.tables import table

# Bytes of JSON, some two hundred items.
LONGEST_WRITTEN = 64 * 1024


def item_json(kind: MetricsKind, item: Item) -> bytes:
    """A single PodMetrics or NodeMetrics."""
    head = f'{{"kind":"{kind.kind}","apiVersion":"{API_VERSION}",'
    return head.encode() + item.json[1:]


def filtered(items: Sequence[Item], fields: FieldSelector) -> Sequence[Item]:
    """The items that a field selector selects."""
    return [item for item in items if fields.matches(name=item.name, namespace=item.namespace)]


def warning_headers(gathered: Gathered[Any]) -> CIMultiDict[str]:
    """A warning for each member that did not answer."""
    return CIMultiDict[str](("Warning", value) for value in warnings_header(gathered.warnings()))


def respond(body: bytes | ListBody, form: Form, gathered: Gathered[Any]) -> web.Response:
    """200 with the body, which is JSON or a Table, and a warning for each member that did not answer."""
    headers = warning_headers(gathered)
    if form is Form.YAML:
        return as_yaml(body if isinstance(body, bytes) else body.whole(), headers)
    if isinstance(body, ListBody):
        headers["Content-Length"] = str(body.length)
    return web.Response(body=body, content_type=JSON, headers=headers)


def as_yaml(body: bytes, headers: CIMultiDict[str] | None = None) -> web.Response:
    """200 with a JSON document as YAML; a large one as it is, for JSON is YAML, in one line.

    Writing YAML costs a millisecond an item, during which nobody else would be answered.
    """
    if len(body) > LONGEST_WRITTEN:
        return web.Response(body=body, content_type=YAML, charset="utf-8", headers=headers)
    text = yaml.safe_dump(msgspec.json.decode(body), default_flow_style=False, sort_keys=True)
    return web.Response(text=text, content_type=YAML, headers=headers)


def table_body(kind: MetricsKind, items: Sequence[Item], query: Mapping[str, str], *, single: bool) -> bytes:
    """The Table of items, with what the caller wants to see of the objects."""
    return table(items, kind.kind, API_VERSION, query.get("includeObject", ""), single=single)


def unavailable(gathered: Gathered[Any]) -> web.Response:
    """503: members are expected and none answered."""
    return status_response(503, f"no member cluster answered: {gathered.reasons()}")


def not_found(kind: MetricsKind, namespace: str, name: str, gathered: Gathered[Any]) -> web.Response:
    """404: no member that answered has it; members that did not answer are named in warnings."""
    headers = warning_headers(gathered)
    if not gathered.missing:
        details = {"name": name, "kind": kind.plural}
        return status_response(404, f'{kind.plural} "{name}" not found', details=details, headers=headers)
    # It may exist where nobody answered: then it is its metrics that were not found.
    full, resource = f"{namespace}/{name}" if namespace else name, kind.kind.lower()
    details = {"name": full, "group": GROUP, "kind": resource}
    return status_response(404, f'{resource}.{GROUP} "{full}" not found', details=details, headers=headers)


def ambiguous(kind: MetricsKind, name: str, items: Sequence[Item]) -> web.Response:
    """409: several clusters have an object of that name."""
    clusters = ", ".join(item.cluster for item in items)
    message = (
        f'Operation cannot be fulfilled on {kind.plural}.{GROUP} "{name}": found in more than one cluster:'
        f" {clusters}; choose one with ?cluster=NAME"
    )
    return status_response(409, message, details={"name": name, "group": GROUP, "kind": kind.plural})


def cluster_of(request: web.Request, source: MembersSource) -> tuple[str | None, web.Response | None]:
    """The one cluster that `?cluster=` chooses, or 404 where it is not known."""
    cluster = request.query.get("cluster")
    if cluster is None or source.knows(cluster):
        return cluster, None
    message = f'clusters.cluster.karmada.io "{cluster}" not found'
    details = {"name": cluster, "group": "cluster.karmada.io", "kind": "clusters"}
    return None, status_response(404, message, details=details)


def no_watch(group: str, resource: str) -> web.Response:
    """405: metrics cannot be watched."""
    message = f'watch is not supported on resources of kind "{resource}.{group}"'
    return status_response(405, message, details={"group": group, "kind": resource})


def not_acceptable() -> web.Response:
    """406: none of the forms that the caller takes can be given."""
    message = (
        "only the following media types are accepted: application/json,"
        " application/json;as=Table;v=v1;g=meta.k8s.io, application/yaml"
    )
    return status_response(406, message)
