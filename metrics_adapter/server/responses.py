"""HTTP responses: lists and single items as JSON, YAML or Table, and the error responses."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml
from aiohttp import web
from multidict import CIMultiDict

from fedhpa.api.json import InvalidJson, decode_json
from fedhpa.serving.authorization import FALSE_WORDS
from fedhpa.serving.error_responses import MESSAGES, Refusal, status_response
from metrics_adapter.apis import API_VERSION, GROUP, MetricsKind
from metrics_adapter.members.resource_metrics import Item
from metrics_adapter.members.source import Gathered, MembersSource
from metrics_adapter.pace import in_thread_above
from metrics_adapter.server.bodies import Body, BodyPayload
from metrics_adapter.server.negotiation import (
    JSON,
    YAML,
    Form,
    Representation,
    choose_form,
    warning_values,
)

YAML_TYPE = f"{YAML}; charset=utf-8"
# Bytes of JSON, about two hundred items.
MAX_YAML_BYTES = 64 * 1024
# Bytes of JSON that are converted at once, in a few milliseconds.
SHORT_YAML_BYTES = 1024
# The parameters of lists that are numbers, and the values of resourceVersionMatch.
INTEGERS = ("limit", "timeoutSeconds")
MATCHES = ("Exact", "NotOlderThan")
MATCH = "resourceVersionMatch"
MAX_SHOWN = 64
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)


def encode_item(kind: MetricsKind, item: Item) -> bytes:
    """Returns the JSON of a single PodMetrics or NodeMetrics."""
    head = f'{{"kind":"{kind.kind}","apiVersion":"{API_VERSION}",'
    return head.encode() + item.json[1:]


def warning_headers(gathered: Gathered[Any]) -> CIMultiDict[str]:
    """Returns a Warning header for each member that did not answer, and for each note."""
    return CIMultiDict[str](("Warning", value) for value in warning_values(gathered.warnings()))


async def metrics_response(body: bytes, form: Form, gathered: Gathered[Any]) -> web.Response:
    """Returns 200 with a JSON, YAML or Table body, and Warning headers for missing members."""
    headers = warning_headers(gathered)
    if form is Form.YAML:
        return await yaml_response(body, headers)
    return web.Response(body=body, content_type=JSON, headers=headers)


async def list_response(
    payload: BodyPayload, body: Body, form: Form, gathered: Gathered[Any]
) -> web.Response:
    """Returns 200 with a list that is sent in pieces. A long one stays JSON if the client requests YAML."""
    headers = warning_headers(gathered)
    if form is Form.YAML and body.weight <= MAX_YAML_BYTES:
        return await yaml_response(body.whole(), headers)
    if payload.compressed:
        headers["Content-Encoding"] = "gzip"
        headers["Vary"] = "Accept-Encoding"
    elif body.length is not None:
        headers["Content-Length"] = str(body.length)
    headers["Content-Type"] = YAML_TYPE if form is Form.YAML else f"{JSON}; charset=utf-8"
    return web.Response(body=payload, headers=headers)


async def yaml_response(body: bytes, headers: CIMultiDict[str] | None = None) -> web.Response:
    """Returns 200 with a JSON document as YAML. A large document stays JSON in one line, which is valid YAML.

    Converting to YAML costs a millisecond an item, so a thread does it.
    """
    headers = CIMultiDict[str]() if headers is None else headers
    text: bytes | None = None
    if len(body) <= MAX_YAML_BYTES:
        text = await in_thread_above(SHORT_YAML_BYTES, len(body), lambda: _yaml(body))
    headers["Content-Type"] = YAML_TYPE
    return web.Response(body=body if text is None else text, headers=headers)


def _yaml(body: bytes) -> bytes | None:
    """Returns the document as YAML; None for a member's item that is passed on and cannot be converted."""
    try:
        return yaml.safe_dump(decode_json(body, Any), default_flow_style=False, sort_keys=True).encode()
    except (InvalidJson, RecursionError):
        return None


def check_answered(gathered: Gathered[Any]) -> None:
    """Refuses with 503 if members were expected to answer and none did."""
    if gathered.none_answered:
        raise Refusal(status_response(503, f"no member cluster answered: {gathered.missing_text()}"))


