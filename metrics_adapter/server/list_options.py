"""Query parameters of lists that Kubernetes' servers check, and the timeout that any request may have.

Source: Kubernetes 1.36, metav1.ListOptions and its validation, and apiserver's filter for request deadlines.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from aiohttp import web
from aiohttp.typedefs import Handler

from fedhpa.api.errors import InvalidObject
from fedhpa.api.times import parse_duration
from fedhpa.serving.status import status_response

INTEGERS = ("limit", "timeoutSeconds")
MATCHES = ("Exact", "NotOlderThan")
MATCH = "resourceVersionMatch"
MAX_SHOWN = 64
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)


@web.middleware
async def checked_timeout(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Middleware that refuses a `timeout` that is no duration. Clients of Kubernetes send one always."""
    timeout = request.query.get("timeout")
    if timeout:
        try:
            parse_duration(timeout[:MAX_SHOWN])
        except InvalidObject as error:
            return status_response(400, f"invalid timeout specified in the request URL - {error}")
    return await handler(request)


def refuse_list_options(query: Mapping[str, str]) -> web.Response | None:
    """Returns 400 or 422 for parameters of a list that cannot be used; None if all can."""
    for name in INTEGERS:
        text = query.get(name)
        if text and not _INTEGER.fullmatch(text):
            shown = text[:MAX_SHOWN]
            return status_response(400, f'strconv.ParseInt: parsing "{shown}": invalid syntax')
    problems = _problems(query)
    if not problems:
        return None
    causes = [{"reason": reason, "message": message, "field": field} for field, reason, message in problems]
    texts = [f"{field}: {message}" for field, _, message in problems]
    joined = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    return status_response(
        422,
        f'ListOptions.meta.k8s.io "" is invalid: {joined}',
        reason="Invalid",
        details={"group": "meta.k8s.io", "kind": "ListOptions", "causes": causes},
    )


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