def not_found(kind: MetricsKind, namespace: str, name: str, gathered: Gathered[Any]) -> web.Response:
    """Returns 404: no member that answered has the object. Warnings name the missing members."""
    headers = warning_headers(gathered)
    if not gathered.missing:
        # As metrics-server, which passes on what its listers of pods and of nodes say.
        resource = kind.plural if kind.namespaced else "node"
        details = {"name": name, "kind": resource}
        return status_response(404, f'{resource} "{name}" not found', details=details, headers=headers)
    # The object may exist in a missing member, so the message says that its metrics were not found.
    full, resource = f"{namespace}/{name}" if namespace else name, kind.kind.lower()
    details = {"name": full, "group": GROUP, "kind": resource}
    return status_response(404, f'{resource}.{GROUP} "{full}" not found', details=details, headers=headers)


def no_resource() -> Refusal:
    """Returns the refusal with 404: the path has another depth than those of the API."""
    return Refusal(status_response(404, MESSAGES[404], details={}))


def ambiguous(kind: MetricsKind, name: str, items: Sequence[Item]) -> web.Response:
    """Returns 409: several clusters have an object of that name."""
    clusters = ", ".join(item.cluster for item in items)
    message = (
        f'Operation cannot be fulfilled on {kind.plural}.{GROUP} "{name}": found in more than one cluster:'
        f" {clusters}; choose one with ?cluster=NAME"
    )
    return status_response(409, message, details={"name": name, "group": GROUP, "kind": kind.plural})


def cluster_of(request: web.Request, source: MembersSource) -> str | None:
    """Returns the cluster that `?cluster=` selects (None: all). Refuses one that is not registered: 404."""
    cluster = request.query.get("cluster") or None
    if cluster is None or source.is_registered(cluster):
        return cluster
    message = f'clusters.cluster.karmada.io "{cluster}" not found'
    details = {"name": cluster, "group": "cluster.karmada.io", "kind": "clusters"}
    raise Refusal(status_response(404, message, details=details))


def check_watch(request: web.Request, group: str, resource: str) -> None:
    """Refuses a watch with 405: metrics cannot be watched."""
    if request.query.get("watch", "0").lower() not in FALSE_WORDS:
        message = f'watch is not supported on resources of kind "{resource}.{group}"'
        raise Refusal(status_response(405, message, details={"group": group, "kind": resource}))


def accepted_form(request: web.Request, metadata: str = "") -> Representation:
    """Returns the form that `choose_form` finds. Refuses with 406 if it offers no accepted type."""
    found = choose_form(request.headers.get("Accept", ""), metadata)
    if found is None:
        message = (
            "only the following media types are accepted: application/json,"
            " application/json;as=Table;v=v1;g=meta.k8s.io, application/yaml"
        )
        raise Refusal(status_response(406, message))
    return found


def check_numbers(query: Mapping[str, str]) -> None:
    """Refuses a parameter that is no number with 400."""
    for name in INTEGERS:
        text = query.get(name, "0")
        if not _INTEGER.fullmatch(text):
            message = f'strconv.ParseInt: parsing "{text[:MAX_SHOWN]}": invalid syntax'
            raise Refusal(status_response(400, message))


def check_list_options(query: Mapping[str, str]) -> None:
    """Refuses parameters of a list that cannot be used with 400 or 422."""
    check_numbers(query)
    problems = _problems(query)
    if not problems:
        return
    causes = [{"reason": reason, "message": message, "field": field} for field, reason, message in problems]
    texts = [f"{field}: {message}" for field, _, message in problems]
    joined = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    message = f'ListOptions.meta.k8s.io "" is invalid: {joined}'
    details = {"group": "meta.k8s.io", "kind": "ListOptions", "causes": causes}
    raise Refusal(status_response(422, message, reason="Invalid", details=details))


def _problems(query: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Returns field, reason and message of each rule that is broken."""
    found = []
    match, version = query.get(MATCH), query.get("resourceVersion", "")
    if match:
        if not version:
            found.append((MATCH, *_forbidden(f"{MATCH} is forbidden unless resourceVersion is provided")))
        if query.get("continue"):
            found.append((MATCH, *_forbidden(f"{MATCH} is forbidden when continue is provided")))
        if match not in MATCHES:
            known = ", ".join(f'"{name}"' for name in (*MATCHES, ""))
            text = f'Unsupported value: "{match[:MAX_SHOWN]}": supported values: {known}'
            found.append((MATCH, "FieldValueNotSupported", text))
        if match == "Exact" and version == "0":
            found.append((MATCH, *_forbidden(f'{MATCH} "exact" is forbidden for resourceVersion "0"')))
    if "sendInitialEvents" in query:
        found.append(("sendInitialEvents", *_forbidden("sendInitialEvents is forbidden for list")))
    return found


def _forbidden(message: str) -> tuple[str, str]:
    return "FieldValueForbidden", f"Forbidden: {message}"
